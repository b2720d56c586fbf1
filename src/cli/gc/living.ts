// SPDX-License-Identifier: Apache-2.0
// The containers that exist by the word of the runtimes: sandboxes over CRI, and all containers of containerd.

import { CniError } from '../../cni/model/error.ts'
import type { Listed } from '../../commands/teardown/collect.ts'
import { isSocket, runtimeSockets } from '../node/runtimes.ts'
import type { Progress } from '../shell/output.ts'

const timeoutMs = 5000

/** The containers of the runtimes, and the sockets of these runtimes. */
export interface Living {
  readonly listed: Listed
  readonly source: string
}

/**
 * Asks the runtime at `endpoint`, or all runtimes of the node. Without an answer of each runtime the list would be
 * incomplete, and is undefined. Throws CniError 5 when a given `endpoint` does not answer.
 */
export async function askRuntime(endpoint: string | undefined, progress: Progress): Promise<Living> {
  const found = endpoint === undefined ? runtimeSockets() : [endpoint.replace(/^unix:\/\//, '')]
  if (endpoint !== undefined && !found.every(isSocket)) throw silent(endpoint, 'there is no such socket')
  if (found.length === 0) return { listed: undefined, source: 'no runtime socket found' }
  const listed = new Set<string>()
  for (const socket of found) {
    progress(`asking the runtime at ${socket}`)
    try {
      for (const id of await listAll(socket)) listed.add(id)
    } catch (error) {
      if (endpoint !== undefined) throw silent(endpoint, (error as Error).message)
      return { listed: undefined, source: `${socket} did not answer: ${(error as Error).message}` }
    }
  }
  return { listed, source: found.join(', ') }
}

/** Asks both services: containerd may lack CRI (`disabled_plugins = ["cri"]`), CRI-O lacks containerd's services. */
async function listAll(socket: string): Promise<readonly string[]> {
  // Loaded late, because other commands need no gRPC.
  const { CriError, openCri } = await import('../cri/client.ts')
  const { listContainerd } = await import('../cri/containerd.ts')
  const cri = openCri(socket, { timeoutMs })
  try {
    const containers = await listContainerd(socket, timeoutMs)
    const sandboxes = await cri.call('ListPodSandbox', {}).catch((error: unknown) => {
      const isWithout = error instanceof CriError && error.code === 'UNIMPLEMENTED'
      if (isWithout && containers !== undefined) return { items: [] }
      throw error
    })
    return [...(containers ?? []), ...sandboxes.items.map(({ id }) => id)]
  } finally {
    cri.close()
  }
}

function silent(endpoint: string, why: string): CniError {
  const details =
    'name the socket of a running runtime, like unix:///run/containerd/containerd.sock, or use --no-runtime'
  return new CniError('runtime-silent', `the runtime at ${endpoint} does not answer: ${why}`, { details })
}
