// SPDX-License-Identifier: Apache-2.0
// `trestle lint`: finds faults of a configuration, and predicts the file that each runtime uses.

import { statSync } from 'node:fs'
import { dirname } from 'node:path'
import { diagnoses } from '../../catalogue/diagnosis.ts'
import { oneLine } from '../../cni/error.ts'
import type { NodeRuntime } from '../node/runtimes.ts'
import { type Command, exitCode, type Input } from '../shell/command.ts'
import { counted, countOf, type Finding, findingText, listDiagnoses, wordsOf } from '../shell/findings.ts'
import { print } from '../shell/output.ts'
import { readInputText } from '../shell/read-input.ts'
import { lintFile } from './attachments.ts'
import { type Chain, chainsOf, lintDirectory } from './directory.ts'
import { choicesText } from './directory-findings.ts'
import type { FileLint } from './file.ts'
import { findingIn } from './finding.ts'
import { nodeFindings, openNode } from './node.ts'
import { extensionOf, hasPluginFiles, type Prediction } from './predict.ts'
import { openPrograms, type Programs } from './programs.ts'
import {
  copyFindings,
  lookAtNode,
  type NodeView,
  noNode,
  otherBinDirs,
  runtimeFindings,
  runtimeLine,
  type Target,
  targetOf,
  targetsOf,
  unusedDirectory,
  usualDirectory,
} from './runtimes.ts'

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

// Looks at a file, at a directory, or at all directories that the runtimes of the node use.

export interface Linted {
  /** The name for findings about all of it. */
  readonly name: string
  readonly isDirectory: boolean
  readonly files: readonly string[]
  readonly findings: readonly Finding[]
  /** Directories that could be read. */
  readonly directories: readonly Read[]
  readonly chains: readonly Chain[]
  readonly couldNotLook: boolean
  readonly lints: readonly FileLint[]
  readonly programs: readonly Programs[]
  readonly runtimes: readonly NodeRuntime[]
  /** Whether the node was examined, not one file. */
  readonly isNodeShown: boolean
}

/** A directory and the runtimes' choices in it. `readers`: the runtimes of the node that read it. */
interface Read {
  readonly directory: string
  readonly prediction: Prediction
  readonly readers: readonly NodeRuntime[]
}

/** Without a name: the directories that the runtimes of the node use. */
export function look(name: string | undefined, node: NodeView, binDirs?: readonly string[]): Linted {
  if (name !== undefined && !isDirectory(name)) return lookAtFile(name, node, binDirs)
  const { runtimes } = node
  const targets = name === undefined ? targetsOf(runtimes) : [targetOf(name, runtimes)]
  return lookAtDirectories(targets, { node, binDirs, isNamed: name !== undefined })
}

function lookAtFile(name: string, { runtimes }: NodeView, named?: readonly string[]): Linted {
  const binDirs = named ?? targetOf(dirname(name), runtimes).binDirs
  const programs = programsIn(binDirs, runtimes)
  const text = readInputText(name)
  const lints = lintFile(name, text, programs)
  const all = lints.flatMap((lint) => lint.findings)
  const findings = hasPluginFiles(name, text) ? all.filter(({ id }) => id !== 'plugins-missing') : all
  const looked = { files: [name], findings, chains: chainsOf(lints), lints, programs: [programs], runtimes }
  return { name, isDirectory: false, directories: [], couldNotLook: false, isNodeShown: false, ...looked }
}

interface About {
  readonly node: NodeView
  readonly binDirs: readonly string[] | undefined
  readonly isNamed: boolean
}

function lookAtDirectories(targets: readonly Target[], { node, binDirs, isNamed }: About): Linted {
  const { runtimes } = node
  const looked = targets.map((target) => {
    const programs = programsIn(binDirs ?? target.binDirs, runtimes)
    const how = { readers: target.readers, isOfCrio: binDirs !== undefined || target.isOfCrio }
    return { ...target, programs, lint: lintDirectory(target.directory, programs, how) }
  })
  const lints = looked.map(({ lint }) => lint.lints ?? [])
  const unread = isNamed ? targets.map(({ directory }) => directory) : [usualDirectory() ?? []].flat()
  const findings = [
    ...looked.flatMap(({ lint }) => lint.findings),
    ...copyFindings(lints),
    ...unread.filter(isUsual).flatMap((directory) => unusedDirectory(directory, runtimes, isNamed)),
    ...(isNamed ? [] : runtimeFindings(node)),
  ]
  return {
    name: targets.map(({ directory }) => directory).join(', '),
    isDirectory: true,
    files: looked.flatMap(({ lint }) => lint.files),
    findings,
    directories: looked.flatMap(({ directory, readers, lint: { prediction } }) =>
      prediction === undefined ? [] : [{ directory, prediction, readers }],
    ),
    chains: looked.flatMap(({ lint }) => lint.chains ?? []),
    couldNotLook: looked.some(({ lint }) => lint.couldNotLook) || (!isNamed && runtimes.some((each) => each.isDenied)),
    lints: lints.flat(),
    programs: looked.map(({ programs }) => programs),
    runtimes,
    isNodeShown: !isNamed,
  }
}

function programsIn(binDirs: readonly string[], runtimes: readonly NodeRuntime[]): Programs {
  const programs = openPrograms(binDirs, otherBinDirs(binDirs, runtimes))
  return { ...programs, ...(programs.hasDirectory ? { host: openNode() } : {}) }
}

/** A directory elsewhere is a draft: no runtime reads it. */
function isUsual(directory: string): boolean {
  return /\/cni\/net\.d\/?$/.test(directory)
}

/** A missing name counts as a directory, unless it has a configuration's extension. */
function isDirectory(name: string): boolean {
  if (name === '-') return false
  return isThereAsDirectory(name) ?? !['.conf', '.conflist', '.json', '.yaml', '.yml'].includes(extensionOf(name))
}

function isThereAsDirectory(name: string): boolean | undefined {
  try {
    return statSync(name).isDirectory()
  } catch {
    return undefined // who opens it says why
  }
}

function chainText({ file, add, del }: Chain): string {
  return `${oneLine(`${file === '-' ? '<stdin>' : file}: ADD calls ${add.join(', ')}; DEL calls ${del.join(', ')}`)}\n`
}
