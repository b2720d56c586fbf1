// SPDX-License-Identifier: Apache-2.0
// `trestle lint`: what is wrong with a configuration, and what each runtime makes of a directory of them.

import { type Command, exitCode, type Input } from '../command.ts'
import { readInputText } from '../read-input.ts'
import { lintText } from './file.ts'
import type { Finding } from './finding.ts'
import { openPrograms, type Programs } from './programs.ts'
import { countsOf, countsText, findingText } from './report.ts'

export const lintCommand: Command = {
  name: 'lint',
  words: '[FILE or DIR]',
  maxWords: 1,
  summary: 'find what is wrong with a configuration',
  description: [
    'FILE (- is standard input): JSON errors with line, column and caret; misspelt keys, also of the reference',
    'plugins; values as ADD checks them; what is accepted and does nothing; plugins that are missing or cannot be',
    'started. Plugins are started for VERSION, which changes nothing.',
    'Each finding has an id, like json-syntax: `trestle explain json-syntax`. Exit code 1: one of them is an error.',
  ].join('\n'),
  options: {
    'bin-dir': {
      type: 'string',
      value: 'DIR',
      help: 'where the plugins are; several with : between (default /opt/cni/bin)',
    },
    strict: { type: 'boolean', help: 'warnings make exit code 1, too' },
  },
  examples: ['trestle lint 10-pods.conflist', 'trestle lint --bin-dir /usr/lib/cni - <net.conf'],
  run,
}

function run(input: Input): number {
  const programs = programsOf(input)
  const name = input.words[0] ?? '-'
  const { findings } = lintText(name, readInputText(name), programs)
  return report(input, findings, { files: [name] })
}

function programsOf({ values }: Input): Programs {
  return openPrograms(String(values['bin-dir'] ?? '/opt/cni/bin').split(':'))
}

function report(input: Input, findings: readonly Finding[], about: { readonly files: readonly string[] }): number {
  const { output, isJson, values } = input
  const counts = countsOf(findings)
  const isBad = counts.errors > 0 || (values['strict'] === true && counts.warnings > 0)
  const code = isBad ? exitCode.findings : exitCode.fine
  if (isJson) {
    const document = { formatVersion: 1, command: 'lint', findings, ...about, counts, exitCode: code }
    output.out(`${JSON.stringify(document, undefined, 2)}\n`)
    return code
  }
  const texts = findings.map((finding) => findingText(finding, output.hasColour))
  output.out([...texts, countsText(counts, about.files.length)].join(texts.length > 0 ? '\n' : ''))
  return code
}
