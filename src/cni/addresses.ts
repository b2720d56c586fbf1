// SPDX-License-Identifier: Apache-2.0
// IP addresses and prefixes. Text is read by the rules of Go's net.ParseIP and ParseCIDR, since the configurations that
// reach trestle were written for plugins that use them, and written canonically (RFC 5952): reservations are files named
// by it. ip-num is the oracle in the tests; on this path it costs 8 ms a call (its validation compiles large patterns).

export type Family = 4 | 6

export interface Address {
  readonly family: Family
  readonly value: bigint
}

/** A prefix that keeps its host bits: 10.1.2.3/24 stays 10.1.2.3. */
export interface Cidr extends Address {
  readonly prefixLength: number
}

export function bitsOf(family: Family): 32 | 128 {
  return family === 4 ? 32 : 128
}

/** The family of an address or prefix in canonical text. */
export function familyOf(text: string): Family {
  return text.includes(':') ? 6 : 4
}

/**
 * An address, or undefined for other text. As in Go: no leading zeros in IPv4 octets, no zone, and ::ffff:a.b.c.d is
 * the IPv4 address.
 */
export function parseAddress(text: string): Address | undefined {
  if (!text.includes(':')) return parseIpv4(text)
  const value = parseIpv6(text)
  if (value === undefined) return undefined
  return value >> 32n === 0xffffn ? { family: 4, value: value & 0xffff_ffffn } : { family: 6, value }
}

function parseIpv4(text: string): Address | undefined {
  const octets = text.split('.')
  if (octets.length !== 4 || !octets.every((octet) => /^(0|[1-9][0-9]{0,2})$/.test(octet))) return undefined
  let value = 0
  for (const octet of octets) {
    if (Number(octet) > 255) return undefined
    value = value * 256 + Number(octet)
  }
  return { family: 4, value: BigInt(value) }
}

const groups = 8

function parseIpv6(text: string): bigint | undefined {
  // The characters are checked first: a URL drops tabs and line ends.
  if (!/^[\da-f:.]+$/i.test(text) || !URL.canParse(`http://[${text}]`)) return undefined
  const [head = [], tail = []] = canonicalIpv6(text)
    .split('::')
    .map((part) => (part === '' ? [] : part.split(':')))
  const zeros = Array<string>(groups - head.length - tail.length).fill('0')
  return BigInt(`0x${[...head, ...zeros, ...tail].map((group) => group.padStart(4, '0')).join('')}`)
}

function canonicalIpv6(text: string): string {
  return new URL(`http://[${text}]`).hostname.slice(1, -1)
}

/** A prefix with its host bits, or undefined for other text. ::ffff:a.b.c.d/n with n below 96 is none, as in Go. */
export function parseCidr(text: string): Cidr | undefined {
  const slash = text.indexOf('/')
  const address = parseAddress(text.slice(0, Math.max(slash, 0)))
  const digits = text.slice(slash + 1)
  if (slash < 0 || address === undefined || !/^[0-9]{1,7}$/.test(digits)) return undefined
  const isMapped = address.family === 4 && text.includes(':')
  const prefixLength = Number(digits) - (isMapped ? 96 : 0)
  return prefixLength < 0 || prefixLength > bitsOf(address.family) ? undefined : { ...address, prefixLength }
}

/** A prefix, or an address as the prefix of full length. */
export function parsePrefix(text: string): Cidr | undefined {
  const address = parseAddress(text)
  return address === undefined ? parseCidr(text) : { ...address, prefixLength: bitsOf(address.family) }
}

/** The prefix of text that this program has written itself. Throws TypeError for other text. */
export function toCidr(text: string): Cidr {
  const cidr = parsePrefix(text)
  if (cidr === undefined) throw new TypeError(`not an address: ${text}`)
  return cidr
}

export function formatAddress({ family, value }: Address): string {
  if (family === 6)
    return canonicalIpv6(
      value
        .toString(16)
        .padStart(32, '0')
        .replace(/(?!^)(?=(.{4})+$)/g, ':'),
    )
  const number = Number(value)
  return `${number >>> 24}.${(number >>> 16) & 255}.${(number >>> 8) & 255}.${number & 255}`
}

export function formatCidr(cidr: Cidr): string {
  return `${formatAddress(cidr)}/${cidr.prefixLength}`
}

/** An address with its full prefix length; text that has a length stays. */
export function asPrefix(text: string): string {
  return text.includes('/') ? text : `${text}/${bitsOf(familyOf(text))}`
}

export function bareAddress(cidr: string): string {
  return cidr.split('/', 1)[0] ?? cidr
}

/** The prefix without host bits, as the kernel writes a route's destination. Text that is no prefix stays. */
export function networkText(text: string): string {
  const cidr = parseCidr(text)
  return cidr === undefined ? text : formatCidr(networkOf(cidr))
}

/** Whether the prefix has more than one address. */
export function isSubnet(text: string): boolean {
  const cidr = parseCidr(text)
  return cidr !== undefined && cidr.prefixLength < bitsOf(cidr.family)
}

