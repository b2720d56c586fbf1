// SPDX-License-Identifier: Apache-2.0
// What a network becomes in a set-up: compared with the last set-up, with other networks and with the node. Pure.

import { asPrefix, bareAddress, contains, familyOf, isSubnet, overlaps, toCidr } from '../cni/addresses.ts'
import { CniError, Code } from '../cni/errors.ts'
import { bridgeMac, isPodLinkName, ownBridgeAlias } from '../drivers/names.ts'
import { type BridgeSpec, isSameNetwork, type NetworkSpec, type PodAddress, type Spec } from '../drivers/spec.ts'
import { isDefault } from '../features/sbr.ts'
import type { ObservedLink, Place } from '../kernel/observed.ts'
import { mainTable } from '../kernel/operation.ts'

export interface Around {
  /** The network as it was set up last. */
  readonly before: NetworkSpec | undefined
  readonly others: readonly NetworkSpec[]
  /** Of live pods. */
  readonly live: readonly Spec[]
  readonly host: Place
  readonly machineId: string
}

/** The network as it can be. Throws CniError 108 for a bridge that cannot be used, 110 for ranges. */
export function decideNetwork(wanted: NetworkSpec, around: Around): NetworkSpec {
  const { before } = around
  if (before !== undefined) refuseChange(wanted, before, around.live)
  if (!wanted.allowOverlap) refuseOverlap(wanted, around)
  const merged = mergeNetwork(wanted, before)
  return merged.bridge === undefined ? merged : { ...merged, bridge: decideBridge(merged.bridge, around) }
}

/**
 * `wanted` with what was learned before: ranges and subnets of leases are only ever added, and a pod with host ports has
 * its hairpin still when one without comes.
 */
export function mergeNetwork(wanted: NetworkSpec, known: NetworkSpec | undefined): NetworkSpec {
  if (known === undefined || known.givenElements !== undefined || known.bridge?.name !== wanted.bridge?.name)
    return wanted
  if (wanted.isLearned) return united(wanted, known) as NetworkSpec
  return { ...wanted, hairpin: wanted.ranges.filter((range) => [...known.hairpin, ...wanted.hairpin].includes(range)) }
}

/** Lists are united, everything else is as `wanted` has it. */
function united(wanted: unknown, known: unknown): unknown {
  if (Array.isArray(wanted)) return [...new Set([...(Array.isArray(known) ? known : []), ...wanted])].sort()
  if (typeof wanted !== 'object' || wanted === null) return wanted
  const before = (known ?? {}) as Readonly<Record<string, unknown>>
  return Object.fromEntries(Object.entries(wanted).map(([key, value]) => [key, united(value, before[key])]))
}

/** What goes or changes and has pods stays as it is: a network does not change under its pods. Throws CniError 110. */
function refuseChange(wanted: NetworkSpec, before: NetworkSpec, live: readonly Spec[]): void {
  const own = live.filter(({ network }) => network && isSameNetwork(network, before))
  const isIn = (range: string, { address }: PodAddress) => contains(toCidr(range), toCidr(bareAddress(address)))
  const podsIn = (range: string) => own.filter(({ addresses }) => addresses.some((each) => isIn(range, each))).length
  const refuseWith = (pods: number, what: string) => {
    if (pods === 0) return
    const message = `network ${wanted.name} is set up with ${what}, with ${pods} ${pods === 1 ? 'pod' : 'pods'}`
    const cure = 'put the former configuration back, or drain the node and delete its remaining pods'
    const details = `a network does not change under its pods: ${cure}`
    throw new CniError(Code.rangeConflict, 'network-changed', message, { details })
  }
  const [is, was] = [wanted.bridge?.name, before.bridge?.name]
  if (before.mode !== wanted.mode) refuseWith(own.length, `mode ${before.mode}, not ${wanted.mode}`)
  if (was !== is) refuseWith(own.length, `bridge ${was}, not ${is}`)
  // What was found again does not say its VLAN.
  if (before.givenElements === undefined && before.vlan !== wanted.vlan) {
    const link = before.bridge?.vlanGateway?.name ?? was
    refuseWith(own.length, `VLAN ${before.vlan} (${link}), not ${wanted.vlan}`)
  }
  if (wanted.isLearned || before.isLearned) return
  for (const range of before.ranges) if (!wanted.ranges.includes(range)) refuseWith(podsIn(range), `the range ${range}`)
  for (const gateway of wanted.gateways.length === 0 ? [] : before.gateways)
    if (!wanted.gateways.includes(gateway)) refuseWith(podsIn(gateway), `the gateway ${gateway}`)
}

/** Ranges are compared where the host has their gateways, or routes to each pod. */
function placedRanges(network: NetworkSpec | undefined): readonly string[] {
  return network !== undefined && (network.mode === 'ptp' || network.gateways.length > 0) ? network.ranges : []
}

/** Whether two networks have a range in common that the host has gateways in or routes to. */
export function meets(one: NetworkSpec, other: NetworkSpec): boolean {
  if (one.role !== 'main' || one.allowOverlap || other.allowOverlap) return false
  return placedRanges(one).some((a) => placedRanges(other).some((b) => overlaps(toCidr(a), toCidr(b))))
}

