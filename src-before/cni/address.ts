// SPDX-License-Identifier: Apache-2.0
// IP addresses and CIDRs as numbers. Text is read with the rules of Go's net.ParseIP and ParseCIDR,
// since the configurations that reach us were written for plugins that use them; it is written
// canonically (RFC 5952).

import { hasControlCharacter } from './error.ts'

export type Family = 4 | 6

export interface Address {
  readonly family: Family
  readonly value: bigint
}

/** A prefix; `value` keeps the host bits: 10.1.2.3/24 stays 10.1.2.3. */
export interface Cidr {
  readonly family: Family
  readonly value: bigint
  readonly prefixLength: number
}

const MAPPED_IPV4 = 0xffffn

export function bitsOf(family: Family): 32 | 128 {
  return family === 4 ? 32 : 128
}

function readIpv4(text: string): number {
  let value = 0
  let octet = -1
  let dots = 0
  for (let at = 0; at < text.length; at++) {
    const digit = text.charCodeAt(at) - 48
    if (digit === -2) {
      if (octet < 0 || dots === 3) return -1
      value = value * 256 + octet
      octet = -1
      dots++
    } else if (digit >= 0 && digit <= 9 && octet !== 0) {
      octet = octet < 0 ? digit : octet * 10 + digit
      if (octet > 255) return -1
    } else {
      return -1
    }
  }
  return dots === 3 && octet >= 0 ? value * 256 + octet : -1
}

/**
 * An address, or undefined when the text is none. As Go's net.ParseIP: no leading zeros in IPv4
 * octets, no zone, and an IPv4-mapped IPv6 address (::ffff:a.b.c.d) is the IPv4 address.
 */
export function parseAddress(text: string): Address | undefined {
  if (!text.includes(':')) {
    const value = readIpv4(text)
    return value < 0 ? undefined : { family: 4, value: BigInt(value) }
  }
  const value = readIpv6(text)
  if (value === undefined) return undefined
  return value >> 32n === MAPPED_IPV4 ? { family: 4, value: value & 0xffff_ffffn } : { family: 6, value }
}

/**
 * A CIDR with its host bits, or undefined when the text is none. As Go's net.ParseCIDR; an
 * IPv4-mapped prefix becomes the IPv4 one, and is no CIDR when it is shorter than 96 bits.
 */
export function parseCidr(text: string): Cidr | undefined {
  const slash = text.indexOf('/')
  if (slash < 0) return undefined
  const address = parseAddress(text.slice(0, slash))
  const digits = text.slice(slash + 1)
  if (address === undefined || !/^[0-9]{1,7}$/.test(digits)) return undefined
  const isMapped = address.family === 4 && text.includes(':')
  const prefixLength = Number(digits) - (isMapped ? 96 : 0)
  if (prefixLength < 0 || prefixLength > bitsOf(address.family)) return undefined
  return { ...address, prefixLength }
}

/** A CIDR, or an address as the one of full length; undefined for another text. */
export function parsePrefix(text: string): Cidr | undefined {
  const address = parseAddress(text)
  return address === undefined ? parseCidr(text) : hostCidr(address)
}

/** The address as `formatAddress` writes it; text that is no address stays. */
export function canonicalAddress(text: string): string {
  const address = parseAddress(text)
  return address === undefined ? text : formatAddress(address)
}

export function formatAddress(address: Address): string {
  if (address.family === 6) return writeIpv6(address.value)
  const value = Number(address.value)
  return `${value >>> 24}.${(value >>> 16) & 255}.${(value >>> 8) & 255}.${value & 255}`
}

/** Canonical text with the prefix length; the host bits are kept. */
export function formatCidr(cidr: Cidr): string {
  return `${formatAddress(cidr)}/${cidr.prefixLength}`
}

/** The ones in the host part: 255n for an IPv4 /24. */
function hostMask(cidr: Cidr): bigint {
  return (1n << BigInt(bitsOf(cidr.family) - cidr.prefixLength)) - 1n
}

export function networkOf(cidr: Cidr): Cidr {
  return { family: cidr.family, value: firstOf(cidr).value, prefixLength: cidr.prefixLength }
}

/** The CIDR without host bits, as the kernel has the destination of a route; text that is no CIDR stays. */
export function canonicalNetwork(text: string): string {
  const cidr = parseCidr(text)
  return cidr === undefined ? text : formatCidr(networkOf(cidr))
}

