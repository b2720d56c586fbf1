// SPDX-License-Identifier: Apache-2.0
// The completion scripts in the shells themselves.

import { existsSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { execaSync } from 'execa'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { trestle } from '../../support/host.ts'

const has = (program: string) => execaSync('which', [program], { reject: false }).exitCode === 0
const programs = ['bash', 'zsh', 'fish'] as const
const absent = programs.filter((program) => !has(program))
if (absent.length > 0) console.warn(`skipped: no ${absent.join(', ')}; scripts/prepare installs them`)

const lines: readonly (readonly [string, string])[] = [
  ['trestle uninst', 'uninstall'],
  ['trestle add --por', '--port'],
  ['trestle add po', 'pods'],
  ['trestle del pods we', 'webbed'],
  ['trestle completion fi', 'fish'],
  ['trestle help uninst', 'uninstall'],
  ['trestle lint -o js', 'json'],
]

const hostile = 'we$(id>run-by-bash)'

describe('completion', () => {
  let directory: string
  beforeAll(() => {
    directory = mkdtempSync(`${tmpdir()}/trestle-completion-`)
    symlinkSync(trestle, `${directory}/trestle`)
    for (const [shell, file] of [
      ['bash', 'bash'],
      ['zsh', '_trestle'],
      ['fish', 'fish'],
    ] as const) {
      writeFileSync(`${directory}/${file}`, execaSync(trestle, ['completion', shell]).stdout)
    }
    const list = { cniVersion: '1.1.0', name: 'pods', plugins: [{ type: 'trestle', podcidr: '10.9.0.0/24' }] }
    writeFileSync(`${directory}/10-pods.conflist`, JSON.stringify(list))
    execaSync('ip', ['netns', 'add', 'webbed'])
    execaSync('ip', ['netns', 'add', hostile])
  })
  afterAll(() => {
    for (const name of ['webbed', hostile]) execaSync('ip', ['netns', 'del', name], { reject: false })
    rmSync(directory, { recursive: true })
  })

  const env = () => ({
    PATH: `${directory}:${process.env['PATH']}`,
    NETCONFPATH: directory,
    HOME: directory,
    TERM: 'xterm',
  })

  it.each(lines)('of bash: %s', (line, wanted) => {
    const words = line
      .split(' ')
      .map((word) => `'${word}'`)
      .join(' ')
    const body = `source ${directory}/bash; COMP_WORDS=(${words}); COMP_CWORD=$((\${#COMP_WORDS[@]} - 1)); _trestle; echo "\${COMPREPLY[@]}"`
    expect(execaSync('bash', ['-c', body], { env: env() }).stdout).toBe(wanted)
  })

  it('of bash runs no command that is in the name of a namespace', () => {
    const body = `source ${directory}/bash; COMP_WORDS=(trestle del pods we); COMP_CWORD=3; _trestle`
    execaSync('bash', ['-c', body], { env: env(), cwd: directory })
    expect(existsSync(`${directory}/run-by-bash`)).toBe(false)
  })

  it.skipIf(absent.includes('zsh'))('of zsh is read without an error, and defines the function of its name', () => {
    const body = `autoload -U compinit; compinit -u -D; source ${directory}/_trestle; print $_comps[trestle]`
    const { stdout, stderr } = execaSync('zsh', ['-f', '-c', body], { env: env() })
    expect([stdout, stderr]).toEqual(['_trestle', ''])
  })

  it.skipIf(absent.includes('fish')).each(lines)('of fish: %s', (line, wanted) => {
    const { stdout } = execaSync('fish', ['-c', `source ${directory}/fish; complete -C '${line}'`], { env: env() })
    expect(stdout.split('\t')[0]).toBe(wanted)
  })
})
