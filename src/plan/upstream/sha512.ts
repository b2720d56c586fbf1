// SPDX-License-Identifier: Apache-2.0
// SHA-512 (FIPS 180-4), by which the reference plugins name chains and devices. Rarely needed, so it is
// short rather than fast: 64-bit words as bigint, constants made at the first use.

const wordMask = (1n << 64n) - 1n

let constants: { readonly initial: readonly bigint[]; readonly rounds: readonly bigint[] } | undefined

/** The digest of a text (as UTF-8) in hex, 128 digits. */
export function sha512Hex(text: string): string {
  constants ??= makeConstants()
  let state = constants.initial
  const padded = pad(Buffer.from(text))
  for (let at = 0; at < padded.length; at += 128) state = compress(state, scheduleOf(padded, at), constants.rounds)
  return state.map((word) => word.toString(16).padStart(16, '0')).join('')
}

/** One 1 bit, zeros, and the length in bits as 128 bits: to a multiple of 128 bytes (5.1.2). */
function pad(bytes: Buffer): Buffer {
  const padded = Buffer.alloc(Math.ceil((bytes.length + 17) / 128) * 128)
  padded.set(bytes)
  padded[bytes.length] = 0x80
  padded.writeBigUInt64BE(BigInt(bytes.length) * 8n, padded.length - 8)
  return padded
}

function scheduleOf(padded: Buffer, at: number): readonly bigint[] {
  const words = Array.from({ length: 16 }, (_, index) => padded.readBigUInt64BE(at + 8 * index))
  const word = (index: number) => words[index] ?? 0n
  for (let t = 16; t < 80; t++) {
    const early = word(t - 15)
    const late = word(t - 2)
    const sigma0 = rotate(early, 1n) ^ rotate(early, 8n) ^ (early >> 7n)
    const sigma1 = rotate(late, 19n) ^ rotate(late, 61n) ^ (late >> 6n)
    words.push((sigma1 + word(t - 7) + sigma0 + word(t - 16)) & wordMask)
  }
  return words
}

function compress(state: readonly bigint[], words: readonly bigint[], rounds: readonly bigint[]): readonly bigint[] {
  let [a = 0n, b = 0n, c = 0n, d = 0n, e = 0n, f = 0n, g = 0n, h = 0n] = state
  for (let t = 0; t < 80; t++) {
    const sum1 = rotate(e, 14n) ^ rotate(e, 18n) ^ rotate(e, 41n)
    const choice = (e & f) ^ (~e & wordMask & g)
    const first = h + sum1 + choice + (rounds[t] ?? 0n) + (words[t] ?? 0n)
    const sum0 = rotate(a, 28n) ^ rotate(a, 34n) ^ rotate(a, 39n)
    const majority = (a & b) ^ (a & c) ^ (b & c)
    ;[h, g, f, e, d, c, b, a] = [g, f, e, (d + first) & wordMask, c, b, a, (first + sum0 + majority) & wordMask]
  }
  return [a, b, c, d, e, f, g, h].map((word, index) => (word + (state[index] ?? 0n)) & wordMask)
}

function rotate(word: bigint, by: bigint): bigint {
  return ((word >> by) | (word << (64n - by))) & wordMask
}

/** The first 64 bits of the fractional parts of square roots (5.3.5) and cube roots (4.2.3) of primes. */
function makeConstants() {
  const primes: bigint[] = []
  for (let n = 2n; primes.length < 80; n++) if (primes.every((prime) => n % prime !== 0n)) primes.push(n)
  return {
    initial: primes.slice(0, 8).map((prime) => root(prime << 128n, 2n) & wordMask),
    rounds: primes.map((prime) => root(prime << 192n, 3n) & wordMask),
  }
}

/** The integer root of `degree`, rounded down, of a number below 2^216: bit by bit. */
function root(value: bigint, degree: bigint): bigint {
  let found = 0n
  for (let bit = 1n << 72n; bit > 0n; bit >>= 1n) if ((found + bit) ** degree <= value) found += bit
  return found
}