/** The lowest address of the prefix: the network address. */
export function firstOf(cidr: Cidr): Address {
  const mask = hostMask(cidr)
  return { family: cidr.family, value: (cidr.value | mask) ^ mask }
}

/** The highest address of the prefix: for IPv4 the broadcast address. */
export function lastOf(cidr: Cidr): Address {
  return { family: cidr.family, value: cidr.value | hostMask(cidr) }
}

export function hostCidr(address: Address): Cidr {
  return { family: address.family, value: address.value, prefixLength: bitsOf(address.family) }
}

export function includes(cidr: Cidr, address: Address): boolean {
  if (cidr.family !== address.family) return false
  const hostBits = BigInt(bitsOf(cidr.family) - cidr.prefixLength)
  return cidr.value >> hostBits === address.value >> hostBits
}

/** True when the prefixes share an address; then one contains the other. */
export function overlaps(a: Cidr, b: Cidr): boolean {
  return a.prefixLength <= b.prefixLength ? includes(a, b) : includes(b, a)
}

/** Whether two CIDRs or addresses, as text, have an address in common. */
export function isOverlap(a: string, b: string): boolean {
  const [one, other] = [parsePrefix(a), parsePrefix(b)]
  return one !== undefined && other !== undefined && overlaps(one, other)
}

export function isUnspecified(address: Address): boolean {
  return address.value === 0n
}

/** Below 0, 0 or above 0, for sorting: IPv4 before IPv6, then by value. */
export function compare(a: Address, b: Address): number {
  if (a.family !== b.family) return a.family - b.family
  if (a.value === b.value) return 0
  return a.value < b.value ? -1 : 1
}

/** The address after this one, or undefined after the last of the family. */
export function next(address: Address): Address | undefined {
  const value = address.value + 1n
  return value >> BigInt(bitsOf(address.family)) === 0n ? { family: address.family, value } : undefined
}

/**
 * What is left of `cidr` without `hole`, as disjoint prefixes from long to short: all of it when they
 * do not overlap, nothing when the hole contains it, else one prefix for each bit between the two.
 */
export function subtract(cidr: Cidr, hole: Cidr): readonly Cidr[] {
  if (!overlaps(cidr, hole)) return [networkOf(cidr)]
  const rest: Cidr[] = []
  for (let prefixLength = hole.prefixLength; prefixLength > cidr.prefixLength; prefixLength--) {
    const siblingBit = 1n << BigInt(bitsOf(cidr.family) - prefixLength)
    rest.push(networkOf({ family: cidr.family, value: hole.value ^ siblingBit, prefixLength }))
  }
  return rest
}

/** The family of an address or a CIDR in text as this file writes it: IPv6 has a colon. */
export function familyOf(text: string): Family {
  return text.includes(':') ? 6 : 4
}

/** An address with its full prefix length; a text that has a length stays. */
export function asPrefix(text: string): string {
  return text.includes('/') ? text : `${text}/${bitsOf(familyOf(text))}`
}

export function bareAddress(cidr: string): string {
  const slash = cidr.indexOf('/')
  return slash === -1 ? cidr : cidr.slice(0, slash)
}

const GROUPS = 8

/**
 * The value of an IPv6 address, or undefined. `::` stands for one group of zeros or more; the last 32 bits may be
 * dotted decimal; no zone. Rules: Go net/netip ParseAddr, RFC 4291 section 2.2.
 */
function readIpv6(text: string): bigint | undefined {
  // A URL drops tabs and line ends before it is read.
  if (!/^[\da-f:.]+$/i.test(text) || !URL.canParse(`http://[${text}]`)) return undefined
  const [head = [], tail = []] = canonical(text)
    .split('::')
    .map((part) => (part === '' ? [] : part.split(':')))
  const zeros = Array.from({ length: GROUPS - head.length - tail.length }, () => '0')
  return BigInt(`0x${[...head, ...zeros, ...tail].map((group) => group.padStart(4, '0')).join('')}`)
}

/** The text of a 128-bit value: lower case, no leading zeros, the longest zero run as `::` (RFC 5952). */
function writeIpv6(value: bigint): string {
  const digits = value.toString(16).padStart(4 * GROUPS, '0')
  return canonical(digits.replace(/(?!^)(?=(.{4})+$)/g, ':'))
}

