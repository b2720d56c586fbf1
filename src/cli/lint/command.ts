// SPDX-License-Identifier: Apache-2.0
// `trestle lint`: what is wrong with a configuration, and what each runtime makes of a directory of them.

import { statSync } from 'node:fs'
import { type Command, exitCode, type Input, UsageError } from '../command.ts'
import { readInputText } from '../read-input.ts'
import { checks, isCheckId } from './checks.ts'
import { lintDirectory } from './directory.ts'
import { choicesText } from './directory-findings.ts'
import { lintText } from './file.ts'
import type { Finding } from './finding.ts'
import { nearestWord } from './nearest-word.ts'
import { extensionOf, type Prediction } from './predict.ts'
import { openPrograms, type Programs } from './programs.ts'
import { countsOf, countsText, findingText } from './report.ts'

export const lintCommand: Command = {
  name: 'lint',
  words: '[FILE or DIR]',
  maxWords: 1,
  summary: 'find what is wrong with a configuration, and which file each runtime uses',
  description: [
    'FILE (- is standard input): JSON errors with line, column and caret; misspelt keys, also of the reference',
    'plugins; values as ADD checks them; what is accepted and does nothing; plugins that are missing or cannot be',
    'started. Plugins are started for VERSION, which changes nothing.',
    'DIR (default /etc/cni/net.d): every file of it, and which one containerd, CRI-O and cnitool use, why not the',
    'others, and what stops them.',
    'Each finding has an id, like json-syntax: `trestle explain json-syntax`. Exit code 1: one of them is an error.',
  ].join('\n'),
  options: {
    'bin-dir': {
      type: 'string',
      value: 'DIR',
      help: 'where the plugins are; several with : between (default /opt/cni/bin)',
    },
    skip: { type: 'string', value: 'IDS', help: 'leave out findings with these ids, commas between' },
    list: { type: 'boolean', help: 'list the ids of all findings, and look at nothing' },
    strict: { type: 'boolean', help: 'warnings make exit code 1, too' },
  },
  examples: ['trestle lint', 'trestle lint 10-pods.conflist', 'trestle lint --bin-dir /usr/lib/cni - <net.conf'],
  run,
}

/** What was looked at and found. */
interface Linted {
  readonly files: readonly string[]
  readonly findings: readonly Finding[]
  readonly prediction?: Prediction
}

function run(input: Input): number {
  if (input.values['list'] === true) return listChecks(input)
  const skipped = skippedIds(input)
  const programs = openPrograms(String(input.values['bin-dir'] ?? '/opt/cni/bin').split(':'))
  const name = input.words[0] ?? '/etc/cni/net.d'
  const linted = isDirectory(name) ? lintDirectory(name, programs) : lintFile(name, programs)
  return report(input, { ...linted, findings: linted.findings.filter(({ id }) => !skipped.includes(id)) })
}

/** The ids of --skip. Throws UsageError for one that no finding has: it would be skipped for ever. */
function skippedIds({ values }: Input): readonly string[] {
  const ids = String(values['skip'] ?? '')
    .split(',')
    .filter((id) => id !== '')
  const wrong = ids.find((id) => !isCheckId(id))
  if (wrong === undefined) return ids
  const meant = nearestWord(wrong, Object.keys(checks))
  throw new UsageError(`--skip ${wrong}: ${meant === undefined ? 'see --list' : `did you mean "${meant}"?`}`)
}

function listChecks({ isJson, output }: Input): number {
  const all = Object.entries(checks).map(([id, check]) => ({ id, ...check }))
  const document = { formatVersion: 1, command: 'lint', checks: all, exitCode: exitCode.fine }
  const lines = all.map(({ id, severity, meaning }) => `${severity.padEnd(7)}  ${id.padEnd(26)}  ${meaning}\n`)
  output.out(isJson ? `${JSON.stringify(document, undefined, 2)}\n` : lines.join(''))
  return exitCode.fine
}

/** A name that nothing has is a directory, unless it ends as a configuration does. */
function isDirectory(name: string): boolean {
  if (name === '-') return false
  const stat = statSync(name, { throwIfNoEntry: false })
  return stat?.isDirectory() ?? !['.conf', '.conflist', '.json'].includes(extensionOf(name))
}

function lintFile(name: string, programs: Programs): Linted {
  return { files: [name], findings: lintText(name, readInputText(name), programs).findings }
}

function report({ output, isJson, values }: Input, { files, findings, prediction }: Linted): number {
  const counts = countsOf(findings)
  const isBad = counts.errors > 0 || (values['strict'] === true && counts.warnings > 0)
  const code = isBad ? exitCode.findings : exitCode.fine
  if (isJson) {
    const runtimes = prediction === undefined ? {} : { runtimes: prediction }
    const document = { formatVersion: 1, command: 'lint', files, findings, ...runtimes, counts, exitCode: code }
    output.out(`${JSON.stringify(document, undefined, 2)}\n`)
    return code
  }
  const choices = prediction === undefined ? [] : [choicesText(prediction)]
  const texts = [...findings.map((finding) => findingText(finding, output.hasColour)), ...choices]
  output.out([...texts, countsText(counts, files.length)].join('\n'))
  return code
}
