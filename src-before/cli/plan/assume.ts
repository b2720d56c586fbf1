// SPDX-License-Identifier: Apache-2.0
// Runs the stories of ADD and DEL on assumed answers, without a look at the node and without a command. The answers are
// those of a node without obstacles.

import { bareAddress, parseCidr, parseMac } from '../../cni/address.ts'
import { defined } from '../../cni/json.ts'
import type { Result } from '../../cni/result.ts'
import { addChained } from '../../commands/attach/chained.ts'
import { addInterface } from '../../commands/attach/interface.ts'
import { addLease } from '../../commands/attach/lease.ts'
import type { ChainedPort, InterfacePort } from '../../commands/attach/ports.ts'
import { removeAttachment, type TeardownPort } from '../../commands/teardown/remove-attachment.ts'
import { loopbackDownOps, loopbackOps, loopbackResult } from '../../commands/verbs/loopback.ts'
import type { ChainedNetConf, DeviceQuery, InterfaceNetConf, NetConf } from '../../config/net-conf.ts'
import { homecomingOf } from '../../drivers/attach.ts'
import { type ChainedSurroundings, chainedSpec } from '../../drivers/chained.ts'
import type { Around, Device } from '../../drivers/driver.ts'
import { deviceOf } from '../../drivers/drivers.ts'
import { type AttachmentSpec, type Lease, type NetworkSpec, noLease } from '../../model/attachment.ts'
import { emptyNamespace, type ObservedLink, type ObservedNamespace } from '../../model/observed.ts'
import { type Candidate, chooseRequested, firstFree, staticLease } from '../../plan/ipam/allocate.ts'
import { networkOfChain } from '../../plan/order/chained.ts'
import {
  type AddFacts,
  type Begun,
  type Known,
  type NetworkFacts,
  type Ranges,
  specOf,
  wantedNetwork,
} from '../../plan/order/facts.ts'
import {
  type Failure,
  type Outcome,
  type Plan,
  type PlanRun,
  planOfOne,
  type StageRun,
} from '../../plan/order/stage.ts'
import { removalOf } from '../../plan/order/teardown.ts'

/** The node before an ADD. `first`: without the network; `later`: with the network; `flushed`: without its rules. */
export type Finds = 'first' | 'later' | 'flushed'

/** A run of another program, as a plan shows it. */
interface DelegateRun {
  readonly kind: 'delegate'
  readonly type: string
  readonly verb: 'ADD' | 'DEL'
}

/** A plan of a call, or the run of a delegated plugin. */
export type ShownPlan = Plan<StageRun | DelegateRun>

/** A simulated ADD. `plans`: without the stages that a failure skipped; `spec`: content of its record. */
export interface AssumedAdd {
  readonly plans: readonly ShownPlan[]
  readonly result: Result
  readonly spec?: AttachmentSpec | undefined
  readonly network?: NetworkSpec | undefined
}

/** The assumed answer of a delegated plugin: addresses for documentation (RFC 5737). */
const delegatedAnswer: Lease = { ips: [{ address: '192.0.2.2/24', gateway: '192.0.2.1' }], routes: [] }

/** The beginning of an ADD of any mode. */
type AnyBegun = Omit<Begun<never>, 'conf'> & { readonly conf: NetConf }

/** Runs the story of an ADD on assumed answers. Throws the CniError of a refused ADD. */
export async function assumedAdd(begun: AnyBegun, finds: Finds): Promise<AssumedAdd> {
  const { conf } = begun
  if (conf.mode === 'loopback') {
    const result = conf.prevResult ?? loopbackResult(lo, begun.netns)
    return { plans: [planOfOne('lo', 'mode "loopback" sets lo up', { kind: 'batch', ops: loopbackOps })], result }
  }
  const recording = new Recording(begun, finds)
  const result = await runStory(begun, recording)
  const { plans, written } = recording
  return { plans, result, ...written }
}

export async function runStory({ conf, ...begun }: AnyBegun, port: InterfacePort & ChainedPort): Promise<Result> {
  switch (conf.mode) {
    case 'ipam':
      return await addLease(port, { key: begun.key, conf })
    case 'chained':
      return await addChained(port, { ...begun, conf, prevResult: conf.prevResult ?? noResult })
    case 'loopback':
      throw new Error('mode loopback has no story')
    default:
      return await addInterface(port, { ...begun, conf })
  }
}

const noResult: Result = { interfaces: [], ips: [], routes: [] }

/** The record that an ADD wrote last. */
interface Written {
  readonly spec?: AttachmentSpec | undefined
  readonly network?: NetworkSpec | undefined
}

