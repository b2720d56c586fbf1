// SPDX-License-Identifier: Apache-2.0
// What to do about addresses that are on a bridge already: upstream's ensureAddr
// (plugins/main/bridge/bridge.go), made to say who is in the way.

import { bareAddress, overlaps, parseCidr } from '../../cni/model/address.ts'
import { CniError } from '../../cni/model/error.ts'
import type { BridgeSpec, NetworkSpec } from '../model/attachment.ts'
import type { AddressedLink, AddressedLinks } from '../model/observed.ts'
import type { Op } from '../model/op.ts'

/**
 * Operations that take addresses off the bridge which stand in the way of the wanted ones. They go
 * when forceAddress says so, or when the bridge is of our making (`ownMac`) and nothing is plugged in. Throws CniError
 * 108 when the link is no bridge or an address stays in the way, naming both addresses and the ports.
 */
export function agreeOnAddresses(input: {
  readonly network: NetworkSpec
  readonly others: readonly NetworkSpec[]
  readonly host: AddressedLinks
  readonly ownMac: string
}): readonly Op[] {
  const { bridge } = input.network
  const link = bridge && input.host.links.get(bridge.name)
  if (bridge === undefined || link === undefined) return []
  if (link.kind !== 'bridge') throw noBridge(bridge.name, link.kind)
  if (bridge.vlanFiltering && link.vlanFiltering !== true) throw noVlans(bridge.name)
  const known = input.others.flatMap((other) => (other.bridge?.name === bridge.name ? other.bridge.addresses : []))
  const foreign = addressesInTheWay(link.addresses, bridge.addresses).filter((address) => !known.includes(address))
  if (foreign.length === 0) return []
  const ports = [...input.host.links.values()].filter((other) => other.master === bridge.name)
  const isFree = bridge.forceAddress || (link.mac === input.ownMac && ports.length === 0)
  if (!isFree) throw conflict({ bridge, foreign, ports })
  return foreign.map((cidr) => ({
    in: 'host',
    kind: 'addr.del',
    dev: bridge.name,
    cidr,
    why: `take ${cidr} off ${bridge.name}`,
  }))
}

/** Those of a bridge's addresses that keep it from having `wanted` ones. */
export function addressesInTheWay(there: readonly string[], wanted: readonly string[]): readonly string[] {
  const cidrs = wanted.flatMap((text) => parseCidr(text) ?? [])
  return there.filter((text) => {
    const address = parseCidr(text)
    if (address === undefined || wanted.includes(text)) return false
    // One IPv4 gateway a bridge, as upstream; IPv6 addresses may live side by side when they do not overlap.
    return cidrs.some((cidr) => cidr.family === address.family && (cidr.family === 4 || overlaps(cidr, address)))
  })
}

function conflict(found: {
  bridge: BridgeSpec
  foreign: readonly string[]
  ports: readonly AddressedLink[]
}): CniError {
  const { bridge, foreign, ports } = found
  const message =
    `"${bridge.name}" already has an IP address different from ${bridge.addresses.join(', ')}: ` +
    `${foreign.join(', ')}`
  return new CniError('bridge-foreign-address', message, { details: `${usersOf(bridge.name, ports)}; ${cure(found)}` })
}

function usersOf(bridge: string, ports: readonly AddressedLink[]): string {
  if (ports.length === 0)
    return `nothing is plugged into ${bridge}, which trestle did not make: another CNI plugin may have left it`
  const names = ports.map((port) => port.alias ?? port.name)
  return (
    `plugged into ${bridge}: ` +
    `${names.slice(0, 8).join(', ')}${names.length > 8 ? `, and ${names.length - 8} more` : ''}`
  )
}

/** An unused bridge goes whole: its other addresses and settings are of the same past. */
function cure({
  bridge,
  foreign,
  ports,
}: {
  bridge: BridgeSpec
  foreign: readonly string[]
  ports: readonly unknown[]
}) {
  const removal =
    ports.length === 0
      ? `the bridge: ip link del ${bridge.name}`
      : `the address: ${foreign.map((cidr) => `ip addr del ${cidr} dev ${bridge.name}`).join('; ')}`
  const kept = new Set(bridge.addresses.map(bareAddress))
  const isCut = ports.length > 0 && foreign.some((cidr) => !kept.has(bareAddress(cidr)))
  const note = isCut ? '; with the last two, pods that are plugged in lose their gateway' : ''
  return `use another "bridge", set "forceAddress": true, or remove ${removal}${note}`
}

function noBridge(name: string, kind: string | undefined): CniError {
  return new CniError('bridge-wrong-kind', `"${name}" already exists but is not a bridge`, {
    details: `it is ${kind === undefined ? 'a device of the machine' : `of kind ${kind}`}; choose another "bridge"`,
  })
}

/** Told before anything is made: the gateway's link would be left when its VLAN is refused. */
function noVlans(name: string): CniError {
  return new CniError('bridge-without-vlans', `"${name}" was made without VLAN filtering`, {
    details:
      `the configuration has "vlan" or "vlanTrunk"; use another "bridge", or switch it on: ip link set ${name} ` +
      'type bridge vlan_filtering 1',
  })
}
