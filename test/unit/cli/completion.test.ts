// SPDX-License-Identifier: Apache-2.0
// Completion has each command and option of --help.

import { expect, it, vi } from 'vitest'
import { optionsOf } from '../../../src/commands/command.ts'
import { commands } from '../../../src/commands/command-line.ts'
import { runCli } from '../../support/collect.ts'

async function complete(line: string): Promise<readonly string[]> {
  vi.stubEnv('COMP_LINE', line)
  try {
    return (await runCli(['__complete'])).stdout.split('\n').slice(0, -1)
  } finally {
    vi.unstubAllEnvs()
  }
}

it('has every command, and the options of each', async () => {
  expect(await complete('trestle ')).toEqual([...commands.map(({ name }) => name), 'help'])
  for (const command of commands)
    expect(await complete(`trestle ${command.name} --`)).toEqual(
      Object.keys(optionsOf(command)).map((name) => `--${name}`),
    )
})

it.each([
  ['trestle uninst', ['uninstall']],
  ['trestle  lint   --bin', ['--bin-dir']],
  ['trestle lint -o ', ['text', 'json']],
  // Files, which the shell knows.
  ['trestle lint ', []],
  ['trestle completion ', ['bash', 'zsh', 'fish']],
  ['trestle completion z', ['zsh']],
  ['trestle nothing ', []],
])('%j has %j', async (line, found) => {
  expect(await complete(line)).toEqual(found)
})

it.each([['completion'], ['completion', 'tcsh']])('refuses %s %s', async (...words) => {
  expect(await runCli(words)).toMatchObject({ code: 2, stdout: '' })
})

it('has the same text in its document', async () => {
  const { stdout } = await runCli(['completion', 'bash'])
  expect((await runCli(['completion', 'bash', '-o', 'json'])).json).toMatchObject({ script: stdout })
})
