// SPDX-License-Identifier: Apache-2.0
// What a wrapped plugin gets, and answers that a configuration gives.

import { expect, it } from 'vitest'
import { givenAnswer, inputOf } from '../../../../src/recording/stand-in.ts'

it.each([
  ['its own type and no record', '{"type":"trestle","Record":{"wrap":"x"},"mtu":1500}', '{"type":"bridge","mtu":1500}'],
  [
    'numbers digit by digit',
    '{"type":"trestle","n":[1.0,1e3,12345678901234567890]}',
    '{"type":"bridge","n":[1.0,1e3,12345678901234567890]}',
  ],
])('a wrapped plugin gets %s', (_, stdin, text) => {
  expect(inputOf({ plugin: 'bridge', stdin })).toBe(text)
})

it.each<[string, object, string, string, string, number]>([
  ['a text as it is', { ADD: 'garbage' }, 'ADD', '{}', 'garbage', 0],
  [
    'an object with the cniVersion',
    { ADD: { ips: [] } },
    'ADD',
    '{"cniVersion":"1.0.0"}',
    '{"cniVersion":"1.0.0","ips":[]}\n',
    0,
  ],
  [
    'prevResult where ADD has no answer',
    {},
    'ADD',
    '{"cniVersion":"1.0.0","prevResult":{"ips":[]}}',
    '{"cniVersion":"1.0.0","ips":[]}\n',
    0,
  ],
  ['nothing on success of others', { DEL: { x: 1 } }, 'DEL', '{}', '', 0],
  [
    'an error where there is a code',
    { STATUS: { code: 50, msg: 'x' } },
    'STATUS',
    '{"cniVersion":"1.1.0"}',
    '{"cniVersion":"1.1.0","code":50,"msg":"x"}\n',
    1,
  ],
])('record.answer is %s', (_, answer, verb, stdin, stdout, exitCode) => {
  expect(givenAnswer(answer as never, verb, stdin)).toEqual({ stdout, exitCode })
})
