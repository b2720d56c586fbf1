// SPDX-License-Identifier: Apache-2.0
// A runtime's own statement of its settings: over CRI (containerd: verbose Status), or over HTTP on CRI-O's socket
// (like `crio status config`).

import { request } from 'node:http'
import { orElse } from '../if-there.ts'
import { type CniSettings, crioSettings, statusSettings } from './runtime-settings.ts'
import { tableOf } from './toml-file.ts'

export type RuntimeName = 'containerd' | 'CRI-O' | 'cri-dockerd'

/**
 * Whether a runtime passes over files that it cannot use; containerd stops at them. cri-dockerd has dockershim's code
 * (network/cni, getDefaultCNINetwork).
 */
export function skipsFaultyFiles(runtime: string): boolean {
  return runtime === 'CRI-O' || runtime === 'cri-dockerd'
}

/** A runtime's settings. `source`: the request that returned them, for reports. */
interface Answer {
  readonly settings: CniSettings
  readonly source: string
}

export interface SocketAnswer {
  readonly runtime: RuntimeName
  readonly answer?: Answer
  /** The message of CRI's condition NetworkReady, if the condition is false. */
  readonly notReady?: string
}

const mostBytes = 4 * 1024 * 1024

/** Asks over CRI. Throws CriError without an answer, or when the server has no CRI (UNIMPLEMENTED). */
export async function askSocket(socket: string, timeoutMs: number): Promise<SocketAnswer> {
  // Loaded late, because other commands need no gRPC.
  const { openCri } = await import('./cri-client.ts')
  const cri = openCri(socket, { timeoutMs })
  try {
    const { runtimeName } = await cri.call('Version', {})
    const { status, info } = await cri.call('Status', { verbose: true })
    const ready = status?.conditions.find(({ type }) => type === 'NetworkReady')
    const notReady = ready?.status === false ? { notReady: ready.message || ready.reason } : {}
    if (runtimeName === 'cri-o') {
      const answer = await askCrio(socket, timeoutMs)
      return { runtime: 'CRI-O', ...notReady, ...(answer === undefined ? {} : { answer }) }
    }
    if (runtimeName === 'docker') return { runtime: 'cri-dockerd', ...notReady }
    const settings = statusSettings(info)
    const answer = settings === undefined ? {} : { answer: { settings, source: 'CRI Status' } }
    return { runtime: 'containerd', ...answer, ...notReady }
  } finally {
    cri.close()
  }
}

/** The settings of a running CRI-O; undefined before 1.14, which cannot tell. */
export function askCrio(socket: string, timeoutMs: number): Promise<Answer | undefined> {
  return new Promise((resolve) => {
    const asked = request({ socketPath: socket, path: '/config', timeout: timeoutMs }, (response) => {
      let text = ''
      response.setEncoding('utf8')
      response.on('data', (chunk: string) => {
        text += chunk
        if (text.length > mostBytes) asked.destroy()
      })
      response.on('error', () => resolve(undefined))
      response.on('end', () => resolve(response.statusCode === 200 ? crioAnswer(text) : undefined))
    })
    asked.on('timeout', () => asked.destroy())
    asked.on('error', () => resolve(undefined))
    asked.end()
  })
}

/** Invalid TOML counts as no answer, so that the caller reads the files. */
function crioAnswer(text: string): Answer | undefined {
  const source = 'crio status config'
  return orElse(() => ({ settings: crioSettings(tableOf(text, source), () => undefined), source }), undefined)
}
