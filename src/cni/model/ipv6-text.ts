// SPDX-License-Identifier: Apache-2.0
// IPv6 text to a 128-bit value and back: what Go's net.ParseIP takes in, and RFC 5952 out.

const COLON = 58
const DOT = 46

/** One hexadecimal digit's value, or -1. */
function hexDigit(code: number): number {
  if (code >= 48 && code <= 57) return code - 48
  const lower = code | 32
  return lower >= 97 && lower <= 102 ? lower - 87 : -1
}

/** A group of one to four hexadecimal digits starting at `at`, or undefined. */
function readGroup(text: string, at: number): { readonly value: number; readonly end: number } | undefined {
  let value = 0
  let end = at
  while (end < text.length) {
    const digit = hexDigit(text.charCodeAt(end))
    if (digit < 0) break
    if (end - at === 4) return undefined
    value = value * 16 + digit
    end++
  }
  return end === at ? undefined : { value, end }
}

/** The groups as written, with the index where `::` stands, or undefined when the text is no IPv6 address. */
function readGroups(text: string, readIpv4: (text: string) => number) {
  const groups: number[] = []
  let gap = text.startsWith('::') ? 0 : -1
  let at = gap === 0 ? 2 : 0
  while (at < text.length) {
    if (groups.length === 8) return undefined
    const group = readGroup(text, at)
    if (group === undefined) return undefined
    if (text.charCodeAt(group.end) === DOT) {
      const ipv4 = readIpv4(text.slice(at))
      if (ipv4 < 0) return undefined
      groups.push(Math.floor(ipv4 / 65536), ipv4 % 65536)
      break
    }
    groups.push(group.value)
    at = group.end
    if (at === text.length) break
    if (text.charCodeAt(at) !== COLON || at + 1 === text.length) return undefined
    at++
    if (text.charCodeAt(at) === COLON) {
      if (gap >= 0) return undefined
      gap = groups.length
      at++
    }
  }
  return { groups, gap }
}

/**
 * The value of an IPv6 address, or undefined. `::` stands for one group of zeros or more; the last
 * 32 bits may be dotted decimal, read by `readIpv4` (-1: not an IPv4 address); no zone.
 * Rules: Go net/netip ParseAddr, RFC 4291 section 2.2.
 */
export function readIpv6(text: string, readIpv4: (text: string) => number): bigint | undefined {
  const read = readGroups(text, readIpv4)
  if (read === undefined) return undefined
  const { groups, gap } = read
  if (gap < 0 ? groups.length !== 8 : groups.length > 7) return undefined
  const zeros = 8 - groups.length
  let value = 0n
  for (let index = 0; index < 8; index++) {
    const inGap = gap >= 0 && index >= gap && index < gap + zeros
    const group = inGap ? 0 : (groups[gap >= 0 && index >= gap ? index - zeros : index] ?? 0)
    value = (value << 16n) | BigInt(group)
  }
  return value
}

/** Where the longest run of two or more zero groups is, the first of equals (RFC 5952 section 4.2). */
function longestZeroRun(groups: readonly number[]): { readonly start: number; readonly length: number } {
  let best = { start: -1, length: 1 }
  let start = 0
  for (let index = 0; index <= groups.length; index++) {
    if (groups[index] === 0) continue
    if (index - start > best.length) best = { start, length: index - start }
    start = index + 1
  }
  return best
}

/** The text of a 128-bit value: lower case, no leading zeros, the longest zero run as `::` (RFC 5952). */
export function writeIpv6(value: bigint): string {
  const groups: number[] = []
  const high = value >> 64n
  for (const half of [high, value & 0xffff_ffff_ffff_ffffn]) {
    const top = Number(half >> 32n)
    const bottom = Number(half & 0xffff_ffffn)
    groups.push(top >>> 16, top & 0xffff, bottom >>> 16, bottom & 0xffff)
  }
  const hex = groups.map((group) => group.toString(16))
  const run = longestZeroRun(groups)
  if (run.start < 0) return hex.join(':')
  return `${hex.slice(0, run.start).join(':')}::${hex.slice(run.start + run.length).join(':')}`
}
