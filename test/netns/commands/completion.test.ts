// SPDX-License-Identifier: Apache-2.0
// The completion scripts in the shells themselves.

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { execaSync } from 'execa'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { trestle } from '../../support/host.ts'

const has = (program: string) => execaSync('which', [program], { reject: false }).exitCode === 0
const shells = ['bash', 'zsh', 'fish'] as const
const absent = shells.filter((program) => !has(program))
if (absent.length > 0) console.warn(`skipped: no ${absent.join(', ')}; scripts/prepare installs them`)

const lines: readonly (readonly [string, string])[] = [
  ['trestle uninst', 'uninstall'],
  ['trestle add --por', '--port'],
  ['trestle add po', 'pods'],
  ['trestle del pods we', 'webbed'],
  ['trestle completion fi', 'fish'],
  ['trestle lint -o js', 'json'],
]

describe('completion', () => {
  let directory: string
  beforeAll(() => {
    directory = mkdtempSync(`${tmpdir()}/trestle-completion-`)
    const script = `[ "$1" = __complete ] && exec ${trestle} "$@"\necho trestle "$@" >>${directory}/ran\n`
    writeFileSync(`${directory}/trestle`, `#!/bin/sh\n${script}`, { mode: 0o755 })
    for (const shell of shells) {
      const [file, before] = shell === 'zsh' ? ['.zshrc', 'autoload -U compinit; compinit -u -D\n'] : [shell, '']
      writeFileSync(`${directory}/${file}`, `${before}${execaSync(trestle, ['completion', shell]).stdout}`)
    }
    const list = { cniVersion: '1.1.0', name: 'pods', plugins: [{ type: 'trestle', podcidr: '10.9.0.0/24' }] }
    writeFileSync(`${directory}/10-pods.conflist`, JSON.stringify(list))
    execaSync('ip', ['netns', 'add', 'webbed'])
  })
  afterAll(() => {
    execaSync('ip', ['netns', 'del', 'webbed'], { reject: false })
    rmSync(directory, { recursive: true })
  })

  const ran = (program: string, input: string, ...args: readonly string[]) => {
    rmSync(`${directory}/ran`, { force: true })
    const env = { PATH: `${directory}:${process.env['PATH']}`, NETCONFPATH: directory, HOME: directory, TERM: 'xterm' }
    return execaSync(program, args, { env, input, timeout: 60_000 }).stdout
  }

  /** On a terminal, as a person presses the key: what each line runs. */
  it.skipIf(absent.includes('zsh')).each([
    ['bash', '--noprofile --rcfile DIR/bash'],
    ['zsh', '-d'],
  ])('of %s', (shell, options) => {
    const keys = `${lines.map(([line]) => `${line}\t\n`).join('')}exit\n`
    ran('script', keys, '-qec', `${shell} ${options.replace('DIR', directory)} -i`, '/dev/null')
    const wanted = lines.map(([line, word]) => `${line.replace(/\S+$/, word)}\n`)
    expect(readFileSync(`${directory}/ran`, 'utf8')).toBe(wanted.join(''))
  })

  it.skipIf(absent.includes('fish')).each(lines)('of fish: %s', (line, wanted) => {
    const stdout = ran('fish', '', '-c', `source ${directory}/fish; complete -C '${line}'`)
    expect(stdout.split('\t')[0]).toBe(wanted)
  })
})
