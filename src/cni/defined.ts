// SPDX-License-Identifier: Apache-2.0
// Absent keys in place of undefined ones: what goes into a record or a result has no key without a value.

/** An object without its undefined fields. */
export function defined<T extends object>(object: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]?: Exclude<T[K], undefined>
  }
}
