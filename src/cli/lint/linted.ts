// SPDX-License-Identifier: Apache-2.0
// Looks at a file, at a directory, or at all directories that the runtimes of the node use.

import { statSync } from 'node:fs'
import { lookUp } from '../../cni/json/json-keys.ts'
import { oneLine } from '../../cni/model/error.ts'
import type { NodeRuntime } from '../node/runtimes.ts'
import type { Finding } from '../shell/findings.ts'
import { readInputText } from '../shell/read-input.ts'
import { lintFile } from './attachments.ts'
import { lintDirectory } from './directory.ts'
import type { FileLint } from './file.ts'
import { openNode } from './node.ts'
import { extensionOf, hasPluginFiles, type Prediction } from './predict.ts'
import { openPrograms, type Programs } from './programs.ts'
import {
  binDirsFor,
  copyFindings,
  type NodeView,
  otherBinDirs,
  runtimeFindings,
  type Target,
  targetOf,
  targetsOf,
  unusedDirectory,
  usualDirectory,
} from './runtimes.ts'

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

function lookAtFile(name: string, { runtimes }: NodeView, binDirs = binDirsFor(name, runtimes)): Linted {
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

/** The types of the plugins of a file in the order of each verb. */
export interface Chain {
  readonly file: string
  readonly add: readonly string[]
  readonly del: readonly string[]
}

/** The chains of the files that have more than one plugin. */
export function chainsOf(files: readonly FileLint[]): readonly Chain[] {
  return files.flatMap(({ file, list }) => {
    const add = (list?.plugins ?? []).map(({ conf }) => String(lookUp(conf, 'type')))
    return add.length < 2 ? [] : [{ file, add, del: add.toReversed() }]
  })
}

export function chainText({ file, add, del }: Chain): string {
  return `${oneLine(`${file === '-' ? '<stdin>' : file}: ADD calls ${add.join(', ')}; DEL calls ${del.join(', ')}`)}\n`
}
