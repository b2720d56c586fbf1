// SPDX-License-Identifier: Apache-2.0
// The runtimes of the node: what they say of their directories and of the network.

import { readlinkSync } from 'node:fs'
import { askSocket } from '../../node/ask-runtime.ts'
import { type NodeRuntime, nodeRuntimes, runtimeText } from '../../node/runtime-directories.ts'
import { defaultBinDir, defaultConfDir } from '../../node/runtime-settings.ts'
import type { RuntimeFacts } from './facts.ts'

const timeoutMs = 5000

/** What people say instead of the runtime: its directories, its socket. */
export interface Named {
  readonly confDir?: string
  readonly binDirs?: readonly string[]
  readonly endpoint?: string
}

/** Where runtimes look by themselves. */
export const defaults = { confDir: defaultConfDir, binDirs: [defaultBinDir] } as const

/** The runtimes, and those among them that were found on the node, as `trestle lint` has them. */
export interface Runtimes {
  readonly facts: readonly RuntimeFacts[]
  readonly found: readonly NodeRuntime[]
}

/** Asks each runtime of this node, or the one that is named. */
export async function lookAtRuntimes({ confDir, binDirs, endpoint }: Named): Promise<Runtimes> {
  const found = endpoint === undefined ? await ofThisNode() : []
  const all = endpoint === undefined ? found.map(factsOf) : [await askOne(endpoint.replace(/^unix:\/\//, ''))]
  const facts = all.map((runtime) => ({
    ...runtime,
    ...(confDir === undefined ? {} : { confDir, source: '--config-dir' }),
    ...(binDirs === undefined ? {} : { binDirs }),
  }))
  return { facts, found }
}

/** One in another network namespace is that of another node, in a container of this one. */
async function ofThisNode(): Promise<readonly NodeRuntime[]> {
  const own = networkNamespaceOf('self')
  const all = await nodeRuntimes({ timeoutMs })
  return all.filter(({ pid }) => pid === undefined || networkNamespaceOf(pid) === own)
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
    ...(socket === undefined ? {} : { socket }),
    ...(isSilent ? { silent: `${runtimeText(found)} runs, and does not answer over CRI` } : {}),
    ...(notReady === undefined ? {} : { notReady }),
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
      ...(answer === undefined ? {} : { ...answer.settings, source: answer.source }),
      ...(notReady === undefined ? {} : { notReady }),
    }
  } catch (error) {
    return { ...unknown, silent: (error as Error).message }
  }
}

function networkNamespaceOf(pid: number | 'self'): string {
  try {
    return readlinkSync(`/proc/${pid}/ns/net`)
  } catch {
    return ''
  }
}
