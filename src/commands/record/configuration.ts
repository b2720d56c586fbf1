// SPDX-License-Identifier: Apache-2.0
// A configuration as JSON that keeps the digits of its numbers: a rate of 2^64 - 1 is none of JavaScript's numbers.

import { isObject } from '../../cni/json.ts'

/** The object; undefined for another value or no JSON. */
export function parseObject(text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return isObject(value) ? value : undefined
  } catch {
    return undefined
  }
}
