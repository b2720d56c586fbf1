// SPDX-License-Identifier: Apache-2.0
// Carries an order out on assumed answers, without a look at the node and without a command. The answers are those of a
// node without obstacles.

import { bareAddress, parseCidr } from '../../cni/model/address.ts'
import { parseMac } from '../../cni/model/mac-address.ts'
import type { ChainedNetConf, NetConf } from '../../cni/model/net-conf.ts'
import type { Result } from '../../cni/model/result.ts'
import { type Candidate, firstFree } from '../../plan/ipam/allocate.ts'
import { chooseRequested } from '../../plan/ipam/request.ts'
import { staticLease } from '../../plan/ipam/static.ts'
import type { AttachmentSpec, NetworkSpec } from '../../plan/model/attachment.ts'
import { type Lease, noLease } from '../../plan/model/lease.ts'
import { emptyNamespace, type ObservedLink, type ObservedNamespace } from '../../plan/model/observed.ts'
import { type ChainedSurroundings, chainedConf } from '../../plan/modes/chained.ts'
import type { Master } from '../../plan/modes/driver.ts'
import { masterOf } from '../../plan/modes/drivers.ts'
import { loopbackDownOps, loopbackOps, loopbackResult } from '../../plan/modes/loopback.ts'
import { networkOfChain } from '../../plan/order/chained.ts'
import { wantedNetwork } from '../../plan/order/decided.ts'
import { type AddFacts, afterRun, type Known, type Learnt, type NetworkFacts } from '../../plan/order/facts.ts'
import { nextOfAdd } from '../../plan/order/next.ts'
import { removalOf } from '../../plan/order/removal.ts'
import { networkSetUp } from '../../plan/order/set-up.ts'
import type { Failure, OtherRun, Outcome, Plan, PlanRun, Stage } from '../../plan/order/stage.ts'
import { type DelFacts, nextOfDel, nextOfLeaseRemoval } from '../../plan/order/teardown.ts'

/** The node before an ADD. `first`: without the network; `later`: with the network; `flushed`: without its rules. */
export type Finds = 'first' | 'later' | 'flushed'

/** A simulated ADD. `runs`: its plans with their assumed outcomes; `spec`, `network`: contents of its record. */
export interface AssumedAdd {
  readonly runs: readonly PlanRun[]
  readonly result: Result
  readonly spec?: AttachmentSpec | undefined
  readonly network?: NetworkSpec | undefined
}

/** The assumed answer of a delegated plugin: addresses for documentation (RFC 5737). */
const delegatedAnswer: Lease = { ips: [{ address: '192.0.2.2/24', gateway: '192.0.2.1' }], routes: [] }

/** Carries the order of an ADD out on assumed answers. Throws the CniError of a refused ADD. */
export function assumedAdd(begun: Omit<AddFacts, 'learnt' | 'runs'>, finds: Finds): AssumedAdd {
  const { conf, netns } = begun
  if (conf.mode === 'loopback') {
    return { runs: [{ plan: loopbackAdd, outcomes: [] }], result: conf.prevResult ?? loopbackResult(lo, netns) }
  }
  let facts: AddFacts = { ...begun, learnt: {}, runs: [] }
  for (;;) {
    const step = nextOfAdd(facts)
    if (step instanceof Error) throw step
    if ('result' in step) return { ...step, ...writtenDown(facts.runs), runs: facts.runs }
    facts = afterRun(facts, assumedRun(facts, step, finds))
  }
}

/** Mode loopback has no order: its ADD and DEL are one process each (commands/verbs/loopback.ts). */
const loopbackAdd: Plan = {
  id: 'lo',
  because: 'mode "loopback" sets lo up',
  stages: [{ id: 'lo', run: { kind: 'batch', ops: loopbackOps }, after: [] }],
}

const loopbackDel: Plan = {
  id: 'teardown',
  because: 'its ids tell what was made',
  stages: [{ id: 'pod', run: { kind: 'batch', ops: loopbackDownOps, tolerates: 'refusals' }, after: [] }],
}

function assumedRun(facts: AddFacts, plan: Plan, finds: Finds): PlanRun {
  const failed = new Set<string>()
  const now = { ...facts, runs: [...facts.runs, { plan, outcomes: [] }] }
  const outcomes = plan.stages.map((stage): Outcome => {
    if (stage.after.some((id) => failed.has(id))) failed.add(stage.id)
    if (failed.has(stage.id)) return { id: stage.id, done: [], skipped: true }
    if (finds === 'flushed' && stage.proof?.kind === 'rules') failed.add(stage.id)
    return failed.has(stage.id) ? { id: stage.id, done: [], failed: flushed } : assumedOutcome(now, stage, finds)
  })
  return { plan, outcomes }
}

const flushed: Failure = { error: new Error('the rules are gone'), reason: 'unproven' }

