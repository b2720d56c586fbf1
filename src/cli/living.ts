// SPDX-License-Identifier: Apache-2.0
// Which containers a runtime says exist: over CRI, from the first socket that answers.

import { statSync } from 'node:fs'
import type { Listed } from '../commands/collect.ts'

const sockets = ['/run/containerd/containerd.sock', '/run/crio/crio.sock', '/run/k3s/containerd/containerd.sock']
const timeoutMs = 5000

/** What the runtime lists, and which one was asked. */
export interface Living {
  readonly listed: Listed
  readonly source: string
}

/** Asks the runtime at `endpoint`, or the first one found. Throws CriError when a named endpoint does not answer. */
export async function askRuntime(endpoint: string | undefined): Promise<Living> {
  const socket = endpoint?.replace(/^unix:\/\//, '') ?? sockets.find(isSocket)
  if (socket === undefined) return { listed: undefined, source: 'no runtime socket found' }
  try {
    return { listed: await listSandboxes(socket), source: socket }
  } catch (error) {
    if (endpoint !== undefined) throw error
    return { listed: undefined, source: `${socket} did not answer: ${(error as Error).message}` }
  }
}

async function listSandboxes(socket: string): Promise<ReadonlySet<string>> {
  // Only this command pays for gRPC.
  const { openCri } = await import('./cri/client.ts')
  const cri = openCri(socket, { timeoutMs })
  try {
    const { items } = await cri.call('ListPodSandbox', {})
    return new Set(items.map(({ id }) => id))
  } finally {
    cri.close()
  }
}

function isSocket(path: string): boolean {
  try {
    return statSync(path).isSocket()
  } catch {
    return false
  }
}