/** Refuses a new range that meets an address of another link or a range of another network. Throws CniError 110. */
function refuseOverlap(wanted: NetworkSpec, { before, others, host }: Around): void {
  const isOverlap = (a: string, b: string) => overlaps(toCidr(asPrefix(a)), toCidr(asPrefix(b)))
  const networks = [...others, ...(before ? [before] : [])]
  const gateways = networks.flatMap(({ bridge }) => bridge?.addresses ?? [])
  const ownLinks = [wanted, before].flatMap((each) => [each?.bridge?.name, each?.bridge?.vlanGateway?.name])
  const refuse = (range: string, what: string, cure = '') => {
    throw new CniError(Code.rangeConflict, 'range-in-use', `the range ${range} overlaps ${what}`, {
      details: `pods and node would take each other's packets; ${cure}use another range, or set "allowOverlap": true`,
    })
  }
  for (const range of placedRanges(wanted).filter((each) => !placedRanges(before).includes(each))) {
    for (const other of others.filter(({ role, allowOverlap }) => role === 'main' && !allowOverlap)) {
      const theirs = placedRanges(other).find((each) => isOverlap(each, range))
      const gateway = other.gateways.find((each) => isOverlap(each, range))
      const where = other.bridge === undefined ? `in mode ${other.mode}` : `on ${other.bridge.name}`
      if (theirs !== undefined) refuse(range, `${gateway ?? theirs} of network ${other.name} ${where}`)
    }
    for (const link of host.links.values()) {
      if (isPodLinkName(link.name)) continue
      const isOurs = (address: string) => ownLinks.includes(link.name) || gateways.includes(address)
      // A single address is no subnet (the tunnels of flannel and Calico have one): no pod gets it.
      const subnets = [...link.addresses.filter(isSubnet), ...onLinkPrefixes(host, link.name)]
      const address = subnets.find((each) => isOverlap(each, range) && !isOurs(each))
      const hasDefault = host.routes.some(({ dev, dst }) => dev === link.name && isDefault({ dst }))
      const cure =
        link.name === 'lo' || hasDefault ? '' : `remove ${link.name} if nobody needs it (ip link del ${link.name}), `
      if (address !== undefined) refuse(range, `${address} of ${link.name}`, cure)
    }
  }
}

/** A subnet that a router of the link advertises, beside an address of full length, and the node's router itself. */
function onLinkPrefixes({ routes }: Place, link: string): readonly string[] {
  const own = routes.filter(({ dev, table }) => dev === link && table === mainTable)
  const advertised = own.filter(({ isAdvertised, gw }) => isAdvertised && gw === undefined).map(({ dst }) => dst)
  return [...advertised, ...own.flatMap(({ dst, gw }) => (isDefault({ dst }) && gw !== undefined ? [gw] : []))]
}

/** The bridge as it can be: one of another program keeps its MAC and MTU. Throws CniError 108. */
function decideBridge(bridge: BridgeSpec, around: Around): BridgeSpec {
  const { name } = bridge
  const link = around.host.links.get(name)
  if (link === undefined) return bridge
  const refuse = (id: string, message: string, details: string) => {
    throw new CniError(Code.bridgeConflict, id, message, { details })
  }
  if (link.kind !== 'bridge') {
    const details = `it is of kind ${link.kind ?? 'none'}; use another name: "bridge"`
    refuse('bridge-wrong-kind', `"${name}" already exists but is not a bridge`, details)
  }
  if (bridge.vlanFiltering && link.vlanFiltering === false) {
    const details = `remove it when it has no pods: ip link del ${name}`
    refuse('bridge-without-vlans', `bridge ${name} was made without VLAN filtering`, details)
  }
  const networks = [...around.others, ...(around.before ? [around.before] : [])]
  const foreign = foreignAddressOn(bridge, link, networks)
  if (foreign !== undefined) {
    const message = `"${name}" already has an IP address different from ${foreign.own}: ${foreign.address}`
    const details = `another program gave it that address: ip addr del ${foreign.address} dev ${name}; or use another "bridge", or "forceAddress": true`
    refuse('bridge-foreign-address', message, details)
  }
  // One that was made again by hand is ours still: its pods have its MAC as their gateway's.
  const wasOurs = networks.some((each) => each.bridge?.name === name && !each.bridge.isForeign)
  const isOurs = wasOurs || link.alias === ownBridgeAlias || link.mac === bridgeMac(name, around.machineId)
  return isOurs ? { ...bridge, mtu: link.mtu } : { ...bridge, mac: link.mac, mtu: link.mtu, isForeign: true }
}

/** A bridge carries another IPv4 address, or an IPv6 one in the same subnet, only with forceAddress or of our networks. */
function foreignAddressOn(bridge: BridgeSpec, link: ObservedLink, networks: readonly NetworkSpec[]) {
  if (bridge.forceAddress || bridge.vlanGateway !== undefined) return undefined
  const ours = [...bridge.addresses, ...networks.flatMap((each) => each.bridge?.addresses ?? [])]
  for (const own of bridge.addresses) {
    const isInTheWay = (address: string) =>
      !address.startsWith('fe80:') &&
      !ours.includes(address) &&
      familyOf(address) === familyOf(own) &&
      (familyOf(own) === 4 || overlaps(toCidr(address), toCidr(own)))
    const address = link.addresses.find(isInTheWay)
    if (address !== undefined) return { own, address }
  }
  return undefined
}