function assumedOutcome(facts: AddFacts, { id, run }: Stage, finds: Finds): Outcome {
  const done = 'ops' in run ? run.ops : []
  const learnt = run.kind === 'batch' || run.kind === 'rules' ? undefined : assumed(facts, run, finds)
  const shown = { text: '', links: new Map([[lo.name, lo]]), routes: [] }
  return { id, done, shown, ...(learnt && { learnt }) }
}

function assumed(facts: AddFacts, run: OtherRun, finds: Finds): Learnt | undefined {
  if (run.kind === 'delegate') return { delegated: delegatedAnswer }
  if (run.kind === 'flows') return { flows: [] }
  if (run.kind === 'state') return run.what === 'addresses' ? { lease: firstLease(facts.conf) } : undefined
  if (run.kind !== 'look') return undefined
  switch (run.what) {
    case 'ranges':
    case 'ranges of addresses':
      return { ranges: { excluded: [], abandoned: [] } }
    case 'master':
      return { master: assumedMaster(facts) }
    case 'routing tables':
      return { usedTables: new Set() }
    case 'known':
      return { known: known(facts, finds) }
    case 'networks':
      return { networks: networksOf(facts) }
    case 'networks left':
      return { networksLeft: new Set(networksOf(facts).map(({ name }) => name)) }
    case 'host':
      return { shared: { ...shared(facts), ...foundByNow(facts) } }
    case 'rules':
      return { shared: shared(facts) }
    case 'chained':
      return { seen: assumedSurroundings(chainedConf(facts.conf), facts.key.ifName) }
    default:
      return undefined
  }
}

/** The master of the configuration, else eth0, as an Ethernet interface. */
function assumedMaster({ conf }: AddFacts): Master {
  const name = masterOf(conf)?.master ?? 'eth0'
  return { name, link: { ...lo, name, mac: '02:00:00:00:00:01', mtu: 1500, addresses: [] }, isWireless: false }
}

/** The network that a later ADD finds: as its configuration. */
function known(facts: AddFacts, finds: Finds): Known {
  const nothing: Known = { network: undefined, hasBridge: finds !== 'first', forwarding: [4, 6] }
  if (finds === 'first') return nothing
  const before = { ...facts, learnt: { ...facts.learnt, known: nothing } }
  return { ...nothing, network: facts.conf.role === 'chained' ? networkOfChain(before) : wantedNetwork(before) }
}

/** The shared part of the network, with this attachment as the only one. */
function shared(facts: AddFacts): NetworkFacts {
  const { spec, network } = writtenDown(facts.runs) ?? {}
  const isBridged = network?.bridge !== undefined
  return {
    isMade: false,
    before: network,
    networks: networksOf(facts),
    made: network === undefined ? [] : [network],
    attachments: spec === undefined ? [] : [spec],
    pods: [],
    host: isBridged ? undefined : emptyNamespace,
    cluster: undefined,
    links: new Set(),
    sysctls: new Map(),
  }
}

/** The facts of an earlier plan: with a delegate the interface exists before its addresses are known. */
function foundByNow({ runs }: AddFacts): Pick<NetworkFacts, 'before' | 'networks' | 'host'> {
  const before = networkSetUp(runs)
  const { spec, network } = writtenDown(runs) ?? {}
  const isBridged = network?.bridge !== undefined
  if (before?.bridge === undefined)
    return { before, networks: before === undefined ? [] : [before], host: isBridged ? undefined : emptyNamespace }
  const { name, mac, mtu, addresses } = before.bridge
  const bridge = { ...lo, name, mac, mtu, addresses, kind: 'bridge' }
  const { hairpin = false, isolated = false } = spec?.port ?? {}
  const end = spec?.host && { ...lo, ...spec.host, mtu: spec.mtu, addresses: [], master: name, hairpin, isolated }
  const links = [bridge, ...(end === undefined ? [] : [end])].map((link) => [link.name, link] as const)
  return { before, networks: [before], host: { links: new Map(links), routes: new Map() } }
}

function networksOf({ runs }: AddFacts): readonly NetworkSpec[] {
  const { network } = writtenDown(runs) ?? {}
  return network === undefined ? [] : [network]
}

/** The last record that the ADD wrote: its attachment and network. */
function writtenDown(runs: readonly PlanRun[]) {
  const stages = runs.flatMap(({ plan }) => plan.stages)
  const intents = stages.flatMap(({ run }) => (run.kind === 'state' && run.what === 'intent' ? [run] : []))
  return intents.map(({ spec, network }) => ({ spec, network })).at(-1)
}

/** The first pod's addresses: the first of each range, or the requested ones. */
function firstLease({ ipam }: NetConf): Lease {
  switch (ipam.kind) {
    case 'none':
    case 'delegated':
      return noLease
    case 'static':
      return staticLease(ipam)
    case 'pool':
      return { ips: chooseRequested(ipam.rangeSets, ipam.requested).flatMap(addressIn(ipam)), routes: ipam.routes }
    default:
      return ipam satisfies never
  }
}