function hostMask({ family, prefixLength }: Cidr): bigint {
  return (1n << BigInt(bitsOf(family) - prefixLength)) - 1n
}

export function networkOf(cidr: Cidr): Cidr {
  return { ...firstOf(cidr), prefixLength: cidr.prefixLength }
}

/** The lowest address of the prefix: the network address. */
export function firstOf(cidr: Cidr): Address {
  return { family: cidr.family, value: (cidr.value | hostMask(cidr)) ^ hostMask(cidr) }
}

/** The highest address of the prefix: in IPv4 the broadcast address. */
export function lastOf(cidr: Cidr): Address {
  return { family: cidr.family, value: cidr.value | hostMask(cidr) }
}

export function includes(cidr: Cidr, address: Address): boolean {
  const hostBits = BigInt(bitsOf(cidr.family) - cidr.prefixLength)
  return cidr.family === address.family && cidr.value >> hostBits === address.value >> hostBits
}

/** Whether `outer` has every address of `inner`. */
export function contains(outer: Cidr, inner: Cidr): boolean {
  return outer.prefixLength <= inner.prefixLength && includes(outer, inner)
}

/** Two prefixes have an address in common only where one contains the other. */
export function overlaps(a: Cidr, b: Cidr): boolean {
  return contains(a, b) || contains(b, a)
}

/** For sorting: IPv4 before IPv6, then by value. */
export function compareAddresses(a: Address, b: Address): number {
  if (a.family !== b.family) return a.family - b.family
  return a.value < b.value ? -1 : a.value > b.value ? 1 : 0
}

/** What is left of `cidr` without `hole`, which it contains: one prefix for each bit between the two. */
export function subtract(cidr: Cidr, hole: Cidr): readonly Cidr[] {
  const rest: Cidr[] = []
  for (let prefixLength = hole.prefixLength; prefixLength > cidr.prefixLength; prefixLength--) {
    const siblingBit = 1n << BigInt(bitsOf(cidr.family) - prefixLength)
    rest.push(networkOf({ family: cidr.family, value: hole.value ^ siblingBit, prefixLength }))
  }
  return rest
}

// MAC addresses.

/** Six bytes in lower case with colons, or undefined. The three forms of Go's net.ParseMAC. */
export function parseMac(text: string): string | undefined {
  const isMac = /^(?:[\da-f]{2}([:-])(?:[\da-f]{2}\1){4}[\da-f]{2}|[\da-f]{4}\.[\da-f]{4}\.[\da-f]{4})$/i.test(text)
  return isMac
    ? text
        .toLowerCase()
        .match(/[\da-f]{2}/g)
        ?.join(':')
    : undefined
}

/** Why an interface cannot have the MAC, or undefined. */
export function macProblem(text: string): { readonly what: string; readonly hint: string } | undefined {
  const mac = parseMac(text)
  if (mac === undefined) return { what: 'a MAC address', hint: 'use six bytes like "c2:11:22:33:44:55"' }
  const first = Number.parseInt(mac.slice(0, 2), 16)
  if (first % 2 === 0 && mac !== '00:00:00:00:00:00') return undefined
  const unicast = mac.replace(/^../, ((first & 0xfc) | 2).toString(16).padStart(2, '0'))
  const what = first % 2 === 1 ? 'a unicast MAC address' : 'an address an interface can have'
  return { what, hint: `use an even first byte, like "${unicast}"` }
}

// Names of network interfaces.

/** IFNAMSIZ is 16 with the closing zero byte (include/uapi/linux/if.h). */
export const longestLinkName = 15

/** Why no interface can have the name, or undefined. Rules and texts are those of libcni (pkg/utils/utils.go). */
export function linkNameProblem(name: string): string | undefined {
  if (name === '') return 'interface name is empty'
  if (Buffer.byteLength(name) > longestLinkName) return 'interface name is too long'
  if (name === '.' || name === '..') return 'interface name is . or ..'
  if (/[/:\u0085]|(?!\ufeff)\s/.test(name)) return 'interface name contains / or : or whitespace characters'
  return undefined
}

/**
 * Why trestle makes no interface of that name although the kernel would, or undefined: `%` is a pattern
 * (dev_alloc_name), `#`, quotes and backslash are syntax of `ip -batch` and nft, `all` and `default` are directories of
 * sysctls, and text outside ASCII reads differently in every tool.
 */
export function unsafeNameProblem(name: string): string | undefined {
  if (/[%#\\"'`\x00-\x1f\x7f]/.test(name)) return 'interface name contains %, #, \\, a quote or a control character'
  if (/[^\x20-\x7e]/.test(name)) return 'interface name contains a character outside ASCII'
  if (name.startsWith('-')) return 'interface name starts with -'
  if (name === 'all' || name === 'default') return `interface name ${name} is a directory of /proc/sys/net/ipv4/conf`
  return undefined
}
