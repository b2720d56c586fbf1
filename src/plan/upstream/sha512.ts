// SPDX-License-Identifier: Apache-2.0
// SHA-512, by which the upstream plugins name chains and devices. Rarely needed: Node's own is loaded at the first use,
// since loading it costs a call 1 ms (plan/model/sha256.ts).

/** The digest of a text (as UTF-8) in hex, 128 digits. */
export function sha512Hex(text: string): string {
  return process.getBuiltinModule('node:crypto').createHash('sha512').update(text).digest('hex')
}
