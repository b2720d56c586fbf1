// SPDX-License-Identifier: Apache-2.0
// Steps into a configuration as an operator writes them, and safe to print.

import { printable } from '../../../cni/model/error.ts'
import { keyPath, quote } from '../../../cni/model/invalid-config.ts'
import type { Step } from './json-places.ts'

/** `plugins[0].ipam.subnet`, control characters escaped. */
export function keyPathOf(steps: readonly Step[]): string {
  return printable(keyPath(steps)).replaceAll('\n', '\\n')
}

/** A value as short JSON, control characters escaped. */
export function shown(value: unknown): string {
  return printable(quote(value))
}

/** The value at `steps`; undefined where there is none. */
export function valueAt(value: unknown, steps: readonly Step[]): unknown {
  let at = value
  for (const step of steps) at = (at as Readonly<Record<Step, unknown>> | undefined | null)?.[step]
  return at
}
