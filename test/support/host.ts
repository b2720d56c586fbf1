// SPDX-License-Identifier: Apache-2.0
// A throw-away node for tests: a network namespace that plays the host, more that play pods, and a
// state directory of its own. Needs the private namespaces of scripts/in-netns.sh.

import { mkdtempSync, readlinkSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { execaSync } from 'execa'
import { asPublished } from './published.ts'
import { stateEnv, stateFiles } from './state-layout.ts'

/** The executable under test. */
export const trestle = resolve(process.env['CNI_BIN'] ?? 'dist/trestle')

const nodeSettings = fileURLToPath(new URL('node-settings.sh', import.meta.url))

/** A result or an error, as far as the call's version and outcome have its parts. */
export interface Answer {
  readonly cniVersion: string
  readonly supportedVersions: readonly string[]
  readonly code: number
  readonly msg: string
  readonly details: string
  readonly interfaces: readonly {
    readonly name: string
    readonly mac: string
    readonly mtu: number
    readonly sandbox?: string
  }[]
  readonly ips: readonly { readonly address: string; readonly gateway: string; readonly interface: number }[]
  readonly routes: readonly { readonly dst: string; readonly gw?: string }[]
  readonly dns: object
}

/** What a finished process left. `json`: stdout parsed, undefined when it is no JSON. */
export interface Finished {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
  readonly json: Answer | undefined
}

/** One CNI call. `conf`: the configuration, as an object or as the text to send. */
export interface Call {
  /** In place of the executable under test. */
  readonly file?: string
  readonly id?: string
  readonly netns?: string
  readonly ifName?: string
  readonly args?: string
  readonly path?: string
  readonly env?: Readonly<Record<string, string | undefined>>
}

export type Verb = 'ADD' | 'DEL' | 'CHECK' | 'GC' | 'STATUS' | 'VERSION'

let opened = 0

/** Opens a node. Close it in a `finally` or `afterEach`: it removes every namespace it made. */
export function openHost() {
  requirePrivate()
  opened += 1
  const name = `h${process.pid}-${opened}`
  const stateDir = mkdtempSync(`${tmpdir()}/trestle-test-`)
  const netns: string[] = []
  const addNetns = (label: string): string => {
    execaSync('ip', ['netns', 'add', label])
    netns.push(label)
    // What it has from the machine's settings is not what the test was written on.
    execaSync('nsenter', [`--net=/run/netns/${label}`, 'sh', nodeSettings])
    return `/run/netns/${label}`
  }
  const path = addNetns(name)

  /** Runs a command in the host's namespace. */
  const run = (file: string, args: readonly string[], input = ''): Finished =>
    finished('nsenter', [`--net=${path}`, '--', file, ...args], { input })
  /** Runs a command in a pod's namespace. */
  const inPod = (pod: string, file: string, args: readonly string[]): Finished =>
    finished('nsenter', [`--net=${pod}`, '--', file, ...args], { input: '' })
  /** Makes a pod: an empty namespace; returns its path. */
  const pod = (label: string): string => addNetns(`${name}-${label}`)
  /** Ends a pod. The kernel takes its links along a moment later, host ends included: this waits for it, two seconds at most. */
  const removePod = (podPath: string): void => {
    const indexOf = (line: string, pattern: RegExp) => pattern.exec(line)?.[1] ?? ''
    const inPod = finished('nsenter', [`--net=${podPath}`, '--', 'ip', '-o', 'link'], { input: '' }).stdout
    const peers = inPod.split('\n').map((line) => indexOf(line, /@if(\d+):/))
    execaSync('ip', ['netns', 'del', podPath.slice('/run/netns/'.length)])
    const isThere = () =>
      run('ip', ['-o', 'link', 'show', 'type', 'veth'])
        .stdout.split('\n')
        .some((line) => peers.includes(indexOf(line, /^(\d+):/) || 'none'))
    for (let waits = 0; waits < 100 && isThere(); waits++) execaSync('sleep', ['0.02'])
  }

  /** Runs the executable as a runtime does. */
  const cni = (verb: Verb, conf: unknown, call: Call = {}): Finished => {
    const env = environment(verb, { ...call, env: { ...stateEnv({ stateDir }), ...call.env } })
    const input = typeof conf === 'string' ? conf : JSON.stringify(conf)
    return finished('nsenter', [`--net=${path}`, '--', call.file ?? trestle], { input, env, extendEnv: false })
  }
  const close = (): void => {
    for (const label of netns) execaSync('ip', ['netns', 'del', label], { reject: false })
    rmSync(stateDir, { recursive: true, force: true })
  }
  return { path, name, stateDir, run, inPod, pod, removePod, cni, close }
}

export type Host = ReturnType<typeof openHost>

/** The environment of a call, as libcni sets it: only this, PATH and what `env` adds. */
export function environment(verb: Verb, call: Call): Record<string, string> {
  const all = {
    PATH: process.env['PATH'],
    CNI_COMMAND: verb,
    CNI_CONTAINERID: call.id ?? 'c1',
    CNI_NETNS: call.netns ?? '',
    CNI_IFNAME: call.ifName ?? 'eth0',
    CNI_ARGS: call.args ?? '',
    CNI_PATH: call.path ?? '/opt/cni/bin',
    ...call.env,
  }
  return Object.fromEntries(Object.entries(all).filter((entry): entry is [string, string] => entry[1] !== undefined))
}

/** Each part as text, one thing a line. */
export type Snapshot = Readonly<Record<'links' | 'routes' | 'rules' | 'sysctls' | 'state', string>>

/**
 * Everything a test must leave as it found it: links, routes, rules, sysctls, state. Two of these are compared;
 * what is shared by design (the bridge, our table, what a network shares) is taken out by `allowance.ts`.
 */
export function snapshot(host: Host): Snapshot {
  return {
    links: host
      .run('ip', ['-o', 'link', 'show'])
      .stdout.replace(/^\d+: /gm, '')
      .replace(/ (state|qdisc|mode|group|qlen) \S+/g, '')
      // Carrier is reported later (net/core/link_watch.c), how much later depends on the machine.
      .replace(/NO-CARRIER,|,LOWER_UP/g, ''),
    routes: routesOf(host),
    rules: host.run('nft', ['-s', 'list', 'ruleset']).stdout,
    sysctls: host.run('sysctl', ['net.ipv4.ip_forward', 'net.ipv6.conf.all.forwarding', 'net.ipv6.conf.all.accept_ra'])
      .stdout,
    // A call that fails is kept (docs/record.md): a record is no part of the network.
    state: finished(
      'find',
      [
        host.stateDir,
        '-mindepth',
        '1',
        '-path',
        stateFiles(host).ring('failures'),
        '-prune',
        '-o',
        '-mindepth',
        '1',
        '-printf',
        '%P %y\\n',
      ],
      { input: '' },
    )
      .stdout.split('\n')
      .sort()
      .join('\n'),
  }
}

/**
 * Link-local routes of IPv6 come when the kernel has checked the address, and go with the link. The local route of any
 * other address comes a moment after the address, on a busy machine much later (net/ipv6/addrconf.c, addrconf_dad_work):
 * it is waited for.
 */
function routesOf(host: Host): string {
  const shown = host.run('ip', ['-6', '-o', 'addr', 'show', 'up', 'scope', 'global', '-tentative']).stdout
  const own = [...shown.matchAll(/ inet6 ([^/ ]+)/g)].map(([, address]) => `local ${address} dev `)
  const end = performance.now() + 10_000
  for (;;) {
    const routes = host.run('ip', ['route', 'show', 'table', 'all']).stdout
    if (own.every((route) => routes.includes(route)) || performance.now() > end)
      // Carrier is reported later, too.
      return routes
        .replace(/ linkdown/g, '')
        .replace(/^(?:local |anycast )?fe80::\S* dev .*\n|^multicast ff00::\/8 dev .*\n/gm, '')
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 20)
  }
}

function finished(
  file: string,
  args: readonly string[],
  options: { input: string; env?: Record<string, string>; extendEnv?: boolean },
): Finished {
  const ended = execaSync(file, args, { ...options, reject: false, stripFinalNewline: false, timeout: 60_000 })
  const { exitCode, stdout } = ended
  // A signal, the bound, or no process at all: only execa says which.
  const stderr = exitCode === undefined ? `${ended.stderr}${ended.shortMessage}` : ended.stderr
  return { code: exitCode ?? -1, stdout, stderr, json: asPublished(parse(stdout), exitCode ?? -1) }
}

function parse(text: string): Answer | undefined {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** A test that touches the network must not run on the machine itself: scripts/in-netns.sh says where it put us. */
function requirePrivate(): void {
  const isPrivate = process.env['TRESTLE_TEST_NETNS'] === readlinkSync('/proc/self/ns/net')
  if (!isPrivate) throw new Error('run this through scripts/in-netns.sh: npm run test:netns')
}
