// SPDX-License-Identifier: Apache-2.0
// The runtimes of the node: their directories, and their view of the network.

import { existsSync } from 'node:fs'
import { defined } from '../../cni/json.ts'
import { linkIfThere } from '../if-there.ts'
import { isOverlay } from '../lint/directory-findings.ts'
import { askSocket } from '../runtimes/ask-runtime.ts'
import { type NodeRuntime, nodeRuntimes, runtimeText, socketsAt } from '../runtimes/node-runtimes.ts'
import { processesOf } from '../runtimes/processes.ts'
import { defaultBinDir, defaultConfDir } from '../runtimes/runtime-settings.ts'
import { type Group, groups, type RuntimeFacts } from './facts.ts'

const timeoutMs = 5000

/** Directories or a socket that a person names in place of the runtime's. */
export interface Named {
  readonly confDir?: string
  readonly binDirs?: readonly string[]
  readonly endpoint?: string
}

export const defaults = { confDir: defaultConfDir, binDirs: [defaultBinDir] } as const

/** The facts, and the runtimes of the node as `trestle lint` has them. */
export interface Runtimes {
  readonly facts: readonly RuntimeFacts[]
  readonly found: readonly NodeRuntime[]
}

/** Asks each runtime of this node, or the one at `endpoint`. */
export async function lookAtRuntimes(named: Named): Promise<Runtimes> {
  const { endpoint } = named
  const found = endpoint === undefined ? await ofThisNode() : []
  const all =
    endpoint === undefined ? found.map(factsOf) : await Promise.all(socketsAt(endpoint).map((socket) => askOne(socket)))
  return { facts: all.map((runtime) => ({ ...runtime, ...namedDirectories(named) })), found }
}

export function namedDirectories({ confDir, binDirs }: Named) {
  return defined({ confDir, source: confDir && '--config-dir', binDirs })
}

/** A runtime in another network namespace belongs to another node, in a container of this one. */
async function ofThisNode(): Promise<readonly NodeRuntime[]> {
  const own = linkIfThere('/proc/self/ns/net')
  const all = await nodeRuntimes({ timeoutMs })
  return all.filter(({ pid }) => pid === undefined || linkIfThere(`/proc/${pid}/ns/net`) === own)
}

function factsOf(found: NodeRuntime): RuntimeFacts {
  const { runtime, pid, socket, settings, source, root, notReady, isDenied } = found
  const isSilent = pid !== undefined && socket === undefined && isDenied !== true && process.geteuid?.() === 0
  return {
    name: runtime,
    text: runtimeText(found),
    confDir: `${root}${settings.confDir}`,
    binDirs: settings.binDirs.map((directory) => `${root}${directory}`),
    source,
    ...defined({ socket, notReady }),
    ...(isSilent ? { silent: `${runtimeText(found)} runs, and does not answer over CRI` } : {}),
  }
}

async function askOne(socket: string): Promise<RuntimeFacts> {
  const unknown = { name: 'containerd', text: `the runtime at ${socket}`, socket, ...defaults, source: 'its defaults' }
  try {
    const { runtime, answer, notReady } = await askSocket(socket, timeoutMs)
    return {
      ...unknown,
      name: runtime,
      text: `${runtime} at ${socket}`,
      ...(answer && { ...answer.settings, source: answer.source }),
      ...(notReady === undefined ? {} : { notReady }),
    }
  } catch (error) {
    return { ...unknown, silent: (error as Error).message }
  }
}

// Whether this process is in a container that hides its node: then missing parts say nothing about the node.

/** The pid namespace that the kernel starts with (include/linux/proc_ns.h, PROC_PID_INIT_INO). */
const firstPidNamespace = 'pid:[4026531836]'

const nodePrograms = ['containerd', 'crio', 'cri-dockerd', 'dockerd', 'kubelet', 'k3s', 'k3s-server', 'k3s-agent']

/** Groups that need the node's processes and files: all but a probe. */
export const groupsOfNode: readonly Group[] = groups.filter((group) => group !== 'probe')

/**
 * The reason if the node is hidden; undefined on a node. A node in a container, as with kind, has its runtime beside
 * us.
 */
export function containerReason(): string | undefined {
  if (linkIfThere('/proc/self/ns/pid') === firstPidNamespace || !isMarked()) return undefined
  if (processesOf(nodePrograms).length > 0) return undefined
  const cure = 'run it on the node itself, or with its pid and network namespaces and its directories'
  return `it runs in a container that sees neither the processes nor the files of its node: ${cure}`
}

/** Kubernetes tells every pod the address of the API server; podman and systemd-nspawn set `container`. */
function isMarked(): boolean {
  const { env } = process
  const isNamed = Boolean(env['KUBERNETES_SERVICE_HOST'] || env['container'])
  return isNamed || existsSync('/run/.containerenv') || (existsSync('/.dockerenv') && isOverlay('/'))
}