function canonical(text: string): string {
  return new URL(`http://[${text}]`).hostname.slice(1, -1)
}

// MAC addresses of pods' interfaces, as text.

const forms = [
  /^[0-9a-fA-F]{2}(?::[0-9a-fA-F]{2}){5}$/,
  /^[0-9a-fA-F]{2}(?:-[0-9a-fA-F]{2}){5}$/,
  /^[0-9a-fA-F]{4}(?:\.[0-9a-fA-F]{4}){2}$/,
]

/** Lower case with colons, or undefined. The three forms of Go's net.ParseMAC, 6 bytes only. */
export function parseMac(text: string): string | undefined {
  if (!forms.some((form) => form.test(text))) return undefined
  return (text.toLowerCase().match(/[0-9a-f]{2}/g) ?? []).join(':')
}

/** What `text` is not and would have to be for the MAC of an interface, which has no group address; or undefined. */
export function macProblem(text: string): { readonly what: string; readonly hint: string } | undefined {
  const mac = parseMac(text)
  if (mac === undefined) return { what: 'a MAC address', hint: 'use six bytes like "c2:11:22:33:44:55"' }
  const first = Number.parseInt(mac.slice(0, 2), 16)
  if (first % 2 === 0 && mac !== '00:00:00:00:00:00') return undefined
  const unicast = mac.replace(/^../, ((first & 0xfc) | 2).toString(16).padStart(2, '0'))
  const what = first % 2 === 1 ? 'a unicast MAC address' : 'an address an interface can have'
  return { what, hint: `use an even first byte, like "${unicast}"` }
}

// Names of network interfaces: what the specification's own library refuses, and what trestle
// refuses on top because a tool between us and the kernel would read it as something else.

/** Room in the kernel's IFNAMSIZ (16) without the closing zero byte: linux/if.h. */
const LONGEST_BYTES = 15

/** Directories of /proc/sys/net/ipv4/conf: an interface of that name would share their sysctls. */
const sysctlWords: readonly string[] = ['all', 'default']

function utf8Length(text: string): number {
  let bytes = 0
  for (const char of text) {
    const code = char.codePointAt(0) ?? 0
    bytes += code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4
  }
  return bytes
}

/**
 * Why `name` can be no interface's name, or undefined. The rules and texts are those of libcni's
 * ValidateInterfaceName (pkg/utils/utils.go); the length is in bytes.
 */
export function linkNameProblem(name: string): string | undefined {
  if (name === '') return 'interface name is empty'
  if (utf8Length(name) > LONGEST_BYTES) return 'interface name is too long'
  if (name === '.' || name === '..') return 'interface name is . or ..'
  if (/[/:\u0085]|(?!\ufeff)\s/.test(name)) return 'interface name contains / or : or whitespace characters'
  return undefined
}

/**
 * Why trestle makes no interface called `name`, though the kernel would, or undefined. `%` is a
 * pattern to the kernel (dev_alloc_name), `#`, quotes and backslash are syntax in a batch of
 * iproute2 (lib/utils.c) or nft, what is not ASCII reads differently in every tool, and a leading
 * `-` is an option.
 */
export function unsafeNameProblem(name: string): string | undefined {
  if (/[^\x20-\x7e]/.test(name) && !hasControlCharacter(name))
    return 'interface name contains a character outside ASCII'
  if (/[%#\\"'`]/.test(name) || hasControlCharacter(name))
    return 'interface name contains %, #, \\, a quote or a control character'
  if (name.startsWith('-')) return 'interface name starts with -'
  if (sysctlWords.includes(name)) return `interface name ${name} is a directory of /proc/sys/net/ipv4/conf`
  return undefined
}

/** Why `name` can be no bridge's name, or undefined: iptables and nft read it as a pattern (iptables(8), -i). */
export function patternNameProblem(name: string): string | undefined {
  return /^!|[+*]$/.test(name) ? 'interface name starts with ! or ends with + or *' : undefined
}

/** Whether the CIDR has more than one address. */
export function isSubnet(text: string): boolean {
  const cidr = parseCidr(text)
  return cidr !== undefined && cidr.prefixLength < bitsOf(cidr.family)
}
