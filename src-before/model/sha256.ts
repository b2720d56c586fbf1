// SPDX-License-Identifier: Apache-2.0
// SHA-256 (FIPS 180-4). Node's own comes with all of OpenSSL: with it an ADD, a DEL and a VERSION take 5 % more
// instructions (callgrind), and the texts digested here are short.

/** The first 32 bits of the fractional parts of the cube roots of the first 64 primes (FIPS 180-4, 4.2.2). */
const roundConstants = fractions(64, Math.cbrt)

const initial = fractions(8, Math.sqrt)

/** The digest of a text (as UTF-8) or of bytes, 32 bytes. */
export function sha256(data: string | Uint8Array): Buffer {
  const state = Int32Array.from(initial)
  const padded = pad(typeof data === 'string' ? Buffer.from(data) : data)
  const schedule = new Int32Array(64)
  for (let at = 0; at < padded.length; at += 64) {
    for (let t = 0; t < 16; t++) schedule[t] = padded.readInt32BE(at + 4 * t)
    extend(schedule)
    compress(state, schedule)
  }
  const digest = Buffer.alloc(32)
  for (let word = 0; word < 8; word++) digest.writeInt32BE(state[word] ?? 0, 4 * word)
  return digest
}

/** One 1 bit, zeros, and the length in bits: to a multiple of 64 bytes (5.1.1). */
function pad(bytes: Uint8Array): Buffer {
  const padded = Buffer.alloc(Math.ceil((bytes.length + 9) / 64) * 64)
  padded.set(bytes)
  padded[bytes.length] = 0x80
  padded.writeBigUInt64BE(BigInt(bytes.length) * 8n, padded.length - 8)
  return padded
}

/** Words 16 to 63 of the message schedule (6.2.2, step 1). */
function extend(w: Int32Array): void {
  for (let t = 16; t < 64; t++) {
    const a = w[t - 15] ?? 0
    const b = w[t - 2] ?? 0
    const s0 = rotate(a, 7) ^ rotate(a, 18) ^ (a >>> 3)
    const s1 = rotate(b, 17) ^ rotate(b, 19) ^ (b >>> 10)
    w[t] = (w[t - 16] ?? 0) + s0 + (w[t - 7] ?? 0) + s1
  }
}

/** 64 rounds over one block (6.2.2, steps 2 to 4). */
function compress(state: Int32Array, w: Int32Array): void {
  let [a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0] = state
  for (let t = 0; t < 64; t++) {
    const s1 = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)
    const t1 = (h + s1 + ((e & f) ^ (~e & g)) + (roundConstants[t] ?? 0) + (w[t] ?? 0)) | 0
    const s0 = rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)
    const t2 = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0
    h = g
    g = f
    f = e
    e = (d + t1) | 0
    d = c
    c = b
    b = a
    a = (t1 + t2) | 0
  }
  const added = [a, b, c, d, e, f, g, h]
  for (let word = 0; word < 8; word++) state[word] = (state[word] ?? 0) + (added[word] ?? 0)
}

function rotate(word: number, by: number): number {
  return (word >>> by) | (word << (32 - by))
}

/** The first 32 bits of the fractional part of `root` of the first `count` primes. */
function fractions(count: number, root: (value: number) => number): Int32Array {
  const primes: number[] = []
  for (let n = 2; primes.length < count; n++) if (primes.every((prime) => n % prime !== 0)) primes.push(n)
  return Int32Array.from(primes, (prime) => ((root(prime) % 1) * 2 ** 32) | 0)
}
