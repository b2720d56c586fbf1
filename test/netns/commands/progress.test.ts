// SPDX-License-Identifier: Apache-2.0
// The progress line of long work: on a terminal's stderr, gone before the result; nothing of it in a pipe or as JSON.

import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type Host, openHost, trestle } from '../../support/host.ts'
import { stateWord } from '../../support/state-layout.ts'
import { attach, netConf } from '../../support/traffic/pods.ts'

const cache = '/var/lib/cni/results'
const list = {
  cniVersion: '1.0.0',
  name: 'old',
  plugins: [{ type: 'bridge', ipam: { type: 'host-local', subnet: '10.80.0.0/24' } }],
}

let host: Host
beforeEach(() => {
  host = openHost()
  attach(host, netConf())
  mkdirSync(cache, { recursive: true })
  for (const id of ['one', 'two']) {
    const result = { cniVersion: '1.0.0', ips: [{ address: '10.80.0.9/24' }] }
    const entry = { kind: 'cniCacheV1', networkName: 'old', containerId: id, ifName: 'eth0', result }
    writeFileSync(`${cache}/old-${id}-eth0`, JSON.stringify(entry))
  }
  writeFileSync(`${host.stateDir}/old.conflist`, JSON.stringify(list))
})
afterEach(() => {
  for (const id of ['one', 'two']) rmSync(`${cache}/old-${id}-eth0`)
  host.close()
})

const commands = [
  ['gc --no-runtime', ['looking at attachments', 'looking at reservations of 1 attachments']],
  ['adopt FILE', ['old: looking at pod 1 of 2, one', 'old: looking at pod 2 of 2, two']],
] as const

const line = (command: string) => `"$1" ${command.replace('FILE', `${host.stateDir}/old.conflist`)}`
const shell = (script: string, ...more: readonly string[]) =>
  host.run('env', [stateWord(host), ...more, 'sh', '-c', script, 'sh', trestle])

/** What a terminal gets, with stdout in a file; and that file. */
function onTerminal(command: string, ...env: readonly string[]) {
  const file = `${host.stateDir}/stdout`
  const script = line(command).replace('"$1"', trestle)
  const { stdout } = shell(`script -qec '${script} >${file}' /dev/null </dev/null`, ...env)
  return { terminal: stdout, stdout: readFileSync(file, 'utf8') }
}

describe.each(commands)('trestle %s', (command, told) => {
  it('says on a terminal what it looks at, and takes that away', () => {
    const { terminal, stdout } = onTerminal(command, 'TERM=xterm')
    for (const text of told) expect(terminal).toContain(`\r\x1b[K${text}`)
    expect(terminal).toMatch(/\r\x1b\[K$/)
    expect(terminal).not.toContain('\n')
    expect(stdout).toBe(shell(line(command)).stdout)
    for (const each of terminal.split('\r\x1b[K')) expect(each.length).toBeLessThan(80)
  })

  it('says nothing of it in a pipe, on a dumb terminal, or with -o json', () => {
    expect(shell(line(command)).stderr).toBe('')
    expect(onTerminal(command, 'TERM=dumb').terminal).toBe('')
    const json = onTerminal(`${command} -o json`, 'TERM=xterm')
    expect(json.terminal).toBe('')
    expect(JSON.parse(json.stdout)).toMatchObject({ formatVersion: 1 })
  })
})
