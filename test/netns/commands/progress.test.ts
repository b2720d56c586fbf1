// SPDX-License-Identifier: Apache-2.0
// The progress line of long work: on a terminal's stderr, gone before the result; nothing of it in a pipe or as JSON.

import { readFileSync } from 'node:fs'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { type Host, openHost, trestle } from '../../support/host.ts'
import { stateWord } from '../../support/state-layout.ts'
import { attach, netConf } from '../../support/traffic/pods.ts'

let host: Host
beforeEach(() => {
  host = openHost()
  attach(host, netConf())
})
afterEach(() => host.close())

const command = 'gc --no-runtime'
const shell = (script: string, ...more: readonly string[]) =>
  host.run('env', [stateWord(host), ...more, 'sh', '-c', script, 'sh', trestle])

/** What a terminal gets, with stdout in a file; and that file. */
function onTerminal(words: string, ...env: readonly string[]) {
  const file = `${host.stateDir}/stdout`
  const { stdout } = shell(`script -qec '${trestle} ${words} >${file}' /dev/null </dev/null`, ...env)
  return { terminal: stdout, stdout: readFileSync(file, 'utf8') }
}

it('says on a terminal what it looks at, and takes that away', () => {
  const { terminal, stdout } = onTerminal(command, 'TERM=xterm')
  expect(terminal).toContain('\r\x1b[Klooking at attachments')
  expect(terminal).toMatch(/\r\x1b\[K$/)
  expect(terminal).not.toContain('\n')
  expect(stdout).toBe(shell(`"$1" ${command}`).stdout)
  for (const each of terminal.split('\r\x1b[K')) expect(each.length).toBeLessThan(80)
})

it('says nothing of it in a pipe, on a dumb terminal, or with -o json', () => {
  expect(shell(`"$1" ${command}`).stderr).toBe('')
  expect(onTerminal(command, 'TERM=dumb').terminal).toBe('')
  const json = onTerminal(`${command} -o json`, 'TERM=xterm')
  expect(json.terminal).toBe('')
  expect(JSON.parse(json.stdout)).toMatchObject({ formatVersion: 1 })
})
