// SPDX-License-Identifier: Apache-2.0
// What a replay says about two runs of a call.

import { expect, it } from 'vitest'
import { differencesOf, type Run } from '../../../src/commands/replay/difference.ts'

const run = (more: Partial<Run> = {}): Run => ({ exit: 0, stdout: '{"ips":[{"address":"10.1.0.2/24"}]}', ...more })
const failed = (code: number, msg: string) => run({ exit: 1, stdout: JSON.stringify({ code, msg }) })
const exec = (argv: string, stdin = '', exit = 0) =>
  ({ type: 'exec', argv: argv.split(' '), stdin, exit, startMs: 0 }) as const
const running = (...executions: readonly ReturnType<typeof exec>[]) => run({ executions })

/** The parts that differ, as `title: lines`. */
function differing(a: Run, b: Run, isOfAnother = false): readonly string[] {
  return differencesOf(a, b, isOfAnother).flatMap(({ title, lines }) => {
    return lines.length === 0 ? [] : [`${title}: ${lines.join(', ')}`]
  })
}

it.each<[title: string, a: Run, b: Run, found: readonly string[], isOfAnother?: boolean]>([
  ['the same run', run(), run(), []],
  [
    'another address',
    run(),
    run({ stdout: '{"ips":[{"address":"10.1.0.3/24"}]}' }),
    ['answer: -    "address": "10.1.0.2/24", +    "address": "10.1.0.3/24"'],
  ],
  [
    'a failure: its status, its code and its id',
    failed(101, 'full [pool-exhausted]'),
    failed(11, 'held [lock-held]'),
    [
      'error code: - 101, + 11',
      'error id: - pool-exhausted, + lock-held',
      'answer: -  "code": 101,, -  "msg": "full [pool-exhausted]", +  "code": 11,, +  "msg": "held [lock-held]"',
    ],
  ],
  ['a run that was killed', run({ stdout: '' }), run({ exit: 137, stdout: '' }), ['exit status: - 0, + 137']],
  [
    'a time in an answer is that of the run',
    failed(1, 'at 2026-01-01T00:00:00.1Z'),
    failed(1, 'at 2026-01-02T00:00:00.2Z'),
    [],
  ],
  ['commands in another order', running(exec('ip a'), exec('nft b')), running(exec('nft b'), exec('ip a')), []],
  [
    'a command that is missing, and one that fails',
    running(exec('ip -batch -', 'link add a\n'), exec('nft -f -')),
    running(exec('nft -f -', '', 1)),
    ['commands: - ip -batch -, -   link add a, - nft -f -, + nft -f - (exit 1)'],
  ],
  [
    'descriptors of the process',
    running(exec('nsenter --net=/proc/7/fd/11 ip a')),
    running(exec('nsenter --net=/proc/8/fd/12 ip a')),
    [],
  ],
  ['commands that one of both does not have', running(exec('ip a')), run(), []],
  [
    'names that another plugin makes up',
    run({ stdout: 'veth1a2b 02:00:00:00:00:01' }),
    run({ stdout: 'veth3c4d 02:00:00:00:00:02' }),
    [],
    true,
  ],
])('%s', (_, a, b, found, isOfAnother) => {
  expect(differing(a, b, isOfAnother)).toEqual(found)
})
