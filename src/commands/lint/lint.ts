// SPDX-License-Identifier: Apache-2.0
// `trestle lint`: finds faults of a configuration, and predicts the file that each runtime uses.

import { statSync } from 'node:fs'
import { dirname } from 'node:path'
import { diagnoses } from '../../catalogue/diagnosis.ts'
import { oneLine } from '../../cni/errors.ts'
import { type Command, exitCode, type Input } from '../command.ts'
import { counted, countOf, type Finding, findingText, listDiagnoses, wordsOf } from '../findings.ts'
import { orElse } from '../if-there.ts'
import { readInputText } from '../input-file.ts'
import { print } from '../output.ts'
import { type NodeRuntime, nodeRuntimes } from '../runtimes/node-runtimes.ts'
import { lintFile } from './attachments.ts'
import { lintDirectory } from './directory.ts'
import { choicesText } from './directory-findings.ts'
import { openNode } from './node.ts'
import { extensionOf, hasPluginFiles, isConfigurationName, type Prediction } from './predict.ts'
import { openPrograms, type Programs } from './programs.ts'
import {
  otherBinDirs,
  runtimeFindings,
  runtimeLine,
  type Target,
  targetOf,
  targetsOf,
  unusedDirectory,
  usualDirectory,
} from './runtime-directories.ts'

export const lintCommand: Command = {
  name: 'lint',
  words: '[FILE or DIR]',
  maxWords: 1,
  summary: 'find the faults of a configuration, and the file that each runtime uses',
  description: [
    'FILE (- is standard input): JSON errors with line, column and caret; misspelt keys, also of upstream',
    'plugins; values as ADD checks them; keys without effect; plugins that are missing or cannot be',
    'started. Plugins are started for VERSION, which changes nothing. As root, lint also finds ranges that the node',
    'uses already.',
    'DIR: every file of it, and the one that containerd, CRI-O and cnitool use, and why the others are skipped.',
    'Without a name: the directories that the runtimes of this node really use, as they say themselves (CRI Status),',
    'else as their files say, or /etc/cni/net.d.',
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
    strict: { type: 'boolean', help: 'warnings make exit code 1, too' },
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
  const node = words[0] !== undefined && binDirs !== undefined ? [] : await nodeRuntimes()
  const linted = look(words[0], node, binDirs)
  return report(input, { ...linted, findings: linted.findings.filter(({ id }) => !skipped.includes(id)) })
}

function ownDiagnoses() {
  return [...diagnoses().values()].filter(({ family }) => family === 'lint')
}

function report(input: Input, linted: Linted): number {
  const { output, values } = input
  const { files, findings, directories, couldNotLook, runtimes } = linted
  const [errors, warnings, notes] = [
    countOf(findings, 'error'),
    countOf(findings, 'warning'),
    countOf(findings, 'note'),
  ]
  const isBad = errors > 0 || (values['strict'] === true && warnings > 0)
  const code = couldNotLook ? exitCode.couldNotLook : isBad ? exitCode.findings : exitCode.fine
  const [first] = directories
  const predicted = first === undefined ? {} : { runtimes: first.prediction, directories }
  const document = { files, findings, ...predicted, node: runtimes, counts: { errors, warnings, notes } }
  const isMany = directories.length > 1
  const choices = directories.map(({ directory, prediction, readers }) => {
    const names = readers.map(({ runtime }) => runtime)
    return `${isMany ? `${directory}:\n` : ''}${choicesText(prediction, names)}`
  })
  const look = { hasColour: output.hasColour, width: Number.POSITIVE_INFINITY }
  const texts = findings.map((finding) => findingText(finding, look))
  const node = linted.isNodeShown ? runtimes.map((runtime) => `${oneLine(runtimeLine(runtime))}\n`).join('') : ''
  const count = `${counted(errors, 'error')}, ${counted(warnings, 'warning')}, ${counted(notes, 'note')}`
  const last = `${count} in ${counted(files.length, 'file')}\n`
  const text = [...texts, ...(node === '' ? [] : [node]), ...choices, last].join('\n')
  return print(input, { command: 'lint', document, text, code })
}

// Looks at a file, at a directory, or at all directories that the runtimes of the node use.

interface Linted {
  readonly files: readonly string[]
  readonly findings: readonly Finding[]
  readonly directories: readonly Read[]
  readonly couldNotLook: boolean
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
export function look(name: string | undefined, runtimes: readonly NodeRuntime[], binDirs?: readonly string[]): Linted {
  if (name !== undefined && !isDirectory(name)) return lookAtFile(name, runtimes, binDirs)
  const targets = name === undefined ? targetsOf(runtimes) : [targetOf(name, runtimes)]
  return lookAtDirectories(targets, { runtimes, binDirs, isNamed: name !== undefined })
}

function lookAtFile(name: string, runtimes: readonly NodeRuntime[], named?: readonly string[]): Linted {
  const binDirs = named ?? targetOf(dirname(name), runtimes).binDirs
  const text = readInputText(name)
  const lints = lintFile(name, text, programsIn(binDirs, runtimes))
  const all = lints.flatMap((lint) => lint.findings)
  const findings = hasPluginFiles(name, text) ? all.filter(({ id }) => id !== 'plugins-missing') : all
  return { files: [name], findings, directories: [], couldNotLook: false, runtimes, isNodeShown: false }
}

interface About {
  readonly runtimes: readonly NodeRuntime[]
  readonly binDirs: readonly string[] | undefined
  readonly isNamed: boolean
}

function lookAtDirectories(targets: readonly Target[], { runtimes, binDirs, isNamed }: About): Linted {
  const looked = targets.map((target) => {
    const programs = programsIn(binDirs ?? target.binDirs, runtimes)
    const how = { readers: target.readers, isOfCrio: binDirs !== undefined || target.isOfCrio }
    return { ...target, lint: lintDirectory(target.directory, programs, how) }
  })
  const unread = isNamed ? targets.map(({ directory }) => directory) : [usualDirectory() ?? []].flat()
  const findings = [
    ...looked.flatMap(({ lint }) => lint.findings),
    ...unread.filter(isUsual).flatMap((directory) => unusedDirectory(directory, runtimes, isNamed)),
    ...(isNamed ? [] : runtimeFindings(runtimes)),
  ]
  return {
    files: looked.flatMap(({ lint }) => lint.files),
    findings,
    directories: looked.flatMap(({ directory, readers, lint: { prediction } }) =>
      prediction === undefined ? [] : [{ directory, prediction, readers }],
    ),
    couldNotLook: looked.some(({ lint }) => lint.couldNotLook) || (!isNamed && runtimes.some((each) => each.isDenied)),
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
  // Of what cannot be looked at, who opens it says why.
  const isThere = orElse(() => statSync(name).isDirectory(), undefined)
  return isThere ?? !(isConfigurationName(name) || ['.yaml', '.yml'].includes(extensionOf(name)))
}
