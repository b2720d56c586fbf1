// SPDX-License-Identifier: Apache-2.0
// `trestle lint`: finds faults of a configuration, and predicts the file that each runtime uses.

import { statSync } from 'node:fs'
import { dirname, extname } from 'node:path'
import { diagnoses } from '../../catalogue/diagnosis.ts'
import { oneLine } from '../../cni/errors.ts'
import { type Command, exitCode, type Input } from '../command.ts'
import { isConfigurationName } from '../config-directory.ts'
import { counted, countOf, type Finding, findingText, wordsOf } from '../findings.ts'
import { orElse } from '../if-there.ts'
import { readConfigurationText } from '../input-file.ts'
import { print } from '../output.ts'
import { type NodeRuntime, nodeRuntimes } from '../runtimes/node-runtimes.ts'
import { choicesText, type Prediction } from './choice.ts'
import { lintDirectory } from './directory.ts'
import { lintText } from './file.ts'
import { openNode } from './node.ts'
import { openPrograms, type Programs } from './programs.ts'
import {
  foldersOf,
  otherBinDirs,
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
    'FILE (- is standard input): JSON errors with line, column and caret. Plugins of type trestle: misspelt keys,',
    'values as ADD checks them, keys without effect. Plugins of other types: whether they are installed and speak',
    'the version (they are started for VERSION, which changes nothing). As root, lint also finds ranges that the node',
    'uses already.',
    'DIR: every file of it, the one that containerd, CRI-O and cnitool use, and why the others are skipped; folders',
    'below it as nerdctl has them, too.',
    'Without a name: NETCONFPATH, else the directories that the runtimes of this node use. CNI_PATH names the',
    'directories of the plugins.',
    'Each finding has an id, like json-syntax: `trestle explain json-syntax`. Exit code 1: one of them is an error.',
  ].join('\n'),
  options: {
    'bin-dir': { type: 'string', value: 'DIR', help: 'where the plugins are; several with : between' },
    skip: { type: 'string', value: 'IDS', help: 'leave out findings with these ids, commas between' },
    strict: { type: 'boolean', help: 'warnings make exit code 1, too' },
  },
  examples: ['trestle lint', 'trestle lint 10-pods.conflist', 'trestle lint --bin-dir /usr/lib/cni - <net.conf'],
  run,
}

async function run(input: Input): Promise<number> {
  const { words, values } = input
  const ids = [...diagnoses().values()].filter(({ family }) => family === 'lint').map(({ id }) => id)
  const skipped = wordsOf('skip', values['skip'], ids)
  const binDirs = values['bin-dir'] === undefined ? undefined : String(values['bin-dir']).split(':')
  const name = words[0] ?? (process.env['NETCONFPATH'] || undefined)
  // If both the file and the plugins' directory are named, this node does not matter.
  const runtimes = name !== undefined && binDirs !== undefined ? [] : await nodeRuntimes()
  const linted = look(name, runtimes, binDirs)
  return report(input, { ...linted, findings: linted.findings.filter(({ id }) => !skipped.includes(id)) })
}

interface Linted {
  readonly files: readonly string[]
  readonly findings: readonly Finding[]
  /** A directory and the runtimes' choices in it; `readers`: the runtimes of the node that read it. */
  readonly directories: readonly { directory: string; prediction: Prediction; readers: readonly NodeRuntime[] }[]
  readonly couldNotLook: boolean
  /** The runtimes of the node, if it was examined, and not a name. */
  readonly node: readonly NodeRuntime[]
}

