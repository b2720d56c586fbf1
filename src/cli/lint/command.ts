// SPDX-License-Identifier: Apache-2.0
// `trestle lint`: finds faults of a configuration, and predicts the file that each runtime uses.

import { diagnoses } from '../../catalogue/diagnosis.ts'
import { oneLine } from '../../cni/model/error.ts'
import { type Command, exitCode, type Input } from '../shell/command.ts'
import { counted, countOf, type Finding, findingText, listDiagnoses, wordsOf } from '../shell/findings.ts'
import { print } from '../shell/output.ts'
import { choicesText } from './directory-findings.ts'
import { findingIn } from './finding.ts'
import { chainText, type Linted, look } from './linted.ts'
import { nodeFindings } from './node.ts'
import { lookAtNode, noNode, runtimeLine } from './runtimes.ts'

export const lintCommand: Command = {
  name: 'lint',
  words: '[FILE or DIR]',
  maxWords: 1,
  summary: 'find the faults of a configuration, and the file that each runtime uses',
  description: [
    'FILE (- is standard input): JSON errors with line, column and caret; misspelt keys, also of upstream',
    'plugins; values as ADD checks them; keys without effect; plugins that are missing or cannot be',
    'started. Plugins are started for VERSION, which changes nothing. As root, lint also finds ranges that the node',
    "uses already, and rules of other firewalls that drop packets before trestle's accept.",
    'DIR: every file of it, and the one that containerd, CRI-O and cnitool use, and why the others are skipped.',
    'Without a name: the directories that the runtimes of this node really use, as they say themselves (CRI Status,',
    'then their own command, then their files), or /etc/cni/net.d; and flags of kubelet that are dead.',
    'Each finding has an id, like json-syntax: `trestle explain json-syntax`. Exit code 1: one of them is an error.',
  ].join('\n'),
  options: {
    'bin-dir': {
      type: 'string',
      value: 'DIR',
      help: "where the plugins are; several with : between (default: the runtime's, or /opt/cni/bin)",
    },
    skip: { type: 'string', value: 'IDS', help: 'leave out findings with these ids, commas between' },
    list: { type: 'boolean', help: 'list the ids of all findings, and look at nothing' },
    strict: { type: 'boolean', help: 'warnings make exit code 1, too; notes on an old cniVersion for each file' },
  },
  examples: ['trestle lint', 'trestle lint 10-pods.conflist', 'trestle lint --bin-dir /usr/lib/cni - <net.conf'],
  run,
}

async function run(input: Input): Promise<number> {
  const { words, values } = input
  if (values['list'] === true) return listDiagnoses(input, 'lint', ownDiagnoses())
  const ids = ownDiagnoses().map(({ id }) => id)
  const skipped = wordsOf('skip', values['skip'], ids)
  const binDirs = values['bin-dir'] === undefined ? undefined : String(values['bin-dir']).split(':')
  // If both the file and the plugins' directory are named, this node does not matter.
  const node = words[0] !== undefined && binDirs !== undefined ? noNode : await lookAtNode()
  const linted = look(words[0], node, binDirs)
  const ofNode = await nodeFindings(linted.lints, isOwnIn(linted))
  const found = [...linted.findings, ...ofNode].filter(({ id }) => !skipped.includes(id))
  const findings = values['strict'] === true ? found : withoutOldVersions(linted, found)
  return report(input, { ...linted, findings })
}

function isOwnIn({ programs }: Linted): (type: string) => boolean {
  return (type) => programs.some(({ isOwn }) => isOwn(type))
}

function ownDiagnoses() {
  return [...diagnoses().values()].filter(({ family }) => family === 'lint')
}

/** The note about an old cniVersion, once for a directory: nearly every file has an old version. */
function withoutOldVersions({ isDirectory, name }: Linted, findings: readonly Finding[]): readonly Finding[] {
  const others = findings.filter(({ id }) => id !== 'cni-version-old')
  if (!isDirectory) return others
  const notes = findings.filter(({ id }) => id === 'cni-version-old')
  const [first] = notes
  if (first === undefined || notes.length === 1) return findings
  const message = `${first.message}, and ${notes.length - 1} more like it: --strict shows each`
  return [...others, findingIn(name, { id: 'cni-version-old', message: `${first.file}: ${message}` })]
}

function report(input: Input, linted: Linted): number {
  const { output, values } = input
  const { files, findings, directories, chains, couldNotLook, runtimes } = linted
  const [errors, warnings, notes] = [
    countOf(findings, 'error'),
    countOf(findings, 'warning'),
    countOf(findings, 'note'),
  ]
  const isBad = errors > 0 || (values['strict'] === true && warnings > 0)
  const code = couldNotLook ? exitCode.couldNotLook : isBad ? exitCode.findings : exitCode.fine
  const [first] = directories
  const predicted = first === undefined ? {} : { runtimes: first.prediction, directories }
  const document = { files, findings, chains, ...predicted, node: runtimes, counts: { errors, warnings, notes } }
  const isMany = directories.length > 1
  const choices = directories.map(({ directory, prediction, readers }) => {
    const names = readers.map(({ runtime }) => runtime)
    return `${isMany ? `${directory}:\n` : ''}${choicesText(prediction, names)}`
  })
  const look = { hasColour: output.hasColour, width: Number.POSITIVE_INFINITY }
  const texts = findings.map((finding) => findingText(finding, look))
  const orders = chains.length === 0 ? [] : [chains.map(chainText).join('')]
  const node = linted.isNodeShown ? runtimes.map((runtime) => `${oneLine(runtimeLine(runtime))}\n`).join('') : ''
  const count = `${counted(errors, 'error')}, ${counted(warnings, 'warning')}, ${counted(notes, 'note')}`
  const last = `${count} in ${counted(files.length, 'file')}\n`
  const text = [...texts, ...(node === '' ? [] : [node]), ...choices, ...orders, last].join('\n')
  return print(input, { command: 'lint', document, text, code })
}
