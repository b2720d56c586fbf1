// SPDX-License-Identifier: Apache-2.0
// The runtimes that run on this node, and the directories that they really use, as they say themselves. Read-only.

import { realpathSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { defined } from '../../cni/json.ts'
import { orElse } from '../if-there.ts'
import { askSocket, hasNoCri, type RuntimeName } from './ask-runtime.ts'
import { processesOf, type RuntimeProcess } from './processes.ts'
import { type CniSettings, defaultSettings } from './runtime-settings.ts'

/** A runtime of this node with its directories. */
export interface NodeRuntime {
  readonly runtime: RuntimeName
  /** Absent if no known process owns the socket. */
  readonly pid?: number
  /** Absent where it does not answer: then `settings` are the defaults. */
  readonly socket?: string
  readonly settings: CniSettings
  /** Source of the settings, for reports: `CRI Status`, or `the defaults`. */
  readonly source: string
  /** Prefix of the runtime's paths: empty, or /proc/PID/root. */
  readonly root: string
  /** Its sockets are not open to this user. */
  readonly isDenied?: true
  /** The runtime's message about a network that is not ready. */
  readonly notReady?: string
}

const programs: Readonly<Record<string, RuntimeName>> = { containerd: 'containerd', crio: 'CRI-O' }

interface Asked {
  readonly timeoutMs?: number
  readonly endpoint?: string | undefined
}

/**
 * The runtimes that run and serve CRI, in the order of their process ids. `timeoutMs`: for each call to a socket.
 * `endpoint`: the one socket that is asked.
 */
export async function nodeRuntimes({ timeoutMs = 3000, endpoint }: Asked = {}): Promise<readonly NodeRuntime[]> {
  const running = endpoint === undefined ? processesOf(Object.keys(programs)) : []
  const found: NodeRuntime[] = []
  const answered = new Set<RuntimeProcess>()
  for (const socket of socketsAt(endpoint)) {
    const owner = running.find(({ sockets }) => sockets.some((path) => isSameFile(path, socket)))
    const answer = await askSocket(socket, timeoutMs).catch((error: Error) => error)
    if (answer instanceof Error) {
      // Docker's containerd serves no CRI, and no pods.
      if (owner !== undefined && hasNoCri(answer)) answered.add(owner)
      continue
    }
    if (owner !== undefined) answered.add(owner)
    const { settings = defaultSettings, source = usual } = answer.answer ?? {}
    const told = defined({ pid: owner?.pid, notReady: answer.notReady })
    found.push({ runtime: answer.runtime, socket, settings, source, root: owner?.root ?? '', ...told })
  }
  const isDenied = process.geteuid?.() !== 0
  for (const { name, pid, root } of running.filter((each) => !answered.has(each))) {
    const runtime = programs[name] ?? 'containerd'
    found.push({ runtime, pid, root, settings: defaultSettings, source: usual, ...(isDenied ? { isDenied } : {}) })
  }
  return found.toSorted((a, b) => (a.pid ?? 0) - (b.pid ?? 0))
}

const usual = 'the defaults'

/** The name of a runtime with its process, as in a report. */
export function runtimeText({ runtime, pid, socket }: Pick<NodeRuntime, 'runtime' | 'pid' | 'socket'>): string {
  if (pid !== undefined) return `${runtime} (process ${pid})`
  return socket === undefined ? runtime : `${runtime} at ${socket}`
}

/** The directory of a runtime's configurations, as a path in this mount namespace. */
export function confDirOf({ root, settings }: NodeRuntime): string {
  return join(root, settings.confDir)
}

export function binDirsOf({ root, settings }: NodeRuntime): readonly string[] {
  return settings.binDirs.map((directory) => join(root, directory))
}

/** containerd, CRI-O; containerd of k3s and rke2, of k0s, of MicroK8s. */
const knownSockets = [
  '/run/containerd/containerd.sock',
  '/run/crio/crio.sock',
  '/run/k3s/containerd/containerd.sock',
  '/run/k0s/containerd.sock',
  '/var/lib/k0s/run/containerd.sock',
  '/var/snap/microk8s/common/run/containerd.sock',
]

/**
 * The socket at `endpoint`, as crictl writes it, else those of the running runtimes and the known ones, each once, since
 * distributions link one path to another.
 */
export function socketsAt(endpoint: string | undefined): readonly string[] {
  if (endpoint !== undefined) return [endpoint.replace(/^unix:\/\//, '')]
  const own = processesOf(Object.keys(programs)).flatMap(({ sockets }) => sockets)
  const byFile = new Map<string, string>()
  for (const path of [...knownSockets, ...own.filter((each) => each.endsWith('.sock'))].filter(isSocket)) {
    const file = realpathSync(path)
    if (!byFile.has(file)) byFile.set(file, path)
  }
  return [...byFile.values()]
}

function isSameFile(a: string, b: string): boolean {
  return orElse(() => statSync(a).ino === statSync(b).ino && statSync(a).dev === statSync(b).dev, false)
}

/** True if the path is a socket and accessible to this process. */
export function isSocket(path: string): boolean {
  return orElse(() => statSync(path).isSocket(), false)
}
