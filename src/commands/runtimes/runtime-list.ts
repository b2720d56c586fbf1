// SPDX-License-Identifier: Apache-2.0
// The pod sandboxes that runtimes list over CRI.

import { failureOf } from '../failure.ts'
import type { Progress } from '../output.ts'
import { hasNoCri } from './ask-runtime.ts'
import { isSocket, socketsAt } from './node-runtimes.ts'

const timeoutMs = 5000

export interface PodSandbox {
  readonly id: string
  /** NAMESPACE/NAME, by kubelet's names. */
  readonly pod: string
  readonly isReady: boolean
}

/** `listed`: undefined where not every runtime has answered; `source`: which did, or why not. */
interface Living {
  readonly listed: ReadonlySet<string> | undefined
  readonly source: string
  readonly sandboxes: readonly PodSandbox[]
}

/** Asks the runtime at `endpoint`, or all of the node. Throws CniError 5 when a given `endpoint` does not answer. */
export async function askRuntime(endpoint: string | undefined, progress: Progress): Promise<Living> {
  const found = socketsAt(endpoint)
  const sandboxes: PodSandbox[] = []
  let failure = found.length === 0 ? 'no runtime socket found' : undefined
  for (const socket of found) {
    progress(`asking the runtime at ${socket}`)
    try {
      if (!isSocket(socket)) throw new Error('there is no such socket')
      sandboxes.push(...(await sandboxesOf(socket)))
    } catch (error) {
      // Docker's containerd serves no CRI, and no pods.
      if (hasNoCri(error) && endpoint === undefined) continue
      const { message } = error as Error
      failure ??= `${socket} did not answer: ${message}`
      if (endpoint === undefined) continue
      const details =
        'name the socket of a running runtime, like unix:///run/containerd/containerd.sock, or use --no-runtime'
      throw failureOf('runtime-silent', `the runtime at ${endpoint} does not answer: ${message}`, { details })
    }
  }
  const listed = failure === undefined ? new Set(sandboxes.map(({ id }) => id)) : undefined
  return { listed, source: failure ?? found.join(', '), sandboxes }
}

async function sandboxesOf(socket: string): Promise<readonly PodSandbox[]> {
  // Loaded late, because other commands need no gRPC.
  const { openRuntime, sandboxReady } = await import('./cri.ts')
  const runtime = openRuntime(socket, timeoutMs)
  try {
    const { items } = await runtime.call('ListPodSandbox')
    return items.map(({ id, metadata, state }) => {
      return { id, pod: `${metadata?.namespace}/${metadata?.name}`, isReady: state === sandboxReady }
    })
  } finally {
    runtime.close()
  }
}
