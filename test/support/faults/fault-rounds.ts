// SPDX-License-Identifier: Apache-2.0
// One round per fault: a call that meets it, then what a runtime does next, then DEL of everything. Each round
// tells what was wrong afterwards, in words; nothing is the wanted answer.

import type { Finished, Verb } from '../host.ts'
import { tellsAddress } from '../state-layout.ts'
import { outside } from '../traffic/traffic.ts'
import { addressOf, type FaultNode, hostPorts, type Look, mustWork } from './fault-node.ts'
import { type Net, prefixOf } from './fault-sets.ts'
import { until } from './process-identities.ts'

export const roundVerbs = ['first ADD', 'steady ADD', 'DEL', 'GC'] as const
export type RoundVerb = (typeof roundVerbs)[number]

/** The call that is to meet a fault. */
export interface StruckCall {
  readonly verb: Verb
  readonly conf: object
  readonly id: string
  readonly netns: string
  readonly path?: string
}

/** What a struck call left. `hit`: whether it met its fault. */
export type Struck = Finished & { readonly hit: boolean }

/** A fault. `kind`: its name in the table; `mayFail`: whether DEL may end with this error. */
export interface Strike {
  readonly kind: string
  readonly what: string
  readonly mayFail: (code: number, msg: string) => boolean
  readonly run: (node: FaultNode, call: StruckCall) => Promise<Struck>
}

/** What a round found: leaks, addresses lost or given twice, and everything else that was wrong. `after`: the node then. */
export interface Trial {
  readonly kind: string
  readonly hit: boolean
  readonly leaks: readonly string[]
  readonly addresses: readonly string[]
  readonly wrong: readonly string[]
  readonly after: Look
}

/** A round under way. */
interface Round {
  readonly node: FaultNode
  readonly net: Net
  readonly before: Look
  readonly strike: Strike
}

/** A finding: `part` is where a look differs, or nothing of it. */
interface Finding {
  readonly part?: string
  readonly text: string
}

/** Plays a round. `before`: the node as it was; it must be so again. */
export async function play(on: { node: FaultNode; before: Look }, verb: RoundVerb, strike: Strike): Promise<Trial> {
  const { node, before } = on
  const net = verb === 'first ADD' ? node.freshNet() : node.steadyNet
  const round = { node, net, before, strike }
  const { hit, found } = verb.endsWith('ADD')
    ? await struckAdd(round)
    : await struckRemoval(round, verb as 'DEL' | 'GC')
  const { after, left } = removed(round)
  const all: readonly Finding[] = [...found, ...left]
  const told = (isOne: (finding: Finding) => boolean) =>
    all.filter(isOne).map(({ part, text }) => `${verb}, ${strike.what}: ${part ? `${part}: ` : ''}${text}`)
  return {
    kind: strike.kind,
    hit,
    addresses: told(isAddress),
    leaks: told((each) => each.part !== undefined && !isAddress(each)),
    wrong: told((each) => each.part === undefined && !isAddress(each)),
    after,
  }
}

const isAddress = ({ part, text }: Finding) =>
  part === 'addresses' || part === 'leases' || (part === 'state' && tellsAddress(text))

/** ADD meets the fault; the runtime tries again with a new container id, and with the pod's host port. */
async function struckAdd(round: Round) {
  const { node, net } = round
  const port = node.set.hasPorts ? hostPorts.subject : undefined
  const conf = node.addConf(net, 'a', port)
  const struck = await round.strike.run(node, { verb: 'ADD', conf, ...node.callOf('a') })
  const failed = struck.code > 0 ? [...differences(round.before, node.look()), ...noErrorObject(struck)] : []
  const isAttached = struck.code === 0
  const retry = await retried(round, {
    port: port && (isAttached ? hostPorts.other : port),
    mayHold: struck.code < 0,
    held: isAttached ? [addressOf(struck)] : [],
  })
  return { hit: struck.hit, found: [...failed, ...retry] }
}

/** DEL or GC meets the fault; the next pod comes with the same host port; GC is sent again. */
async function struckRemoval(round: Round, verb: 'DEL' | 'GC') {
  const { node, net, strike } = round
  const port = node.set.hasPorts ? hostPorts.subject : undefined
  mustWork('ADD', node.addPod(net, 'a', port))
  const flow = await makeFlow(node, port)
  const listed = (ids: readonly string[]) => ({
    'cni.dev/valid-attachments': ids.map((id) => ({ containerID: id, ifname: 'eth0' })),
  })
  const conf = { ...node.set.conf(net, port), ...(verb === 'GC' ? listed(['y', 'z']) : {}) }
  const struck = await strike.run(node, { verb, conf, ...node.callOf('a') })
  const isRefused = verb === 'DEL' && struck.code > 0 && !strike.mayFail(struck.json?.code ?? 0, struck.json?.msg ?? '')
  const refused = isRefused ? [{ text: `DEL ended with ${struck.code}: ${struck.stdout}` }] : []
  const retry = await retried(round, { port, mayHold: struck.code !== 0, held: [] })
  const again = verb === 'DEL' ? [] : collected(round, { ...node.set.conf(net, port), ...listed(['y', 'z', 'b']) })
  return { hit: struck.hit, found: [...flow, ...refused, ...retry, ...again] }
}