/** The effects of an ADD on a node without obstacles: nothing is looked at and nothing runs. Keeps the plans. */
export class Recording implements InterfacePort, ChainedPort {
  readonly plans: ShownPlan[] = []
  written: Written = {}
  readonly #begun: AnyBegun
  readonly #finds: Finds
  #made: NetworkSpec | undefined
  #delegated: Lease | undefined
  #isFlushed: boolean

  constructor(begun: AnyBegun, finds: Finds) {
    this.#begun = begun
    this.#finds = finds
    this.#isFlushed = finds === 'flushed'
  }

  run = async (plan: Plan): Promise<PlanRun> => {
    const failed = new Set<string>()
    const outcomes = plan.stages.map((stage): Outcome => {
      const { id, run, after, proof } = stage
      const isSkipped = after.some((each) => failed.has(each))
      const isFailing = !isSkipped && this.#isFlushed && proof?.kind === 'rules'
      if (isSkipped || isFailing) failed.add(id)
      if (isSkipped) return { id, done: [], skipped: true }
      if (isFailing) return { id, done: [], failed: flushed }
      return { id, done: 'ops' in run ? run.ops : [], ...seenBy(run, this.networks()) }
    })
    const skipped = new Set(outcomes.flatMap((outcome) => (outcome.skipped ? [outcome.id] : [])))
    this.plans.push({ ...plan, stages: plan.stages.filter(({ id }) => !skipped.has(id)) })
    return { plan, outcomes }
  }

  delegate = async (type: string): Promise<Lease> => {
    this.plans.push(delegatePlan(type, 'ADD', `${type} gives the addresses, and may need the interface for that`))
    this.#delegated = delegatedAnswer
    return delegatedAnswer
  }

