// SPDX-License-Identifier: Apache-2.0
// The containers that runtimes list: sandboxes over CRI, and all containers of containerd.

import type { CniError } from '../../cni/errors.ts'
import { failureOf } from '../failure.ts'
import type { Progress } from '../output.ts'
import { isSocket, socketsAt } from './node-runtimes.ts'

const timeoutMs = 5000

export interface PodSandbox {
  readonly id: string
  /** NAMESPACE/NAME, by kubelet's names. */
  readonly pod: string
  readonly isReady: boolean
}

/** `sandboxes`: of the runtimes that answered. `inUse`: sockets of those that have some. */
interface Living {
  readonly listed: ReadonlySet<string> | undefined
  readonly source: string
  readonly sandboxes: readonly PodSandbox[]
  readonly inUse: readonly string[]
}

/**
 * Asks the runtime at `endpoint`, or all runtimes of the node. Without an answer of each runtime the list would be
 * incomplete, and is undefined. Throws CniError 5 when a given `endpoint` does not answer.
 */
export async function askRuntime(endpoint: string | undefined, progress: Progress): Promise<Living> {
  const found = socketsAt(endpoint)
  if (endpoint !== undefined && !found.every(isSocket)) throw silent(endpoint, 'there is no such socket')
  if (found.length === 0) return { listed: undefined, source: 'no runtime socket found', sandboxes: [], inUse: [] }
  const listed = new Set<string>()
  const sandboxes: PodSandbox[] = []
  const inUse: string[] = []
  let failure: string | undefined
  for (const socket of found) {
    progress(`asking the runtime at ${socket}`)
    try {
      const all = await listAll(socket)
      for (const id of [...all.containers, ...all.sandboxes.map(({ id }) => id)]) listed.add(id)
      sandboxes.push(...all.sandboxes)
      if (all.sandboxes.length > 0) inUse.push(socket)
    } catch (error) {
      if (endpoint !== undefined) throw silent(endpoint, (error as Error).message)
      failure ??= `${socket} did not answer: ${(error as Error).message}`
    }
  }
  return { listed: failure === undefined ? listed : undefined, source: failure ?? found.join(', '), sandboxes, inUse }
}

/** Asks both services: containerd may lack CRI (`disabled_plugins = ["cri"]`), CRI-O lacks containerd's services. */
async function listAll(socket: string) {
  // Loaded late, because other commands need no gRPC.
  const { CriError, openCri, sandboxReady } = await import('./cri-client.ts')
  const { listContainerd } = await import('./containerd-metadata.ts')
  const cri = openCri(socket, { timeoutMs })
  try {
    const containers = await listContainerd(socket, timeoutMs)
    const { items } = await cri.call('ListPodSandbox', {}).catch((error: unknown) => {
      const isWithout = error instanceof CriError && error.code === 'UNIMPLEMENTED'
      if (isWithout && containers !== undefined) return { items: [] }
      throw error
    })
    const sandboxes = items.map(({ id, metadata, state }) => ({
      id,
      pod: `${metadata?.namespace}/${metadata?.name}`,
      isReady: state === sandboxReady,
    }))
    return { containers: containers ?? [], sandboxes }
  } finally {
    cri.close()
  }
}

function silent(endpoint: string, why: string): CniError {
  const details =
    'name the socket of a running runtime, like unix:///run/containerd/containerd.sock, or use --no-runtime'
  return failureOf('runtime-silent', `the runtime at ${endpoint} does not answer: ${why}`, { details })
}
