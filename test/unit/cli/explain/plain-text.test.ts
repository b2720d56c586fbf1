// SPDX-License-Identifier: Apache-2.0
// What events, journals, JSON and Markdown do to an error text, undone.

import { expect, it } from 'vitest'
import { plainText } from '../../../../src/commands/explain/recognise.ts'

it.each([
  ['typographic quotes', '\u201ca\u201d \u2018b\u2019', `"a" 'b'`],
  ['Markdown', '**failed** to \\[find\\] `x` \\_y', 'failed to [find] "x" _y'],
  ['hexadecimal quotes', 'plugin \\x22x\\x22', 'plugin "x"'],
  ['quotes of quotes', 'plugin \\\\\\"x\\\\\\"', 'plugin "x"'],
  ['marks of a quoted mail', '> a\n> > b', 'a\nb'],
])('%s', (_, pasted, printed) => {
  expect(plainText(pasted)).toBe(printed)
})
