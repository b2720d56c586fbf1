// SPDX-License-Identifier: Apache-2.0
// Which containers runtimes say exist: sandboxes over CRI, and containerd's own list of all containers.

import { CniError } from '../../cni/model/error.ts'
import type { Listed } from '../../commands/teardown/collect.ts'
import { isSocket, runtimeSockets } from '../node/runtimes.ts'
import type { Progress } from '../shell/output.ts'

const timeoutMs = 5000

/** What the runtimes list, and which were asked. */
export interface Living {
  readonly listed: Listed
  readonly source: string
}

/**
 * Asks the runtime at `endpoint`, or all that are found. One that does not answer makes the list incomplete: then there
 * is none. Throws CniError 5 when a named endpoint does not answer.
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

/** A containerd may have no CRI (`disabled_plugins = ["cri"]`), and CRI-O has no containerd services. */
async function listAll(socket: string): Promise<readonly string[]> {
  // Only this command pays for gRPC.
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
    'name the socket of a runtime that runs, like unix:///run/containerd/containerd.sock, or use --no-runtime'
  return new CniError('runtime-silent', `the runtime at ${endpoint} does not answer: ${why}`, { details })
}
