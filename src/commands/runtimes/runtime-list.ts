// SPDX-License-Identifier: Apache-2.0
// The containers that runtimes list: sandboxes over CRI, and all containers of containerd, also of ctr and nerdctl, which
// CRI does not list.

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

/** `listed`: undefined where not every runtime has answered; `source`: which did, or why not. */
interface Living {
  readonly listed: ReadonlySet<string> | undefined
  readonly source: string
  readonly sandboxes: readonly PodSandbox[]
}

/** Asks the runtime at `endpoint`, or all of the node. Throws CniError 5 when a given `endpoint` does not answer. */
export async function askRuntime(endpoint: string | undefined, progress: Progress): Promise<Living> {
  const found = socketsAt(endpoint)
  const listed = new Set<string>()
  const sandboxes: PodSandbox[] = []
  let failure = found.length === 0 ? 'no runtime socket found' : undefined
  for (const socket of found) {
    progress(`asking the runtime at ${socket}`)
    try {
      if (!isSocket(socket)) throw new Error('there is no such socket')
      const all = await listAll(socket)
      for (const id of [...all.containers, ...all.sandboxes.map(({ id }) => id)]) listed.add(id)
      sandboxes.push(...all.sandboxes)
    } catch (error) {
      const { message } = error as Error
      failure ??= `${socket} did not answer: ${message}`
      if (endpoint === undefined) continue
      const details =
        'name the socket of a running runtime, like unix:///run/containerd/containerd.sock, or use --no-runtime'
      throw failureOf('runtime-silent', `the runtime at ${endpoint} does not answer: ${message}`, { details })
    }
  }
  return { listed: failure === undefined ? listed : undefined, source: failure ?? found.join(', '), sandboxes }
}

/** Asks both services: containerd may lack CRI (`disabled_plugins = ["cri"]`), CRI-O lacks containerd's. */
async function listAll(socket: string) {
  // Loaded late, because other commands need no gRPC.
  const { CriError, openRuntime, sandboxReady } = await import('./cri.ts')
  const runtime = openRuntime(socket, timeoutMs)
  const unlessUnimplemented = <T>(call: Promise<T>): Promise<T | undefined> => {
    return call.catch((error: unknown) => {
      if (error instanceof CriError && error.code === 'UNIMPLEMENTED') return undefined
      throw error
    })
  }
  try {
    const own = await unlessUnimplemented(runtime.call('namespaces', 'List'))
    const containers: string[] = []
    for (const { name } of own?.namespaces ?? []) {
      // pkg/namespaces/grpc.go: the header names the namespace of a call.
      const headers = { 'containerd-namespace': name }
      const { containers: all = [] } = await runtime.call('containers', 'List', {}, headers)
      const { tasks = [] } = await runtime.call('tasks', 'List', {}, headers)
      // ctr and nerdctl call plugins with NAMESPACE-ID (cmd/ctr/commands, FullID; nerdctl pkg/ocihook).
      for (const id of [...all.map((each) => each.id), ...tasks.map((each) => each.containerId)]) {
        containers.push(`${name}-${id}`)
      }
    }
    const asked = runtime.call('cri', 'ListPodSandbox')
    const { items } = (own === undefined ? await asked : await unlessUnimplemented(asked)) ?? { items: [] }
    const sandboxes = items.map(({ id, metadata, state }) => {
      return { id, pod: `${metadata?.namespace}/${metadata?.name}`, isReady: state === sandboxReady }
    })
    return { containers, sandboxes }
  } finally {
    runtime.close()
  }
}
