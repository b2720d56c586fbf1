// SPDX-License-Identifier: Apache-2.0
// IPv6 text to a 128-bit value and back. The URL parser reads what Go's net.ParseIP takes, and writes RFC 5952
// (url.spec.whatwg.org, "IPv6 parser" and "IPv6 serializer").

const GROUPS = 8

/**
 * The value of an IPv6 address, or undefined. `::` stands for one group of zeros or more; the last 32 bits may be
 * dotted decimal; no zone. Rules: Go net/netip ParseAddr, RFC 4291 section 2.2.
 */
export function readIpv6(text: string): bigint | undefined {
  // A URL drops tabs and line ends before it is read.
  if (!/^[\da-f:.]+$/i.test(text) || !URL.canParse(`http://[${text}]`)) return undefined
  const [head = [], tail = []] = canonical(text)
    .split('::')
    .map((part) => (part === '' ? [] : part.split(':')))
  const zeros = Array.from({ length: GROUPS - head.length - tail.length }, () => '0')
  return BigInt(`0x${[...head, ...zeros, ...tail].map((group) => group.padStart(4, '0')).join('')}`)
}

/** The text of a 128-bit value: lower case, no leading zeros, the longest zero run as `::` (RFC 5952). */
export function writeIpv6(value: bigint): string {
  const digits = value.toString(16).padStart(4 * GROUPS, '0')
  return canonical(digits.replace(/(?!^)(?=(.{4})+$)/g, ':'))
}

function canonical(text: string): string {
  return new URL(`http://[${text}]`).hostname.slice(1, -1)
}
