// SPDX-License-Identifier: Apache-2.0
// Keys inside of objects that are taken over whole, like `ipam`: one that nobody knows is passed on, and was never
// read.

import { keyPathOf } from '../lint/json/key-path.ts'
import { unknownOwnKeys } from '../lint/rules/own-keys.ts'
import { type Remark, warning } from './remarks.ts'

/** A warning for each key below the first level of our entry that trestle does not read, as upstream did not. */
export function nestedKeyRemarks(trestle: Readonly<Record<string, unknown>>): readonly Remark[] {
  return unknownOwnKeys(trestle, []).flatMap(({ steps = [], message, severity }) => {
    if (steps.length < 2 || severity === 'note') return []
    const [, meant] = /did you mean (".*?")/.exec(message) ?? []
    const hint = meant === undefined ? '' : `; ${meant} may be meant`
    return [warning(keyPathOf(steps), `does nothing: neither upstream's plugin nor trestle knows this key${hint}`)]
  })
}