type Pool = Extract<NetConf['ipam'], { kind: 'pool' }>

function addressIn({ rangeSets, exclude }: Pool) {
  return (requested: Candidate | undefined, at: number): Lease['ips'] => {
    const chosen = requested ?? firstFree(rangeSets[at] ?? [], { exclude, taken: new Set() })
    if (chosen === undefined) return []
    const { address, range } = chosen
    return [{ address: `${address}/${parseCidr(range.subnet)?.prefixLength}`, gateway: range.gateway }]
  }
}

const lo: ObservedLink = {
  name: 'lo',
  index: 1,
  mac: '00:00:00:00:00:00',
  mtu: 65536,
  up: true,
  promisc: false,
  allmulti: false,
  addresses: ['127.0.0.1/8', '::1/128'],
}

// The assumed work of an earlier plugin, for a chained entry: the configuration's prevResult, or an invented one.

/** An interface with an address for documentation (RFC 5737). `type`: the plugin that made it. */
export function assumedPrevious(type: string, { ifName, sandbox }: { ifName: string; sandbox: string }): Result {
  const ends = type === 'bridge' ? [{ name: 'cni0' }, { name: 'veth0' }] : type === 'ptp' ? [{ name: 'veth0' }] : []
  const interfaces = [...ends, { name: ifName, mac: podMac, sandbox }]
  const ips = [{ address: '192.0.2.2/24', gateway: '192.0.2.1', interface: ends.length }]
  return { interfaces, ips, routes: [] }
}

/**
 * The links of prevResult. With one host link, that is the veth peer; with two, the first is its bridge; without, the
 * interface is no veth. Routes go by bridge or peer. An invalid MAC is left out, since an ADD asks the kernel for it.
 */
function assumedSurroundings({ prevResult }: ChainedNetConf, dev: string): ChainedSurroundings {
  const { interfaces = [], ips = [] } = prevResult ?? {}
  const [first, second] = interfaces.filter(({ sandbox }) => !sandbox)
  const end = second ?? first
  const bridge = second === undefined ? undefined : first?.name
  const podLink = interfaces.find(({ name, sandbox }) => name === dev && sandbox)
  const pod = link(dev, {
    mac: parseMac(podLink?.mac ?? '') ?? podMac,
    mtu: podLink?.mtu ?? ethernetMtu,
    ...(end ? veth(2, 3) : { kind: 'macvlan' }),
  })
  const host = end && link(end.name, { ...veth(3, 2), ...(bridge === undefined ? {} : { master: bridge }) })
  const way = bridge ?? end?.name
  return {
    pod: namespaceOf([pod]),
    host: namespaceOf(host === undefined ? [] : [host]),
    hostLinks: new Map(way === undefined ? [] : ips.map(({ address }) => [bareAddress(address), way])),
  }
}

const ethernetMtu = 1500
const podMac = '0a:58:c0:00:02:02'

function veth(index: number, peerIndex: number) {
  return { kind: 'veth', index, peerIndex } as const
}

function link(name: string, more: Partial<ObservedLink>): ObservedLink {
  const plain = { index: 2, mac: '', mtu: ethernetMtu, up: true, promisc: false, allmulti: false, addresses: [] }
  return { ...plain, name, txqlen: 1000, ...more }
}

function namespaceOf(links: readonly ObservedLink[]): ObservedNamespace {
  return { links: new Map(links.map((each) => [each.name, each])), routes: new Map() }
}

// Carries a teardown out on assumed answers: all links of the attachment exist, no other pod uses the chains of its
// port conditions, and nothing fails.

/**
 * The plans of the DEL after an ADD. `group`: link group of the links to remove. Throws the CniError of a failed DEL.
 */
export function assumedDel(
  { key, conf }: Pick<AddFacts, 'key' | 'conf'>,
  { spec }: Pick<AssumedAdd, 'spec'>,
  group: number,
): readonly Plan[] {
  if (conf.mode === 'loopback') return [loopbackDel]
  const removal = removalOf({ key, ...(spec && { spec }) }, group)
  const type = conf.ipam.kind === 'delegated' && key.role === 'main' ? conf.ipam.type : undefined
  let facts: DelFacts = { removal, hasPod: true, learnt: {}, runs: [] }
  for (;;) {
    const step = nextOfDel(facts)
    if (step instanceof Error) throw step
    if ('result' in step) break
    facts = afterRun(facts, { plan: step, outcomes: step.stages.map(assumedStage) })
  }
  const lease = type === undefined ? [] : [nextOfLeaseRemoval({ type, runs: [] })]
  return [...facts.runs.map(({ plan }) => plan), ...lease.filter((step) => 'stages' in step)]
}

function assumedStage({ id, run }: Stage) {
  if (run.kind !== 'look' || run.what !== 'present') return { id, done: [] }
  return { id, done: [], learnt: { present: { links: new Set(run.links), unused: run.chains } } }
}