/** Without a name: the directories that the runtimes of the node use. */
export function look(name: string | undefined, runtimes: readonly NodeRuntime[], binDirs?: readonly string[]): Linted {
  const programsOf = (directory: string) => {
    const where = binDirs ?? targetOf(directory, runtimes).binDirs
    const programs = openPrograms(where, otherBinDirs(where, runtimes))
    return programs.absence === undefined ? { ...programs, hostLinks: openNode() } : programs
  }
  if (name !== undefined && !isDirectory(name)) return lookAtFile(name, programsOf(dirname(name)))
  const targets = name === undefined ? targetsOf(runtimes) : [targetOf(name, runtimes)]
  const looked = targets.flatMap((target) => lookAtTarget(target, { programsOf, isNamed: binDirs !== undefined }))
  // A directory elsewhere is a draft: no runtime reads it.
  const usual = name ?? usualDirectory()
  const unread = usual !== undefined && /\/cni\/net\.d\/?$/.test(usual) ? unusedDirectory(usual, runtimes) : []
  const node = name === undefined ? runtimes : []
  return {
    files: looked.flatMap(({ lint }) => lint.files.map(({ file }) => file)),
    findings: [...looked.flatMap(({ lint }) => lint.findings), ...unread],
    directories: looked.flatMap(({ directory, readers, isFolder, lint: { prediction } }) => {
      return prediction === undefined || isFolder ? [] : [{ directory, prediction, readers }]
    }),
    couldNotLook: looked.some(({ lint }) => lint.prediction === undefined) || node.some(({ isDenied }) => isDenied),
    node,
  }
}

function lookAtFile(name: string, programs: Programs): Linted {
  const text = readConfigurationText(name)
  const { findings } = lintText(name, text, programs)
  return { files: [name], findings, directories: [], couldNotLook: false, node: [] }
}

interface About {
  readonly programsOf: (directory: string) => Programs
  /** The directory of the plugins is given. */
  readonly isNamed: boolean
}

/** A directory, and the folders below it, whose files nerdctl alone reads: there nobody chooses one. */
function lookAtTarget({ directory, readers, isOfCrio }: Target, { programsOf, isNamed }: About) {
  const folders = foldersOf(directory).map((folder) => {
    const lint = lintDirectory(folder, programsOf(directory))
    return {
      directory: folder,
      readers,
      isFolder: true,
      lint: { ...lint, findings: lint.findings.filter(({ id }) => !ofChoice.has(id)) },
    }
  })
  const lint = lintDirectory(directory, programsOf(directory), { readers, isOfCrio: isNamed || isOfCrio })
  return [{ directory, readers, isFolder: false, lint }, ...folders]
}

const ofChoice = new Set([
  ...['sorted-later', 'runtimes-differ', 'containerd-stops', 'cri-o-skips', 'cnitool-stops', 'bin-dir-missing'],
])

/** A missing name counts as a directory, unless it has a configuration's extension. */
function isDirectory(name: string): boolean {
  if (name === '-') return false
  // Of what cannot be looked at, who opens it says why.
  const isThere = orElse(() => statSync(name).isDirectory(), undefined)
  return isThere ?? !(isConfigurationName(name) || ['.yaml', '.yml'].includes(extname(name)))
}

function report(input: Input, { files, findings, directories, couldNotLook, node }: Linted): number {
  const { output, values } = input
  const errors = countOf(findings, 'error')
  const warnings = countOf(findings, 'warning')
  const notes = countOf(findings, 'note')
  const isBad = errors > 0 || (values['strict'] === true && warnings > 0)
  const code = couldNotLook ? exitCode.couldNotLook : isBad ? exitCode.findings : exitCode.fine
  const [first] = directories
  const predicted = first === undefined ? {} : { runtimes: first.prediction, directories }
  const document = { files, findings, ...predicted, node, counts: { errors, warnings, notes } }
  const texts = findings.map((finding) => findingText(finding, { ...output, width: Number.POSITIVE_INFINITY }))
  if (node.length > 0) texts.push(node.map((runtime) => `${oneLine(runtimeLine(runtime))}\n`).join(''))
  for (const { directory, prediction, readers } of directories) {
    const names = readers.map(({ runtime }) => runtime)
    texts.push(`${directories.length > 1 ? `${directory}:\n` : ''}${choicesText(prediction, names)}`)
  }
  const count = `${counted(errors, 'error')}, ${counted(warnings, 'warning')}, ${counted(notes, 'note')}`
  texts.push(`${count} in ${counted(files.length, 'file')}\n`)
  return print(input, { command: 'lint', document, text: texts.join('\n'), code })
}