/** GC once more, without a fault: it works, and what it does not list is gone. */
function collected({ node }: Round, conf: object): readonly Finding[] {
  const { code, stdout } = node.host.cni('GC', conf, node.callOf('a'))
  return [
    ...(code === 0 ? [] : [{ text: `GC again ended with ${code}: ${stdout}` }]),
    ...linksOf(node, ['a'], 'after GC'),
  ]
}

/**
 * The next pod of the network comes, reaches its gateway, and finds the bridge fully set up. `mayHold`: the call before
 * it may have left its pod attached, whose host port is then free only after DEL. `held`: addresses of others.
 */
async function retried(
  round: Round,
  of: { port: number | undefined; mayHold: boolean; held: readonly string[] },
): Promise<readonly Finding[]> {
  const { node, net } = round
  let again = node.addPod(net, 'b', of.port)
  if (again.json?.code === 104 && of.mayHold) {
    node.delPod(net, 'a')
    node.delPod(net, 'b')
    again = node.addPod(net, 'b', of.port)
  }
  if (again.code !== 0) return [{ text: `ADD with a new container id ended with ${again.code}: ${again.stdout}` }]
  const address = addressOf(again)
  const isGivenTwice = [...of.held, ...(net === node.steadyNet ? node.addresses : [])].includes(address)
  const gateway = node.set.isChained ? outside.node4 : `${prefixOf(net)}.1`
  const ping = node.host.inPod(node.pods['b'] ?? '', 'ping', ['-c1', '-w10', gateway])
  return [
    ...(isGivenTwice ? [{ part: 'addresses', text: `${address} is given twice` }] : []),
    ...(ping.code === 0 ? [] : [{ text: 'the new pod does not reach its gateway' }]),
    ...acceptsAdvertisements(node, net),
    ...(await makeFlow(node, of.port)),
  ]
}

function acceptsAdvertisements({ host, set }: FaultNode, { bridge }: Net): readonly Finding[] {
  if (!set.hasBridge) return []
  const ra = host.run('sysctl', ['-n', `net.ipv6.conf.${bridge}.accept_ra`]).stdout.trim()
  return ra === '0' ? [] : [{ text: `the bridge takes router advertisements: accept_ra is ${ra}` }]
}

/** A datagram from outside to the host port makes a conntrack entry, which DEL must take away. */
async function makeFlow(node: FaultNode, port: number | undefined): Promise<readonly Finding[]> {
  if (port === undefined) return []
  node.host.inPod(node.internet, 'bash', ['-c', `echo x >/dev/udp/${outside.node4}/${port}`])
  const flows = () => node.host.run('conntrack', ['-L', '-p', 'udp', '--orig-port-dst', `${port}`]).stdout
  // A busy machine takes packets in later than they were sent.
  const isMade = await until('a flow', () => flows().includes(`dport=${port}`)).then(
    () => true,
    () => false,
  )
  return isMade ? [] : [{ text: `a datagram to host port ${port} made no conntrack entry` }]
}

/** DEL of a, twice as containerd does, and of b; then nothing of them is left. */
function removed({ node, net, before }: Round) {
  const done = [node.delPod(net, 'a'), node.delPod(net, 'a', ''), node.delPod(net, 'b')]
  const failed = done.filter(({ code }) => code !== 0)
  const after = node.look()
  const left = [
    ...failed.map(({ code, stdout }) => ({ text: `DEL ended with ${code}: ${stdout}` })),
    ...linksOf(node, ['a', 'b'], 'after DEL'),
    ...differences(before, after),
  ]
  return { after, left }
}

function linksOf(node: FaultNode, ids: readonly string[], when: string): readonly Finding[] {
  // Another plugin's interface stays.
  if (node.set.isChained) return []
  return ids.flatMap((id) => {
    const link = node.host.inPod(node.pods[id] ?? '', 'ip', ['-br', 'link', 'show', 'dev', 'eth0'])
    return link.code === 0 ? [{ part: 'links', text: `${when} pod ${id} still has ${link.stdout.trim()}` }] : []
  })
}

/** A temporary file of a killed call stays until the next set-up or `trestle gc` (docs/limits.md). */
const isTemporary = /[+/-]\.\d+\.\d+\.\d+ f$/

/** Lines that came or went, by part of the look. */
function differences(before: Look, after: Look): readonly Finding[] {
  return Object.keys(after).flatMap((part) => {
    const [was, is] = [before[part]?.split('\n') ?? [], after[part]?.split('\n') ?? []]
    const lines = [
      ...is.filter((line) => !was.includes(line)).map((line) => `+${line}`),
      ...was.filter((line) => !is.includes(line)).map((line) => `-${line}`),
    ]
    return lines.filter((line) => !isTemporary.test(line)).map((text) => ({ part, text }))
  })
}

/** A failed ADD tells why, with a code for what is foreseen. */
function noErrorObject({ json, stdout }: Finished): readonly Finding[] {
  const { code, msg } = (json ?? {}) as { code?: unknown; msg?: unknown }
  const isReported = typeof code === 'number' && typeof msg === 'string' && code !== 999
  return isReported ? [] : [{ text: `no error object: ${stdout}` }]
}
