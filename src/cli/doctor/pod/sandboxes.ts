// SPDX-License-Identifier: Apache-2.0
// Which sandboxes the runtimes list for a pod.

import { runtimeSockets } from '../../node/runtime-sockets.ts'
import { isIdOf } from './look-at-pod.ts'
import type { PodSandbox } from './pod-facts.ts'

const timeoutMs = 5000

/** Those of the pod; one that does not answer lists none. `endpoint`: to ask in place of all that are found. */
export async function sandboxesOf(asked: string, endpoint: string | undefined): Promise<readonly PodSandbox[]> {
  const sockets = endpoint === undefined ? runtimeSockets() : [endpoint.replace(/^unix:\/\//, '')]
  const all = (await Promise.all(sockets.map((socket) => listOf(socket).catch(() => [])))).flat()
  return all.filter(({ id, pod }) => pod === asked || isIdOf(asked, id))
}

async function listOf(socket: string): Promise<readonly PodSandbox[]> {
  // Only this command pays for gRPC.
  const { openCri } = await import('../../cri/client.ts')
  const { SandboxState } = await import('../../cri/runtime-v1.ts')
  const cri = openCri(socket, { timeoutMs })
  try {
    const { items } = await cri.call('ListPodSandbox', {})
    return items.map(({ id, metadata, state }) => ({
      id,
      pod: `${metadata?.namespace}/${metadata?.name}`,
      isReady: state === SandboxState.ready,
    }))
  } finally {
    cri.close()
  }
}
