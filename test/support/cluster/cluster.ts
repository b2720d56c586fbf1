// SPDX-License-Identifier: Apache-2.0
// A cluster for tests of the agent: an API server (api-server.ts) in the node's namespace, agents, and Nodes.

import { type ChildProcess, spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { execaSync } from 'execa'
// @ts-expect-error the build has no types
import { allocatorSettings } from '../../../scripts/image/environment.mjs'
import { type Host, trestle } from '../host.ts'
import { stateEnv } from '../state-layout.ts'
import type { Order } from './api-server.ts'

/** The variables that the agent's image sets. */
const image = Object.fromEntries((allocatorSettings as readonly string[]).map((setting) => setting.split('=')))

const server = fileURLToPath(new URL('api-server.ts', import.meta.url))

/** A line of JSON that a process printed. */
export type Line = Readonly<Record<string, unknown>>

/** A process that prints lines of JSON, started in a namespace of a node. */
export interface Running {
  readonly child: ChildProcess
  readonly lines: Line[]
  /** Waits for a line; those that came before count, too. */
  readonly seen: (test: (line: Line) => boolean, what: string) => Promise<Line>
  readonly end: (signal?: NodeJS.Signals) => Promise<number | null>
}

/** A Node with what the agent reads, and `more` in its status. */
export function nodeObject(
  name: string,
  { cidrs, addresses, created = '2026-01-01T00:00:00Z', conditions = [] }: NodeParts,
): NonNullable<Order['put']>[number] {
  return {
    metadata: { name, uid: `uid-of-${name}`, creationTimestamp: created },
    spec: cidrs.length === 0 ? {} : { podCIDR: cidrs[0], podCIDRs: cidrs },
    status: {
      ...{
        addresses: [
          ...addresses.map((address) => ({ type: 'InternalIP', address })),
          { type: 'Hostname', address: name },
        ],
      },
      conditions: [{ type: 'Ready', status: 'True' }, ...conditions],
    },
  }
}

export interface NodeParts {
  readonly cidrs: readonly string[]
  readonly addresses: readonly string[]
  readonly created?: string
  readonly conditions?: { type: string; status: string }[]
}

/** A server's key, and its certificate, which it signed itself. */
export interface Certificate {
  readonly key: string
  readonly certificate: string
}

/** Makes a certificate for 127.0.0.1 in `directory`. */
export function makeCertificate(directory: string): Certificate {
  const made = { key: `${directory}/tls.key`, certificate: `${directory}/tls.crt` }
  const [subject, names] = ['/CN=kubernetes', 'subjectAltName=IP:127.0.0.1']
  const kind = ['-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-subj', subject]
  execaSync('openssl', ['req', ...kind, '-addext', names, '-keyout', made.key, '-out', made.certificate])
  return made
}

/** An API server on the loopback of a node; with `tls` it speaks TLS. */
export async function openApiServer(host: Host, port = 6443, tls?: Certificate) {
  const files = tls === undefined ? [] : [tls.key, tls.certificate]
  const running = start(host, { file: process.execPath, args: [server, `${port}`, ...files], env: {} })
  await running.seen((line) => line['listening'] === true, 'the API server')
  const order = async (asked: Order): Promise<void> => {
    const before = running.lines.filter((line) => line['obeyed'] === true).length
    running.child.stdin?.write(`${JSON.stringify(asked)}\n`)
    await until(() => running.lines.filter((line) => line['obeyed'] === true).length > before, 'the order')
  }
  return { order, url: `http://127.0.0.1:${port}`, ...running }
}

export type ApiServer = Awaited<ReturnType<typeof openApiServer>>

/** The files of an agent: token, configuration, executables. */
export function agentFiles() {
  const root = mkdtempSync(`${tmpdir()}/trestle-agent-`)
  for (const name of ['net.d', 'bin']) mkdirSync(`${root}/${name}`)
  writeFileSync(`${root}/token`, 'token-1')
  const conflist = `${root}/net.d/10-trestle.conflist`
  return {
    root,
    conflist,
    program: `${root}/bin/trestle`,
    token: `${root}/token`,
    configuration: () => JSON.parse(readFileSync(conflist, 'utf8')),
    remove: () => rmSync(root, { recursive: true, force: true }),
  }
}

export type AgentFiles = ReturnType<typeof agentFiles>

/** Words before a command that give it an /etc of its own with nothing in it, as in a container. */
export const withEmptyEtc = ['unshare', '--mount', 'sh', '-ec', 'mount -t tmpfs tmpfs /etc; exec "$@"', 'sh']

/** An agent on a node. `more`: further options; `tracer`: the words of a program that starts it. */
export function startAgent(
  host: Host,
  files: AgentFiles,
  more: readonly string[] = [],
  tracer: readonly string[] = [],
): Running {
  const args = [
    ...['agent', '--node-name', 'self', '--api-server', 'http://127.0.0.1:6443', '--token-file', files.token],
    ...[
      '--conf-dir',
      `${files.root}/net.d`,
      '--bin-dir',
      `${files.root}/bin`,
      '--gc',
      '0',
      '--mode',
      'bridge',
      '--overlay',
      'never',
      ...more,
    ],
  ]
  const [file = trestle, ...words] = [...tracer, trestle, ...args]
  return start(host, { file, args: words, env: { ...stateEnv(host), ...image } })
}

/** The metrics of the agent on a node, by name and labels as they are printed. */
export function scrape(host: Host): Readonly<Record<string, number>> {
  const fetched = host.run(process.execPath, [
    '-e',
    "fetch('http://127.0.0.1:9917/metrics').then((found) => found.text()).then((text) => process.stdout.write(text))",
  ])
  if (fetched.code !== 0) throw new Error(`no metrics: ${fetched.stderr}`)
  const lines = fetched.stdout.split('\n').filter((line) => line !== '' && !line.startsWith('#'))
  return Object.fromEntries(lines.map((line) => [line.replace(/ [^ ]*$/, ''), Number(line.replace(/.* /, ''))]))
}

/** Whether the agent says that all stands. */
export const isReady = (line: Line): boolean => line['message'] === 'ready'

interface Started {
  readonly file: string
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
}

function start(host: Host, { file, args, env }: Started): Running {
  const child = spawn('nsenter', [`--net=${host.path}`, '--', file, ...args], {
    // An image has programs of its own.
    env: { PATH: process.env['TRESTLE_TEST_AGENT_PATH'] ?? process.env['PATH'], ...env },
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  const lines: Line[] = []
  let stderr = ''
  createInterface(child.stdout).on('line', (line) => lines.push(JSON.parse(line) as Line))
  child.stderr.on('data', (chunk) => {
    stderr += chunk
  })
  const seen = async (test: (line: Line) => boolean, what: string): Promise<Line> => {
    await until(
      () => lines.some(test),
      () => `${what}; it said ${lines.map((line) => JSON.stringify(line)).join('\n')}${stderr}`,
    )
    return lines.find(test) as Line
  }
  const end = async (signal: NodeJS.Signals = 'SIGTERM'): Promise<number | null> => {
    if (child.exitCode !== null || child.signalCode !== null) return child.exitCode
    const gone = new Promise<number | null>((resolve) => child.once('close', (code) => resolve(code)))
    child.stdin.end()
    child.kill(signal)
    return await gone
  }
  return { child, lines, seen, end }
}

/** Some seconds on an idle machine. Less than the minute after which an agent looks by itself: what it was told of. */
export const soonMs = 45_000

/** Waits until something holds. Throws after `limitMs`, naming what did not come. */
export async function until(test: () => boolean, what: string | (() => string), limitMs = soonMs): Promise<number> {
  const started = performance.now()
  while (!test()) {
    if (performance.now() - started > limitMs)
      throw new Error(`did not come within ${limitMs} ms: ${typeof what === 'string' ? what : what()}`)
    await sleep(20)
  }
  return performance.now() - started
}
