// SPDX-License-Identifier: Apache-2.0
// Completion has each command and option of --help.

import { describe, expect, it } from 'vitest'
import { optionsOf } from '../../../src/commands/command.ts'
import { commands } from '../../../src/commands/command-line.ts'
import { runCli } from '../../support/collect.ts'

const complete = async (...words: readonly string[]) => {
  const { stdout } = await runCli(['__complete', ...words])
  return stdout.split('\n').map((line) => line.split('\t')[0])
}

describe.each(commands.map((command) => [command.name, command] as const))('%s', (name, command) => {
  const options = Object.entries(optionsOf(command))

  it('is completed, and has its options in the completion', async () => {
    expect(await complete('')).toContain(name)
    const found = await complete(name, '-')
    const names = options.flatMap(([option, { short }]) => [
      `--${option}`,
      ...(short === undefined ? [] : [`-${short}`]),
    ])
    expect(found).toEqual([...names, ''])
  })
})

it('has help in the completion, which its own list omits', async () => {
  expect(await complete('')).toContain('help')
})

it.each([
  [
    ['lint', '-o', ''],
    ['text', 'json', ''],
  ],
  [
    ['lint', ''],
    [':files', ''],
  ],
  [
    ['doctor', '--log', ''],
    [':files', ''],
  ],
  [['doctor', '--wait', ''], ['']],
  [
    ['completion', ''],
    ['bash', 'zsh', 'fish', ''],
  ],
  [['nothing', ''], ['']],
])('%j has %j', async (words, found) => {
  expect(await complete(...words)).toEqual(found)
})

it.each([['completion'], ['completion', 'tcsh']])('refuses %s %s', async (...words) => {
  expect(await runCli(words)).toMatchObject({ code: 2, stdout: '' })
})

it('has the same text in its document', async () => {
  const { stdout } = await runCli(['completion', 'bash'])
  expect((await runCli(['completion', 'bash', '-o', 'json'])).json).toMatchObject({ script: stdout })
})
