// SPDX-License-Identifier: Apache-2.0
// What other programs keep and take away while we look (proc(5), settings of a node): where it is not there, or closed
// to us, it says nothing, and that is no error. Our own state is read by state/files.ts, which tells one from the
// other.

import { readdirSync, readFileSync, readlinkSync } from 'node:fs'

/** The names in a directory, in the order that the kernel gives; none where it cannot be read. */
export function namesIfThere(directory: string): readonly string[] {
  return orElse(() => readdirSync(directory), [])
}

/** The text of a file; empty where it cannot be read. */
export function textIfThere(file: string): string {
  return orElse(() => readFileSync(file, 'utf8'), '')
}

/** Where a symbolic link leads; empty where it cannot be read. */
export function linkIfThere(path: string): string {
  return orElse(() => readlinkSync(path), '')
}

/** What the function returns; `other` where it throws. */
export function orElse<T>(look: () => T, other: T): T {
  try {
    return look()
  } catch {
    return other
  }
}
