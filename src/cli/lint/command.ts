// SPDX-License-Identifier: Apache-2.0
// `trestle lint`: what is wrong with a configuration, and what each runtime makes of a directory of them.

import { statSync } from 'node:fs'
import { type Command, exitCode, type Input, UsageError } from '../shell/command.ts'
import { readInputText } from '../shell/read-input.ts'
import { checks, isCheckId } from './checks/checks.ts'
import { type Finding, findingIn } from './checks/finding.ts'
import { countsOf, countsText, findingText } from './checks/report.ts'
import { lintDirectory } from './directory/directory.ts'
import { choicesText } from './directory/directory-findings.ts'
import { nodeFindings } from './directory/firewalls.ts'
import { extensionOf, type Prediction } from './directory/predict.ts'
import { nearestWord } from './json/nearest-word.ts'
import { type Chain, chainsOf, chainText } from './rules/chains.ts'
import { type FileLint, lintText } from './rules/file.ts'
import { openNode } from './rules/node.ts'
import { openPrograms, type Programs } from './rules/programs.ts'

export const lintCommand: Command = {
  name: 'lint',
  words: '[FILE or DIR]',
  maxWords: 1,
  summary: 'find what is wrong with a configuration, and which file each runtime uses',
  description: [
    'FILE (- is standard input): JSON errors with line, column and caret; misspelt keys, also of the reference',
    'plugins; values as ADD checks them; what is accepted and does nothing; plugins that are missing or cannot be',
    'started. Plugins are started for VERSION, which changes nothing. Root learns of ranges that are in use on the node, and',
    "of what other firewalls drop before trestle's accept.",
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
  readonly chains?: readonly Chain[]
  readonly couldNotLook?: true
  readonly lints?: readonly FileLint[]
}

async function run(input: Input): Promise<number> {
  if (input.values['list'] === true) return listChecks(input)
  const skipped = skippedIds(input)
  const installed = openPrograms(String(input.values['bin-dir'] ?? '/opt/cni/bin').split(':'))
  const programs = { ...installed, ...(installed.hasDirectory ? { host: openNode() } : {}) }
  const name = input.words[0] ?? '/etc/cni/net.d'
  const linted = isDirectory(name) ? lintDirectory(name, programs) : lintFile(name, programs)
  const ofNode = await nodeFindings(linted.lints ?? [], programs.isOwn)
  const found = [...linted.findings, ...ofNode].filter(({ id }) => !skipped.includes(id))
  const findings = isDirectory(name) && input.values['strict'] !== true ? oldVersionsOnce(name, found) : found
  return report(input, { ...linted, findings })
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
  const lint = lintText(name, readInputText(name), programs)
  return { files: [name], findings: lint.findings, chains: chainsOf([lint]), lints: [lint] }
}

/** The note about an old cniVersion once for a directory: nearly every file has one, and nothing is wrong. */
function oldVersionsOnce(directory: string, findings: readonly Finding[]): readonly Finding[] {
  const notes = findings.filter(({ id }) => id === 'cni-version-old')
  const [first] = notes
  if (first === undefined || notes.length === 1) return findings
  const message = `${first.message}, and ${notes.length - 1} more like it: --strict shows each`
  const once = findingIn(directory, { id: 'cni-version-old', message: `${first.file}: ${message}` })
  return [...findings.filter(({ id }) => id !== 'cni-version-old'), once]
}

function report({ output, isJson, values }: Input, linted: Linted): number {
  const { files, findings, prediction, chains = [], couldNotLook } = linted
  const counts = countsOf(findings)
  const isBad = counts.errors > 0 || (values['strict'] === true && counts.warnings > 0)
  const code = couldNotLook === true ? exitCode.couldNotLook : isBad ? exitCode.findings : exitCode.fine
  if (isJson) {
    const runtimes = prediction === undefined ? {} : { runtimes: prediction }
    const document = { formatVersion: 1, command: 'lint', files, findings, chains, ...runtimes, counts, exitCode: code }
    output.out(`${JSON.stringify(document, undefined, 2)}\n`)
    return code
  }
  const choices = prediction === undefined ? [] : [choicesText(prediction)]
  const texts = [...findings.map((finding) => findingText(finding, output.hasColour)), ...choices]
  const orders = chains.length === 0 ? [] : [chains.map(chainText).join('')]
  output.out([...texts, ...orders, countsText(counts, files.length)].join('\n'))
  return code
}
