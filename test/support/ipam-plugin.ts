// SPDX-License-Identifier: Apache-2.0
// A scripted IPAM plugin: a shell script in a directory of its own that notes how it was called and
// then does what the test says.

import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import type { Verb } from './host.ts'

/** What each verb does, as a line of shell; a verb without one succeeds and prints nothing. */
export type Script = Readonly<Partial<Record<Verb, string>>>

/** An address as an IPAM plugin answers it. */
export const leased =
  '{"cniVersion":"1.1.0","ips":[{"address":"10.66.0.7/24","gateway":"10.66.0.1"}],"routes":[{"dst":"10.9.0.0/16"}],"dns":{"nameservers":["10.66.0.53"]}}'

/** Prints a result of ADD. */
export const answer = (json = leased) => `echo '${json}'`

/** Prints a CNI error and fails. */
export const refuse = (code: number, msg: string) =>
  `echo '${JSON.stringify({ cniVersion: '1.1.0', code, msg })}'; exit 1`

/** Installs the plugin `scripted`. Remove it in `afterEach`. */
export function installIpam(script: Script) {
  const path = mkdtempSync(`${tmpdir()}/trestle-ipam-`)
  const verbs = Object.entries(script).map(([verb, line]) => `${verb}) ${line} ;;`)
  const text = [
    '#!/bin/sh',
    `cd ${path}`,
    'cat > "stdin.$CNI_COMMAND"',
    'env > "env.$CNI_COMMAND"',
    'echo "$CNI_COMMAND" >> calls',
    `case "$CNI_COMMAND" in ${verbs.join(' ')} esac`,
  ].join('\n')
  writeFileSync(`${path}/scripted`, `${text}\n`)
  chmodSync(`${path}/scripted`, 0o755)
  const read = (name: string) => (existsSync(`${path}/${name}`) ? readFileSync(`${path}/${name}`, 'utf8') : '')
  return {
    path,
    /** The verbs it was called with, in order. */
    calls: (): readonly string[] => read('calls').split('\n').filter(Boolean),
    /** The stdin of the last call of a verb. */
    stdin: (verb: Verb): string => read(`stdin.${verb}`),
    /** The environment of the last call of a verb. */
    env: (verb: Verb): Readonly<Record<string, string>> =>
      Object.fromEntries(
        read(`env.${verb}`)
          .split('\n')
          .filter((line) => line.includes('='))
          .map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]),
      ),
    remove: (): void => rmSync(path, { recursive: true, force: true }),
  }
}

export type InstalledIpam = ReturnType<typeof installIpam>
