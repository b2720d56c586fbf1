// SPDX-License-Identifier: Apache-2.0
// Completion scripts and manual pages have each command and option of --help.

import { describe, expect, it } from 'vitest'
import { commands } from '../../../src/cli/main.ts'
import { optionsOf } from '../../../src/cli/shell/command.ts'
import { runCli } from '../../support/collect.ts'

const script = async (shell: string) => (await runCli(['completion', shell])).stdout
const page = async (...words: readonly string[]) => (await runCli(['man', ...words])).stdout.replaceAll('\\-', '-')

/** The part of a script for bash or zsh that is about a command. */
const caseOf = (text: string, name: string) => text.split(`\n    ${name})\n`)[1]?.split(';;')[0] ?? ''

describe.each(commands.map((command) => [command.name, command] as const))('%s', (name, command) => {
  const options = Object.entries(optionsOf(command))

  it('has its options in the completion of every shell', async () => {
    const [bash, zsh, fish] = [await script('bash'), await script('zsh'), await script('fish')]
    expect(fish).toContain(`-a ${name} -d `)
    for (const [option, { short }] of options) {
      expect(caseOf(bash, name)).toMatch(new RegExp(`options='[^']*--${option}[ ']`))
      expect(caseOf(zsh, name)).toContain(`'--${option}[`)
      expect(fish).toMatch(new RegExp(`from ${name}' -l ${option}${short === undefined ? '' : ` -s ${short}`} `))
    }
  })

  it('has its options, words and help in both manual pages', async () => {
    for (const text of [await page(), await page(name)]) {
      expect(text).toContain(command.summary)
      for (const [option, { help, short }] of options) {
        const named = `${short === undefined ? '' : `-${short}, `}--${option}`
        expect(text).toMatch(new RegExp(`^\\.B ${named}( .*)?$`, 'm'))
        expect(text).toContain(help)
      }
    }
  })
})

it('has help in the completion, which its own list omits', async () => {
  for (const shell of ['bash', 'zsh', 'fish']) expect(await script(shell)).toMatch(/\bhelp\b/)
})

it.each([['completion'], ['completion', 'tcsh'], ['man', 'nothing']])('refuses %s %s', async (...words) => {
  expect(await runCli(words)).toMatchObject({ code: 2, stdout: '' })
})

it.each([
  ['completion', 'bash'],
  ['man', 'add'],
])('%s %s has the same text in its document', async (...words) => {
  const { stdout } = await runCli(words)
  const { script, page } = (await runCli([...words, '-o', 'json'])).json as { script?: string; page?: string }
  expect(script ?? page).toBe(stdout)
})
