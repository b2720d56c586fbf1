// SPDX-License-Identifier: Apache-2.0
// One range of an address pool, checked in the order and with the messages of upstream
// host-local plugin. Every message starts with the key it is about.

import {
  type Address,
  bitsOf,
  type Cidr,
  compare,
  firstOf,
  formatAddress,
  formatCidr,
  includes,
  lastOf,
  networkOf,
  parseAddress,
  parseCidr,
} from '../cni/address.ts'
import type { CniError } from '../cni/error.ts'
import { configError, type KeyPath } from '../cni/invalid-config.ts'
import type { Range } from './net-conf.ts'

/** A range as written. An empty text counts as absent, as in Go's net.IP. */
export interface RangeInput {
  readonly subnet?: string | undefined
  readonly rangeStart?: string | undefined
  readonly rangeEnd?: string | undefined
  readonly gateway?: string | undefined
}

/** A range with its ends as numbers, for comparing. */
export interface Bounds {
  readonly range: Range
  readonly start: Address
  readonly end: Address
}

/** The range being read: its key path, and its set's index, which upstream's messages name. */
export interface Place {
  readonly path: KeyPath
  readonly set: number
}

const idOfKey = {
  subnet: 'range-subnet',
  rangeStart: 'range-bound',
  rangeEnd: 'range-bound',
  gateway: 'range-gateway',
} as const

function refuseRange(
  place: Place,
  key: keyof RangeInput,
  reason: readonly [message: string, details: string],
): CniError {
  // podcidr is the subnet itself.
  const path = place.path[0] === 'podcidr' ? place.path : [...place.path, key]
  return configError(path, `invalid range set ${place.set}: ${reason[0]}`, { id: idOfKey[key], hint: reason[1] })
}

/** The subnet: a prefix without host bits and with room for a gateway and a pod. */
function readSubnet(text: string | undefined, place: Place): Cidr {
  const example = 'Give the network in CIDR notation, for example "10.1.2.0/24".'
  if (text === undefined) throw refuseRange(place, 'subnet', ['IP <nil> not v4 nor v6: the subnet is missing', example])
  const subnet = parseCidr(text)
  if (subnet === undefined) throw refuseRange(place, 'subnet', [`invalid CIDR address: ${text}`, example])
  const longest = bitsOf(subnet.family) - 2
  if (subnet.prefixLength > longest) {
    const details = `The prefix length may be at most ${longest}: a gateway and one pod need a /${longest}.`
    throw refuseRange(place, 'subnet', [`Network ${formatCidr(subnet)} too small to allocate from`, details])
  }
  const network = networkOf(subnet)
  if (network.value !== subnet.value) {
    const length = `For a subnet mask of length ${subnet.prefixLength} the network address is ${formatAddress(network)}`
    throw refuseRange(place, 'subnet', [`Network has host bits set. ${length}`, `Write "${formatCidr(network)}".`])
  }
  return subnet
}

function readEnd(input: RangeInput, key: 'rangeStart' | 'rangeEnd' | 'gateway', place: Place): Address | undefined {
  const text = input[key]
  if (text === undefined || text === '') return undefined
  const address = parseAddress(text)
  if (address !== undefined) return address
  const details = 'Give an address like "10.1.2.3" or "fd00::3": no prefix length, no leading zero in an IPv4 octet.'
  throw refuseRange(place, key, [`invalid IP address: ${text}`, details])
}

/**
 * The gateway. Upstream accepts any; we refuse what cannot work: the other family, and the
 * network and broadcast addresses of IPv4. (In IPv6 both are ordinary or router addresses.)
 */
function checkGateway(gateway: Address, subnet: Cidr, place: Place): void {
  const text = formatAddress(gateway)
  const details = `The default is ${formatAddress(offset(firstOf(subnet), 1n))}, the first address of the subnet.`
  if (gateway.family !== subnet.family) {
    const message = `gateway ${text} is not of the same family as ${formatCidr(subnet)}`
    throw refuseRange(place, 'gateway', [message, details])
  }
  if (subnet.family === 6) return
  const isNetwork = gateway.value === firstOf(subnet).value
  if (!isNetwork && gateway.value !== lastOf(subnet).value) return
  const message = `gateway ${text} is the ${isNetwork ? 'network' : 'broadcast'} address of ${formatCidr(subnet)}`
  throw refuseRange(place, 'gateway', [message, details])
}

function offset(address: Address, by: bigint): Address {
  return { family: address.family, value: address.value + by }
}

/**
 * One range, complete. Defaults: gateway and rangeStart the address after the network's; rangeEnd the
 * one before the broadcast address, in IPv6 the last. Source: host-local's range.go. Throws CniError
 * invalidConfig.
 */
export function readRange(input: RangeInput, place: Place): Bounds {
  const subnet = readSubnet(input.subnet, place)
  const given = {
    gateway: readEnd(input, 'gateway', place),
    start: readEnd(input, 'rangeStart', place),
    end: readEnd(input, 'rangeEnd', place),
  }
  if (given.gateway !== undefined) checkGateway(given.gateway, subnet, place)
  const first = firstOf(subnet)
  const last = lastOf(subnet)
  const ends = `from ${formatAddress(first)} to ${formatAddress(last)}`
  const between = `It must be ${ends}, and rangeStart not after rangeEnd.`
  const start = given.start ?? offset(first, 1n)
  const end = given.end ?? (subnet.family === 4 ? offset(last, -1n) : last)
  const isReversed = includes(subnet, end) && compare(start, end) > 0
  if (!includes(subnet, start) || (isReversed && given.start !== undefined)) {
    const message = `RangeStart ${formatAddress(start)} not in network ${formatCidr(subnet)}`
    throw refuseRange(place, 'rangeStart', [message, between])
  }
  if (!includes(subnet, end) || isReversed) {
    const message = `RangeEnd ${formatAddress(end)} not in network ${formatCidr(subnet)}`
    throw refuseRange(place, 'rangeEnd', [message, between])
  }
  const range: Range = {
    subnet: formatCidr(subnet),
    rangeStart: formatAddress(start),
    rangeEnd: formatAddress(end),
    gateway: formatAddress(given.gateway ?? offset(first, 1n)),
  }
  return { range, start, end }
}
