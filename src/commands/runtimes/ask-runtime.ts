// SPDX-License-Identifier: Apache-2.0
// A runtime's own statement of its settings: over CRI (containerd: verbose Status), or over HTTP on CRI-O's socket
// (like `crio status config`).

import { request } from 'node:http'
import { text } from 'node:stream/consumers'
import { parse } from 'smol-toml'
import type { JsonObject } from '../../cni/json.ts'
import { type CniSettings, crioSettings, statusSettings } from './runtime-settings.ts'

export type RuntimeName = 'containerd' | 'CRI-O'

export interface SocketAnswer {
  readonly runtime: RuntimeName
  /** `source`: the request that returned the settings, for reports. */
  readonly answer?: { readonly settings: CniSettings; readonly source: string }
  /** The message of CRI's condition NetworkReady, if the condition is false. */
  readonly notReady?: string
}

/** Whether a server has said that it does not serve CRI, as Docker's containerd. */
export function hasNoCri(answer: unknown): boolean {
  return answer instanceof Error && 'code' in answer && answer.code === 'UNIMPLEMENTED'
}

/** Asks over CRI. Throws CriError without an answer, or when the server has no CRI (UNIMPLEMENTED). */
export async function askSocket(socket: string, timeoutMs: number): Promise<SocketAnswer> {
  // Loaded late, because other commands need no gRPC.
  const { openRuntime } = await import('./cri.ts')
  const runtime = openRuntime(socket, timeoutMs)
  try {
    const { runtimeName } = await runtime.call('Version')
    const { status, info } = await runtime.call('Status', { verbose: true })
    const ready = status?.conditions.find(({ type }) => type === 'NetworkReady')
    const notReady = ready?.status === false ? { notReady: ready.message || ready.reason } : {}
    const isCrio = runtimeName === 'cri-o'
    const settings = isCrio ? await askCrio(socket, timeoutMs) : statusSettings(info)
    const source = isCrio ? 'crio status config' : 'CRI Status'
    const answer = settings === undefined ? {} : { answer: { settings, source } }
    return { runtime: isCrio ? 'CRI-O' : 'containerd', ...answer, ...notReady }
  } finally {
    runtime.close()
  }
}

/** The settings of a running CRI-O; undefined where it does not tell, or not in TOML. */
export async function askCrio(socketPath: string, timeoutMs: number): Promise<CniSettings | undefined> {
  try {
    const signal = AbortSignal.timeout(timeoutMs)
    const answered = await new Promise<string>((resolve, reject) => {
      const asked = request({ socketPath, path: '/config', signal }, (response) => {
        if (response.statusCode === 200) text(response).then(resolve, reject)
        else reject(new Error(`status ${response.statusCode}`))
      })
      asked.on('error', reject)
      asked.end()
    })
    return crioSettings(parse(answered) as JsonObject)
  } catch {
    return undefined
  }
}
