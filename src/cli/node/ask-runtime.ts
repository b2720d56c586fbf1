// SPDX-License-Identifier: Apache-2.0
// A runtime's own statement of its settings: over CRI (containerd: verbose Status), over HTTP on CRI-O's socket (like
// `crio status config`), or from the runtime's command that prints the settings.

import { spawnSync } from 'node:child_process'
import { request } from 'node:http'
import { pathWithTools } from '../../system/process/programs.ts'
import { flagOf, programOf, type RuntimeProcess } from './processes.ts'
import { type CniSettings, containerdSettings, crioSettings, statusLoad, statusSettings } from './runtime-settings.ts'
import { tableOf } from './toml-file.ts'

/** The runtimes that serve CRI. */
export type RuntimeName = 'containerd' | 'CRI-O' | 'cri-dockerd'

/** A runtime's settings. `source`: the request that returned them, for reports. */
export interface Answer {
  readonly settings: CniSettings
  readonly source: string
}

/** The runtime behind a socket. `load`: the networks that containerd has loaded. */
export interface SocketAnswer {
  readonly runtime: RuntimeName
  readonly answer?: Answer
  readonly load?: ReturnType<typeof statusLoad>
  /** The message of CRI's condition NetworkReady, if the condition is false. */
  readonly notReady?: string
}

const commandTimeoutMs = 10_000
const mostBytes = 4 * 1024 * 1024

/** Asks over CRI. Throws CriError without an answer, or when the server has no CRI (UNIMPLEMENTED). */
export async function askSocket(socket: string, timeoutMs: number): Promise<SocketAnswer> {
  // Loaded late, because other commands need no gRPC.
  const { openCri } = await import('../cri/client.ts')
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
    return { runtime: 'containerd', ...answer, load: statusLoad(info), ...notReady }
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
      response.on('end', () =>
        resolve(response.statusCode === 200 ? crioAnswer(text, 'crio status config') : undefined),
      )
    })
    asked.on('timeout', () => asked.destroy())
    asked.on('error', () => resolve(undefined))
    asked.end()
  })
}

/** The output of `containerd -c FILE config dump` or `crio config`; undefined when that program does not start. */
export function askProgram(found: RuntimeProcess): Answer | undefined {
  const file = process.geteuid?.() === 0 ? programOf(found) : undefined
  if (file === undefined) return undefined
  const config = flagOf(found.args, ['c', 'config'])
  const flags = config === undefined ? [] : ['--config', config]
  if (found.name === 'containerd') {
    const text = printed(file, [...flags, 'config', 'dump'])
    const source = `containerd ${flags.length > 0 ? `-c ${config} ` : ''}config dump`
    return text === undefined
      ? undefined
      : attempt(() => ({ settings: containerdSettings(tableOf(text, source)), source }))
  }
  if (found.name !== 'crio') return undefined
  const directory = flagOf(found.args, ['d', 'config-dir'])
  const dropIns = directory === undefined ? [] : ['--config-dir', directory]
  const text = printed(file, [...flags, ...dropIns, 'config'])
  return text === undefined ? undefined : crioAnswer(text, 'crio config', found.args)
}

/** The output of a program; undefined when it fails. */
export function printed(file: string, args: readonly string[]): string | undefined {
  const { status, stdout } = spawnSync(file, args, {
    env: { PATH: pathWithTools(), LC_ALL: 'C' },
    stdio: ['ignore', 'pipe', 'ignore'],
    encoding: 'utf8',
    timeout: commandTimeoutMs,
    maxBuffer: mostBytes,
    killSignal: 'SIGKILL',
  })
  return status === 0 ? stdout : undefined
}

function crioAnswer(text: string, source: string, args: readonly string[] = []): Answer | undefined {
  return attempt(() => ({ settings: crioSettings(tableOf(text, source), (name) => flagOf(args, [name])), source }))
}

/** Invalid TOML counts as no answer, so that the caller reads the files. */
function attempt(read: () => Answer): Answer | undefined {
  try {
    return read()
  } catch {
    return undefined
  }
}
