// SPDX-License-Identifier: Apache-2.0
// `trestle lint`: finds faults of a configuration, and predicts the file that each runtime uses.

import { statSync } from 'node:fs'
import { dirname, extname, join } from 'node:path'
import { diagnoses } from '../../catalogue/diagnosis.ts'
import { oneLine } from '../../cni/errors.ts'
import { type Command, exitCode, type Input } from '../command.ts'
import { isConfigurationName } from '../config-directory.ts'
import { counted, countOf, type Finding, findingText, wordsOf } from '../findings.ts'
import { namesIfThere, orElse } from '../if-there.ts'
import { readConfigurationText } from '../input-file.ts'
import { print } from '../output.ts'
import { type NodeRuntime, nodeRuntimes, runtimeText } from '../runtimes/node-runtimes.ts'
import { defaultConfDir } from '../runtimes/runtime-settings.ts'
import { choicesText, type Prediction } from './choice.ts'
import { lintDirectory, targetOf, unusedDirectory } from './directory.ts'
import { lintText } from './file.ts'
import { openPrograms } from './programs.ts'

export const lintCommand: Command = {
  name: 'lint',
  words: '[FILE or DIR]',
  maxWords: 1,
  summary: 'find the faults of a configuration, and the file that each runtime uses',
  description: [
    'FILE (- is standard input) or each file of DIR, and which one containerd, CRI-O and cnitool use. Without a name:',
    "NETCONFPATH, else the directories of this node's runtimes. Plugins are started for VERSION alone. Exit code 1:",
    'an error.',
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
  const skipped = wordsOf('skip', values['skip'], [...diagnoses().keys()])
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
  if (name !== undefined && !isDirectory(name)) {
    const programs = openPrograms(binDirs ?? targetOf(dirname(name), runtimes).binDirs)
    const { findings } = lintText(name, readConfigurationText(name), programs)
    return { files: [name], findings, directories: [], couldNotLook: false, node: [] }
  }
  const node = name === undefined ? runtimes : []
  const used = runtimes.length === 0 ? [defaultConfDir] : new Set(runtimes.map(({ settings }) => settings.confDir))
  const files: string[] = []
  const findings: Finding[] = []
  const directories: Linted['directories'][number][] = []
  let couldNotLook = node.some(({ silent }) => silent !== undefined)
  for (const each of name === undefined ? used : [name]) {
    const target = targetOf(each, runtimes)
    const { directory, readers } = target
    const programs = openPrograms(binDirs ?? target.binDirs)
    const lint = lintDirectory(directory, programs, readers)
    const below = foldersOf(directory).map((folder) => lintDirectory(folder, programs))
    files.push(...[lint, ...below].flatMap((linted) => linted.files.map(({ file }) => file)))
    findings.push(...lint.findings)
    // Nobody chooses a file there.
    findings.push(...below.flatMap((linted) => linted.files.flatMap((file) => file.findings)))
    if (lint.prediction === undefined) couldNotLook = true
    else directories.push({ directory, prediction: lint.prediction, readers })
  }
  if (name === undefined) findings.push(...unusedDirectory(runtimes))
  return { files, findings, directories, couldNotLook, node }
}

/** Folders below a directory that have lists: nerdctl 2 has one for each of its namespaces. */
function foldersOf(directory: string): readonly string[] {
  const folders = namesIfThere(directory).map((name) => join(directory, name))
  return folders.filter((folder) => namesIfThere(folder).some((name) => name.endsWith('.conflist')))
}

/** A missing name counts as a directory, unless it has a configuration's extension. */
function isDirectory(name: string): boolean {
  if (name === '-') return false
  // Of what cannot be looked at, who opens it says why.
  const isThere = orElse(() => statSync(name).isDirectory(), undefined)
  return isThere ?? !(isConfigurationName(name) || ['.yaml', '.yml'].includes(extname(name)))
}

/** A line for each runtime: its directories, and their source. */
export function runtimeLine(runtime: NodeRuntime): string {
  const { settings, source, silent } = runtime
  const why = silent === undefined ? source : `${source}, since it does not answer: ${silent}`
  return `${runtimeText(runtime)}: configurations in ${settings.confDir}, plugins in ${settings.binDirs.join(', ')} (${why})`
}

function report(input: Input, { files, findings, directories, couldNotLook, node }: Linted): number {
  const { output, values } = input
  const [errors, warnings, notes] = [
    countOf(findings, 'error'),
    countOf(findings, 'warning'),
    countOf(findings, 'note'),
  ]
  const isBad = errors > 0 || (values['strict'] === true && warnings > 0)
  const code = couldNotLook ? exitCode.couldNotLook : isBad ? exitCode.findings : exitCode.fine
  const [first] = directories
  const predicted = first === undefined ? {} : { runtimes: first.prediction, directories }
  const document = { files, findings, ...predicted, node, counts: { errors, warnings, notes } }
  const texts = findings.map((finding) => findingText(finding, output))
  if (node.length > 0) texts.push(node.map((runtime) => `${oneLine(runtimeLine(runtime))}\n`).join(''))
  for (const { directory, prediction, readers } of directories) {
    const names = readers.map(({ runtime }) => runtime)
    texts.push(`${directories.length > 1 ? `${directory}:\n` : ''}${choicesText(prediction, names)}`)
  }
  const count = `${counted(errors, 'error')}, ${counted(warnings, 'warning')}, ${counted(notes, 'note')}`
  texts.push(`${count} in ${counted(files.length, 'file')}\n`)
  return print(input, { command: 'lint', document, text: texts.join('\n'), code })
}
