// SPDX-License-Identifier: Apache-2.0
// `trestle plan`: prints what an ADD, or the DEL after it, runs. It is the verb itself with a machine that prints: nothing
// runs, and the machine remembers what was made, so that a later call finds it.

import { mkdtempSync, openSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { bareAddress } from '../cni/addresses.ts'
import { type Environment, readCall } from '../cni/call.ts'
import { defined, isObject, parseObject } from '../cni/json.ts'
import { readConfig, readDelConfig } from '../config/read-config.ts'
import type { Batch } from '../kernel/batch.ts'
import { ruleComments } from '../kernel/nft-table.ts'
import type { LinkAttributes, Op, OpOf } from '../kernel/operation.ts'
import { uplinkName } from '../kernel/proc.ts'
import { type Machine, machineWith } from '../process/machine.ts'
import type { Step } from '../process/order.ts'
import type { Output, Command as Process } from '../process/runner.ts'
import { networkDirectory, networkNames } from '../state/layout.ts'
import { add } from '../verbs/add.ts'
import { openContext } from '../verbs/context.ts'
import { del } from '../verbs/del.ts'
import { type Command, exitCode, type Input, UsageError } from './command.ts'
import { failureOf } from './failure.ts'
import { readFileAs } from './input-file.ts'
import { readNetworkList, requestConf } from './network-list.ts'
import { print } from './output.ts'
import { asOwn, isOwnType } from './own-type.ts'
import { capabilityArgsOf, capabilityOptions, checkDeclared } from './pod-options.ts'

export const planCommand: Command = {
  name: 'plan',
  words: '[FILE]',
  maxWords: 1,
  summary: 'print the operations of an ADD or DEL, and run nothing',
  description: [
    'Reads a .conflist or .conf file (standard input without FILE) and prints what the first ADD of its trestle plugin',
    "runs: each operation's purpose, and the input of each tool. plan runs nothing: addresses are the first of each",
    'range, and the container is "example". A chained trestle gets the file\'s prevResult, or an interface with',
    '192.0.2.2/24; another IPAM plugin answers with the same address. With --del: the DEL of that attachment.',
  ].join('\n'),
  options: {
    del: { type: 'boolean', help: 'plan the DEL of the attachment instead of its ADD' },
    later: { type: 'boolean', help: "plan the ADD of a later pod instead of the network's first" },
    flushed: { type: 'boolean', help: 'plan the ADD of a later pod after a flush of the rules' },
    ...capabilityOptions,
  },
  examples: [
    'trestle plan /etc/cni/net.d/10-pods.conflist',
    'trestle plan --later /etc/cni/net.d/10-pods.conflist',
    'trestle plan --del /etc/cni/net.d/10-pods.conflist',
    'trestle plan --port 8080:80 --bandwidth 10M 10-pods.conflist',
    'trestle plan -o json <net.conf',
  ],
  run,
}

export type Planned = 'first' | 'later' | 'flushed' | 'del'

const titles: Readonly<Record<Planned, string>> = {
  first: 'the first ADD',
  later: 'a later ADD',
  flushed: 'the ADD after a flush',
  del: 'the DEL',
}

async function run(input: Input): Promise<number> {
  const { words, values } = input
  const [what = 'first', second] = (['later', 'flushed', 'del'] as const).filter((name) => values[name] === true)
  if (second !== undefined) throw new UsageError(`--${what} and --${second} select different calls: use only one`)
  const capabilityArgs = capabilityArgsOf(values)
  const { network, steps } = await readFileAs(words[0] ?? '-', async (text: string) => {
    const network = readNetworkList(text)
    const at = network.plugins.findIndex(({ type }) => isOwnType(type))
    const plugin = network.plugins[at]
    if (plugin === undefined) throw failureOf('list-without-trestle', 'no plugin of the list has the type "trestle"')
    checkDeclared([plugin], Object.keys(capabilityArgs))
    const before = network.plugins[at - 1]?.type ?? (plugin['mode'] === 'chained' ? 'bridge' : undefined)
    const isGiven = before === undefined || plugin['prevResult'] !== undefined
    const previous = isGiven ? {} : { prevResult: assumedPrevious(before, network.cniVersion) }
    const conf = requestConf(network, { ...asOwn(plugin), ...previous }, { capabilityArgs })
    return { network, steps: await planOf(JSON.stringify(conf), what) }
  })
  const ops = steps.flatMap((step) => step.ops.map(({ place, why }) => ({ place, why })))
  const document = {
    verb: what === 'del' ? 'DEL' : 'ADD',
    network: network.name,
    ops,
    batches: steps.map(({ command, stdin }) => ({ command, stdin })),
  }
  const text = [
    `network ${network.name}: ${titles[what]} has ${ops.length} operations in ${steps.length} batches\n\n`,
    ...ops.map(({ place, why }, at) => `${`${at + 1}`.padStart(4)}  ${place.padEnd(4)}  ${why}\n`),
    ...steps.map(({ command, stdin }) => `\n  ${command}\n${stdin.replace(/^(?=.)/gm, '    ')}`),
  ].join('')
  return print(input, { command: 'plan', document, text, code: exitCode.fine })
}

/** The result of a plugin before a chained trestle: one address for documentation (RFC 5737). */
function assumedPrevious(type: string, cniVersion: string): object {
  const ends = type === 'bridge' ? [{ name: 'cni0' }, { name: 'veth0' }] : type === 'ptp' ? [{ name: 'veth0' }] : []
  const pod = { name: environment.CNI_IFNAME, mac: '0a:58:c0:00:02:02', sandbox: environment.CNI_NETNS }
  const ips = [{ address: '192.0.2.2/24', gateway: '192.0.2.1', interface: ends.length }]
  return { cniVersion, interfaces: [...ends, pod], ips, routes: [] }
}

const environment = {
  CNI_COMMAND: 'ADD',
  CNI_CONTAINERID: 'example',
  CNI_NETNS: '/run/netns/example',
  CNI_IFNAME: 'eth0',
  CNI_PATH: '/opt/cni/bin',
} as const

const ownNetns = '/proc/self/ns/net'

/** A process of the call, or settings that trestle writes itself. */
export interface PlannedStep {
  readonly command: string
  readonly stdin: string
  readonly ops: readonly Op[]
}

/** What the call would run. Throws the CniError of a call that is refused. */
export async function planOf(
  stdin: string,
  what: Planned,
  env: Environment = environment,
): Promise<readonly PlannedStep[]> {
  const directory = mkdtempSync(join(tmpdir(), 'trestle-plan-'))
  const before = process.env['TRESTLE_STATE_DIR']
  process.env['TRESTLE_STATE_DIR'] = join(directory, 'state')
  try {
    const printer = openPrinter(parseObject(stdin) ?? {})
    const variables = { ...env, CNI_PATH: withPlugin(directory, stdin) }
    const call = readCall(variables)
    const context = { ...openContext({ path: call.path, stdin }), machine: printer.machine }
    if (what === 'del') await add(call, readConfig(stdin, call), context)
    if (what === 'later' || what === 'flushed') {
      const other = readCall({ ...variables, CNI_ARGS: '', CNI_CONTAINERID: 'other' })
      await add(other, readConfig(withoutWishes(stdin), other), context)
      // It has ended, and its network is there.
      const records = networkNames().map((network) => `${networkDirectory(network)}/attachments`)
      for (const path of records) rmSync(path, { recursive: true, force: true })
    }
    if (what === 'flushed') printer.flush()
    printer.steps.length = 0
    if (what === 'del') await del({ ...call, verb: 'DEL' }, readDelConfig(stdin), context)
    else await add(call, readConfig(stdin, call), context)
    return printer.steps
  } finally {
    if (before === undefined) delete process.env['TRESTLE_STATE_DIR']
    else process.env['TRESTLE_STATE_DIR'] = before
    rmSync(directory, { recursive: true, force: true })
  }
}

/** A directory with the IPAM plugin that the configuration names: it is looked for, and not run. */
function withPlugin(directory: string, stdin: string): string {
  const { ipam } = parseObject(stdin) ?? {}
  const type = isObject(ipam) ? ipam['type'] : undefined
  if (typeof type === 'string' && /^\w[\w.-]*$/.test(type)) writeFileSync(join(directory, type), '', { mode: 0o755 })
  return directory
}

/** A pod of the same network, without the host ports and addresses that only one can have. */
function withoutWishes(stdin: string): string {
  const { args: _, runtimeConfig, ...conf } = parseObject(stdin) ?? {}
  const asked = isObject(runtimeConfig) ? { ...runtimeConfig, portMappings: [], ips: [], mac: undefined } : undefined
  return JSON.stringify({ ...conf, runtimeConfig: asked })
}

interface PrintedLink extends LinkAttributes {
  readonly place: 'host' | 'pod'
  readonly name: string
  readonly kind: string
  readonly index: number
  readonly peer: number
  readonly addresses: readonly string[]
}

/** A machine that prints, with what it has printed. */
function openPrinter(conf: Readonly<Record<string, unknown>>) {
  const steps: PlannedStep[] = []
  const links = new Map<string, PrintedLink>()
  const sysctls = new Map<string, string>()
  const queues = new Map<string, OpOf<'bucket.set' | 'redirect.set'>>()
  const routes: OpOf<'route.add'>[] = []
  let tables: readonly string[] = []
  let index = 10
  const addLink = (link: Pick<PrintedLink, 'name' | 'kind'> & Partial<PrintedLink>) => {
    index += 1
    const key = `${link.place ?? 'host'} ${link.name}`
    links.set(key, { place: 'host', mac: '', mtu: 1500, up: true, index, peer: 0, addresses: [], ...link })
  }
  addLink({ name: 'lo', kind: '', place: 'pod', addresses: ['127.0.0.1/8', '::1/128'] })
  for (const link of [...nodeLinks(conf), ...previousLinks(conf)]) addLink(link)

  /** Remembers what an operation makes. */
  const note = (op: Op) => {
    const { place } = op
    if (op.kind === 'veth.add') {
      const { name, mac, mtu, master, peer } = op
      addLink({ name, mac, mtu, kind: 'veth', ...defined({ master }), peer: index + 2 })
      const end = peer.isInPod ? ('pod' as const) : place
      addLink({ name: peer.name, mac: peer.mac, mtu: peer.mtu, kind: 'veth', place: end, peer: index })
    }
    if (op.kind === 'bridge.add' || op.kind === 'ifb.add' || op.kind === 'macvlan.add') {
      const { name, mac, mtu, kind } = op
      addLink({ name, mac, mtu, kind: kind.slice(0, -4), place: kind === 'macvlan.add' ? 'pod' : place })
    }
    if (op.kind === 'link.delete') links.delete(`${place} ${op.dev}`)
    if (op.kind === 'link.set' || op.kind === 'address.add') {
      const link = links.get(`${place} ${op.dev}`)
      if (link === undefined) return
      links.delete(`${place} ${op.dev}`)
      const set = op.kind === 'link.set' ? op.set : { addresses: [...link.addresses, op.cidr] }
      const now = { ...link, ...set, place: ('netns' in set && set.netns) || place }
      links.set(`${now.place} ${now.name}`, now)
    }
    if (op.kind === 'route.add' && place === 'host') routes.push(op)
    if (op.kind === 'sysctl.set' && place === 'host') sysctls.set(op.key, op.value)
    if (op.kind === 'bucket.set' || op.kind === 'redirect.set') queues.set(`${op.kind} ${op.dev}`, op)
    if (op.kind === 'table.set') tables = [...tables, op.table]
  }

  const shown = (place: 'host' | 'pod', name?: string) => {
    const own = [...links.values()].filter((link) => link.place === place && (name === undefined || link.name === name))
    return `${JSON.stringify(own.map(asListed))}\n`
  }
  const answer = ({ file, args, stdin }: Process): Output => {
    const asked = typeof stdin === 'string' ? stdin : ''
    const none = { code: 0, stdout: '', stderr: '' }
    if (file === 'nft') {
      const isJson = args.includes('-j')
      const table = args[args.indexOf('table') + 1] ?? ''
      if (args.includes('table') && !tables.includes(table))
        return { ...none, code: 1, stderr: 'No such file or directory' }
      return { ...none, stdout: isJson ? '{"nftables":[]}' : commentLines() }
    }
    if (asked.startsWith('link set dev lo')) {
      steps.push({ command: [file, ...args].join(' '), stdin: asked, ops: [] })
      return { ...none, stdout: shown('pod', 'lo') }
    }
    if (file === 'ip') {
      const ways = [...asked.matchAll(/^route get (\S+)$/gm)].map(
        ([, dst]) => `${JSON.stringify([{ dst, dev: wayOf(conf) }])}\n`,
      )
      const there = routes.filter(({ dev }) => links.has(`host ${dev}`)).map(asListedRoute)
      const listed = /^route show/m.test(asked) ? `${JSON.stringify(there)}\n` : ''
      return { ...none, stdout: `${shown('host')}${listed}${ways.join('')}` }
    }
    if (file === 'tc') return { ...none, stdout: shownQueues([...queues.values()], asked) }
    return { ...none, stdout: file === 'nsenter' ? shown('pod') : '' }
  }
  const commentLines = () =>
    [...ruleComments('inet', true), ...ruleComments('bridge', true)].map((comment) => `comment "${comment}"\n`).join('')

  let batches: readonly Batch[] = []
  const base = machineWith(async ({ file, args, stdin }) => {
    const text = typeof stdin === 'string' ? stdin : ''
    const { ops = [] } = batches.find(({ texts }) => text.startsWith(texts.join(''))) ?? {}
    steps.push({ command: [file, ...args].join(' '), stdin: text, ops })
    // After a flush nothing can be added to the tables that were there.
    const isLost = file === 'nft' && tables.length === 0 && !text.includes('add table')
    if (isLost) return { code: 1, stdout: '', stderr: '/dev/stdin:1:1-1: Error: No such file or directory' }
    const looks = [...text.matchAll(/^addr show dev (\S+)$/gm)].map(([, name]) => shown('host', name))
    return { code: 0, stdout: file === 'nft' ? commentLines() : looks.join(''), stderr: '' }
  })
  const machine: Machine = {
    ...base,
    // A namespace that is there: its pod is alive.
    openNetns: () => ({ fd: openSync('/dev/null', 'r'), identity: { path: ownNetns, inode: statSync(ownNetns).ino } }),
    openNetnsIfThere: () => machine.openNetns(ownNetns),
    linkIndex: (name) => links.get(`host ${name}`)?.index,
    prepare: () => undefined,
    forUndoing: () => machine,
    linkExists: (name) => links.has(`host ${name}`),
    readSysctl: (key) => sysctls.get(key),
    run: async (all, options) => {
      batches = all.map(({ batch }) => batch)
      for (const { ops } of batches) for (const op of ops) note(op)
      const files = all.filter(({ batch }) => batch.tool === 'file')
      const print = ({ batch: { texts, ops } }: Step) =>
        steps.push({ command: 'written to /proc/sys', stdin: texts.join(''), ops })
      files.filter(({ name }) => name === 'first settings').forEach(print)
      const outcome = await base.run(
        all.map((step) => (files.includes(step) ? withoutOps(step) : step)),
        options,
      )
      files.filter(({ name }) => name !== 'first settings').forEach(print)
      return outcome
    },
    ask: async (process) => {
      const { file, args, kind } = process
      if (kind !== 'delegate' && file !== 'conntrack') return answer(process)
      const verb = process.env?.['CNI_COMMAND'] ?? ''
      steps.push({
        command: kind === 'delegate' ? `${file.split('/').at(-1)} ${verb}` : [file, ...args].join(' '),
        stdin: '',
        ops: [],
      })
      return { code: 0, stdout: verb === 'ADD' ? delegatedAnswer : '', stderr: '' }
    },
  }
  return { machine, steps, flush: () => (tables = []) }
}

/** This machine's settings are not written. */
function withoutOps(step: Step): Step {
  return { ...step, batch: { ...step.batch, ops: [] } }
}

const delegatedAnswer = '{"cniVersion":"1.0.0","ips":[{"address":"192.0.2.2/24","gateway":"192.0.2.1"}]}'

function asListed({ name, kind, mac, mtu, master, alias, index, peer, addresses, ...link }: PrintedLink) {
  const { up, promisc, allmulti, hairpin, isolated, txQLen = 1000 } = link
  const port = { info_slave_kind: 'bridge', info_slave_data: { hairpin, isolated } }
  return {
    ifname: name,
    ifindex: index,
    address: mac,
    mtu,
    txqlen: txQLen,
    flags: [...(up ? ['UP'] : []), ...(promisc ? ['PROMISC'] : []), ...(allmulti ? ['ALLMULTI'] : [])],
    linkinfo: { ...(kind === '' ? {} : { info_kind: kind }), ...(master ? port : {}) },
    ...(master ? { master } : {}),
    ...(alias ? { ifalias: alias } : {}),
    ...(peer ? { link_index: peer } : {}),
    addr_info: addresses.map((cidr) => ({ local: bareAddress(cidr), prefixlen: Number(cidr.split('/')[1]) })),
  }
}

function asListedRoute({ dev, route: { dst, gw, priority, src, scope } }: OpOf<'route.add'>) {
  return { dst, dev, ...defined({ gateway: gw, metric: priority, prefsrc: src, scope }) }
}

/** As tc answers `qdisc show` and `filter show dev …`, an array on a line each. */
function shownQueues(queues: readonly OpOf<'bucket.set' | 'redirect.set'>[], asked: string): string {
  const qdiscs = queues.map((op) =>
    op.kind === 'redirect.set'
      ? { kind: 'ingress', dev: op.dev, handle: 'ffff:' }
      : {
          ...{ kind: 'tbf', dev: op.dev, handle: '1:', root: true },
          options: { rate: op.rateBits / 8, burst: op.burstBytes },
        },
  )
  const filters = [...asked.matchAll(/^filter show dev (\S+)/gm)].map(([, dev]) =>
    queues.flatMap((op) =>
      op.kind === 'redirect.set' && op.dev === dev ? [{ options: { actions: [{ to_dev: op.to }] } }] : [],
    ),
  )
  return [qdiscs, ...filters].map((entries) => `${JSON.stringify(entries)}\n`).join('')
}

/** The node's own links that a configuration may name. */
function nodeLinks({ master = uplinkName(), device }: Readonly<Record<string, unknown>>) {
  return [master, device].flatMap((name) => (typeof name === 'string' ? [{ name, kind: '' }] : []))
}

interface Previous {
  readonly interfaces?: readonly { readonly name: string; readonly mac?: string; readonly sandbox?: string }[]
}

/** The links of prevResult: of two on the host the first is the bridge, the last the host's end of a pair. */
function previousLinks({ prevResult }: { readonly prevResult?: unknown }) {
  const { interfaces = [] } = (prevResult ?? {}) as Previous
  const onHost = interfaces.filter(({ sandbox }) => !sandbox)
  const end = onHost.at(-1)?.name
  const bridge = onHost.length > 1 ? onHost[0]?.name : undefined
  return interfaces.map(({ name, mac = '', sandbox }) => {
    if (sandbox)
      return { place: 'pod' as const, name, mac, kind: end === undefined ? 'macvlan' : 'veth', index: 2, peer: 3 }
    if (name !== end) return { name, mac, kind: 'bridge' }
    return { name, mac, kind: 'veth', index: 3, peer: 2, ...(bridge ? { master: bridge } : {}) }
  })
}

function wayOf({ prevResult }: { readonly prevResult?: unknown }): string | undefined {
  const { interfaces = [] } = (prevResult ?? {}) as Previous
  return interfaces.find(({ sandbox }) => !sandbox)?.name
}