  locked = async <T>(_because: string, body: () => Promise<T>): Promise<T> => await body()
  lookAtDevice = async (query: DeviceQuery): Promise<Device> => assumedDevice(query)
  lookAtRanges = async (): Promise<Ranges> => ({ excluded: [], abandoned: [] })
  lookAtTables = async (): Promise<ReadonlySet<number>> => new Set<number>()
  lookAtVlans = async () => new Map<string, readonly number[]>()
  lookAtOrphanLink = async () => ({ alias: undefined, links: [] })
  lookAtQueue = async () => undefined
  lookAround = async () => assumedSurroundings(this.#begun.conf as ChainedNetConf, this.#begun.key.ifName)
  reserveAddresses = async (): Promise<Lease> => firstLease(this.#begun.conf)
  reservePorts = async (spec: AttachmentSpec): Promise<AttachmentSpec> => spec
  settleAccepts = async () => undefined
  settleAllAccepts = async () => undefined
  finish = () => undefined
  writeNetwork = (network: NetworkSpec) => {
    this.#made = network
  }
  writeIntent = (spec: AttachmentSpec, network?: NetworkSpec) => {
    this.written = { spec, network }
  }
  networks = (): readonly NetworkSpec[] => (this.written.network === undefined ? [] : [this.written.network])

  /** A later ADD finds the network that its configuration asks for. */
  lookAtKnown = (): Known => {
    const known: Known = { network: undefined, hasBridge: this.#finds !== 'first', forwarding: [4, 6] }
    return this.#finds === 'first' ? known : { ...known, network: this.#wanted(known) }
  }

  #wanted(known: Known): NetworkSpec {
    const { conf, ...begun } = this.#begun
    if (conf.mode === 'chained') {
      const prevResult = conf.prevResult ?? noResult
      const facts = { ...begun, conf, prevResult, seen: assumedSurroundings(conf, begun.key.ifName) }
      return networkOfChain(facts, chainedSpec(facts), undefined)
    }
    const query = deviceOf(conf)
    const facts: AddFacts = {
      ...begun,
      conf: conf as InterfaceNetConf,
      device: query && assumedDevice(query),
      ranges: { excluded: [], abandoned: [] },
      usedTables: new Set(),
      lease: this.#delegated ?? firstLease(conf),
      known,
      isMade: this.#delegated !== undefined,
    }
    return wantedNetwork(facts, specOf(facts))
  }

  lookAtRules = async (): Promise<NetworkFacts> => {
    this.#isFlushed = false
    return this.#shared()
  }

  /** With a delegated plugin the interface is there before its addresses are known. */
  lookAtHost = async (): Promise<NetworkFacts> => {
    const { spec } = this.written
    const before = this.#made
    const shared = this.#shared()
    if (before?.bridge === undefined) return { ...shared, before, networks: before === undefined ? [] : [before] }
    const { name, mac, mtu, addresses } = before.bridge
    const bridge = { ...lo, name, mac, mtu, addresses, kind: 'bridge' }
    const end = spec?.host && { ...lo, ...spec.host, mtu: spec.mtu, addresses: [], master: name, ...flagsOf(spec) }
    const links = [bridge, ...(end === undefined ? [] : [end])].map((each) => [each.name, each] as const)
    return { ...shared, before, networks: [before], host: { links: new Map(links), routes: new Map() } }
  }

  /** The shared part of the network, with this attachment as the only one. */
  #shared(): NetworkFacts {
    const { spec, network } = this.written
    return {
      isMade: false,
      before: network,
      networks: this.networks(),
      made: this.networks(),
      attachments: spec === undefined ? [] : [spec],
      pods: [],
      host: network?.bridge === undefined ? emptyNamespace : undefined,
      cluster: undefined,
      opened: [],
      links: new Set(),
      sysctls: new Map(),
    }
  }
}

const flushed: Failure = { error: new Error('the rules are gone'), reason: 'unproven' }

function seenBy(run: StageRun, networks: readonly NetworkSpec[]): Pick<Outcome, 'seen'> {
  if (run.kind !== 'look' || run.what !== 'networks left') return {}
  return { seen: { networksLeft: new Set(networks.map(({ name }) => name)) } }
}

function delegatePlan(type: string, verb: DelegateRun['verb'], because: string): ShownPlan {
  return { id: 'lease', because, stages: [{ id: 'lease', run: { kind: 'delegate', type, verb }, after: [] }] }
}

/** The named link, else eth0, as an Ethernet interface. */
function assumedDevice({ key, value = 'eth0' }: DeviceQuery): Device {
  const name = key === 'master' || key === 'device' ? value : 'eth0'
  return { name, link: link(name, { mac: '02:00:00:00:00:01' }), isWireless: false }
}

function flagsOf({ port }: AttachmentSpec) {
  return { hairpin: port?.hairpin ?? false, isolated: port?.isolated ?? false }
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
  const port = bridge === undefined ? {} : { master: bridge, masterKind: 'bridge' }
  const host = end && link(end.name, { ...veth(3, 2), ...port })
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

/**
 * The plans of the DEL after an ADD: all links of the attachment exist, no other pod uses the chains of its port
 * conditions, and nothing fails. `group`: link group of the links to remove. Throws the CniError of a failed DEL.
 */
export async function assumedDel(
  { key, conf }: Pick<AnyBegun, 'key' | 'conf'>,
  { spec }: Pick<AssumedAdd, 'spec'>,
  group: number,
): Promise<readonly ShownPlan[]> {
  if (conf.mode === 'loopback')
    return [planOfOne('teardown', 'its ids tell what was made', { kind: 'batch', ops: loopbackDownOps })]
  const plans: ShownPlan[] = []
  await removeAttachment(recordingTeardown(plans), removalOf({ key, ...(spec && { spec }) }, group), true)
  const type = conf.ipam.kind === 'delegated' && key.role === 'main' ? conf.ipam.type : undefined
  return type === undefined ? plans : [...plans, delegatePlan(type, 'DEL', `${type} has leased the addresses`)]
}

/** The device in the pod, as the ADD has left it. */
function assumedAround({ pod, device }: AttachmentSpec): Around {
  const name = pod?.name ?? ''
  const { mac = '', mtu = 0 } = device ?? {}
  const inPod = link(name, { mac, mtu, ...defined({ alias: device?.name, kind: device?.kind }) })
  return { host: new Map(), pod: new Map([[name, inPod]]) }
}

/** The effects of a DEL on a node without obstacles. Pushes the plans of the DEL to `plans`. */
export function recordingTeardown(plans: ShownPlan[]): TeardownPort {
  return {
    run: async (plan) => {
      plans.push(plan)
      return { plan, outcomes: plan.stages.map(({ id }) => ({ id, done: [] })) }
    },
    lookAtPresent: (links, chains) => ({ links: new Set(links), unused: chains, theirs: new Map() }),
    lookForDevice: async (moved) => homecomingOf(moved, assumedAround(moved)).ops,
    lookAtElements: async () => [],
    removeUpstream: async () => [],
    waitForRebuilds: async () => undefined,
    freePorts: async () => undefined,
    freeAddresses: async () => undefined,
    markLeaving: () => undefined,
    withdraw: () => undefined,
    forget: () => undefined,
    writePending: () => undefined,
  }
}
