// SPDX-License-Identifier: Apache-2.0
// The commands for people as a person meets them: without root, on a terminal, with an output that is closed or full.

import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { execaSync } from 'execa'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { trestle } from '../../support/host.ts'

/** In a terminal's environment, whatever the one that the tests run in says of colour. */
const shell = (script: string, env: Readonly<Record<string, string>> = {}) =>
  execaSync('sh', ['-c', script, 'sh', trestle], {
    env: { TERM: 'xterm', NO_COLOR: '', ...env },
    reject: false,
    timeout: 60_000,
  })

describe('without root', () => {
  // The repository may be where nobody else can read.
  let directory: string
  beforeAll(() => {
    directory = mkdtempSync(`${tmpdir()}/trestle-people-`)
    execaSync('chmod', ['755', directory])
    copyFileSync(trestle, `${directory}/trestle`)
  })
  afterAll(() => rmSync(directory, { recursive: true }))

  const asNobody = (...words: readonly string[]) =>
    execaSync('setpriv', ['--reuid=65534', '--regid=65534', '--clear-groups', `${directory}/trestle`, ...words], {
      reject: false,
    })

  it.each([['try'], ['restore'], ['restore', '--dry-run'], ['gc'], ['uninstall']])(
    '%s %s says that it needs root',
    (...words) => {
      const { exitCode, stdout, stderr } = asNobody(...words)
      expect([exitCode, stdout]).toEqual([3, ''])
      expect(stderr).toMatch(/^trestle: \w+: needs root \[needs-root\]\n {2}.*: run it with sudo$/)
      expect(JSON.parse(asNobody(...words, '-o', 'json').stdout)).toMatchObject({ error: { code: 50 }, exitCode: 3 })
    },
  )

  it.each([['version'], ['explain'], ['help']])('%s %s works', (...words) => {
    expect(asNobody(...words).exitCode).toBe(0)
  })

  it('lint of what may not be read exits 3, and says nothing of what a runtime, which is root, makes of it', () => {
    const list = JSON.stringify({
      cniVersion: '1.1.0',
      name: 'a',
      plugins: [{ type: 'trestle', podcidr: '10.9.0.0/24' }],
    })
    mkdirSync(`${directory}/net.d`)
    writeFileSync(`${directory}/net.d/10-a.conflist`, list, { mode: 0o600 })
    mkdirSync(`${directory}/closed`, { mode: 0o700 })
    writeFileSync(`${directory}/closed/10-a.conflist`, list)
    for (const name of ['net.d', 'net.d/10-a.conflist', 'closed', 'closed/10-a.conflist']) {
      const { exitCode, stdout, stderr } = asNobody('lint', `${directory}/${name}`)
      expect(exitCode, `${name}: ${stdout}`).toBe(3)
      expect(stdout + stderr).toMatch(/permission denied[\s\S]*run it as root/)
      expect(stdout + stderr).not.toMatch(/containerd uses|nothing is loaded|writable|scandir/)
    }
  })
})

it('gc names the socket that does not answer', () => {
  const { exitCode, stderr } = shell('"$1" gc --runtime-endpoint unix:///nonexistent.sock')
  expect(exitCode).toBe(3)
  expect(stderr).toContain('the runtime at unix:///nonexistent.sock does not answer: there is no such socket')
  expect(stderr).toContain('--no-runtime')
})

describe('output', () => {
  it('that nobody reads or that is closed changes no exit code', () => {
    expect(shell('"$1" explain --codes | true; "$1" explain --codes >&-; echo $?').stdout).toBe('0')
  })

  it('to a full disk is exit code 3, with the reason', () => {
    const { exitCode, stderr } = shell('"$1" version >/dev/full')
    const said = 'trestle: cannot write to standard output: ENOSPC [output-unwritable]\n  write elsewhere, or make room'
    expect([exitCode, stderr]).toEqual([3, said])
    expect(shell('"$1" nonsense 2>/dev/full').exitCode).toBe(2)
  })

  it('passes on no escape sequence of a name', () => {
    const { stderr } = shell('"$1" "$(printf "no\\033[31mse")"')
    expect(stderr).toContain('there is no command "no\\x1b[31mse"')
  })

  it('has colour on a terminal, and none with NO_COLOR or into a pipe', () => {
    const onTerminal = 'script -qec "$1 lint - </dev/null" /dev/null'
    expect(shell(onTerminal).stdout).toContain('\x1b[31merror\x1b[39m')
    expect(shell(onTerminal, { NO_COLOR: '1' }).stdout).not.toContain('\x1b')
    expect(shell('"$1" lint - </dev/null').stdout).not.toContain('\x1b')
  })
})
