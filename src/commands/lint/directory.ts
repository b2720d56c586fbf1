// SPDX-License-Identifier: Apache-2.0
// A directory of configurations as the runtimes see it: every file, and the file that each runtime uses.

import { readFileSync, statSync } from 'node:fs'
import { basename, join } from 'node:path'
import type { Finding } from '../findings.ts'
import type { NodeRuntime } from '../runtimes/node-runtimes.ts'
import { directoryFindings, type LookedAt, notWatching } from './directory-findings.ts'
import { type FileLint, lintText } from './file.ts'
import { findingIn } from './finding.ts'
import {
  type Candidate,
  filesIn,
  isConfigurationName,
  type Loaded,
  loadFile,
  loadSingle,
  type NotLoaded,
  type Prediction,
  pluginFilesOf,
  predict,
  type RuntimeSettings,
} from './predict.ts'
import type { Programs } from './programs.ts'

/** `prediction` is absent if the directory cannot be read. */
interface DirectoryLint {
  readonly files: readonly string[]
  readonly findings: readonly Finding[]
  readonly prediction?: Prediction
  /** The directory, or a file of it, is missing or unreadable. */
  readonly couldNotLook?: true
  readonly lints?: readonly FileLint[]
}

/** `readers`: the runtimes of the node that read it. `isOfCrio`: whether CRI-O would find these programs. */
interface DirectoryOptions {
  readonly readers?: readonly NodeRuntime[]
  readonly isOfCrio?: boolean
}

export function lintDirectory(
  directory: string,
  programs: Programs,
  { readers = [], isOfCrio = true }: DirectoryOptions = {},
): DirectoryLint {
  const listed = namesIn(directory)
  if ('problem' in listed) return { files: [], findings: [listed.problem], couldNotLook: true }
  const looked = listed.names.filter(isConfigurationName).map((name) => lookAt(directory, name, programs))
  const files = looked.map(({ lint }) => lint.file)
  const denied = looked.filter(({ isDenied }) => isDenied === true)
  // Without all files the runtimes' choice is unknown: they run as root.
  if (denied.length > 0) return { files, findings: looked.flatMap(({ lint }) => lint.findings), couldNotLook: true }
  const prediction = predict(
    looked.map(({ candidate: { programProblem: problem, ...rest } }) => {
      return isOfCrio ? { ...rest, programProblem: problem } : rest
    }),
    settingsOf(readers),
  )
  const names = readers.map(({ runtime }) => runtime)
  const others = listed.names.filter((name) => !isConfigurationName(name))
  const about = { directory, looked, prediction, names, others }
  const ofFiles = looked.flatMap(({ lint }) => lint.findings).filter(({ id }) => id !== 'bin-dir-missing')
  const ofDirectory = [
    ...directoryFindings(about),
    ...programFindings(directory, programs),
    ...watchFindings(directory, readers),
    ...(prediction.containerd.file === undefined ? [] : loopbackFindings(directory, readers, programs)),
  ]
  const findings = [...ofFiles, ...ofDirectory]
  const lints = looked.map(({ lint }) => lint)
  return { files, findings, prediction, lints }
}

/** Settings of the runtimes that change their choice. */
function settingsOf(readers: readonly NodeRuntime[]): RuntimeSettings {
  const of = (name: string) => readers.find(({ runtime }) => runtime === name)?.settings
  return { maxConfNum: of('containerd')?.maxConfNum, defaultNetwork: of('CRI-O')?.defaultNetwork }
}

function namesIn(directory: string): { readonly names: readonly string[] } | { readonly problem: Finding } {
  try {
    return { names: filesIn(directory) }
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    if (code === 'ENOENT') return { problem: findingIn(directory, { id: 'dir-missing', message: 'it is not there' }) }
    const denied = { message: 'permission denied', cure: 'run it as root' }
    const why = code === 'EACCES' || code === 'EPERM' ? denied : { message }
    return { problem: findingIn(directory, { id: 'dir-unreadable', ...why }) }
  }
}

function lookAt(directory: string, name: string, programs: Programs): LookedAt {
  const file = join(directory, name)
  const read = textOf(file)
  if ('problem' in read) {
    const cure = read.isDenied ? 'run it as root' : undefined
    const lint: FileLint = { file, findings: [findingIn(file, { id: 'file-unreadable', message: read.problem, cure })] }
    return { lint, candidate: { name, load: { problem: read.problem } }, ...(read.isDenied ? { isDenied: true } : {}) }
  }
  const lint = lintText(file, read.text, programs)
  const loaded = loadFile(name, read.text)
  const load = 'problem' in loaded ? loaded : { ...loaded, version: lint.list?.version ?? loaded.version }
  const folder = pluginFilesOf(directory, load)
  if ('problem' in load || folder.length === 0) return { lint, candidate: candidateOf(name, load, programs) }
  const findings = lint.findings.filter(({ id }) => id !== 'plugins-missing')
  return { lint: { ...lint, findings }, candidate: candidateOf(name, withFolder(load, folder), programs) }
}

function candidateOf(name: string, load: Loaded | NotLoaded, programs: Programs): Candidate {
  return { name, load: withPlugins(load), programProblem: programProblem(load, programs) }
}

/** A runtime reads a file of any size; a configuration of this size is a mistake. */
const longestBytes = 64 * 1024 * 1024

type Read = { readonly text: string } | { readonly problem: string; readonly isDenied?: true }

function textOf(file: string): Read {
  try {
    const stat = statSync(file)
    if (!stat.isFile()) return { problem: `it is ${stat.isDirectory() ? 'a directory' : 'no regular file'}` }
    if (stat.size > longestBytes) return { problem: `it has ${stat.size} bytes` }
    return { text: readFileSync(file, 'utf8') }
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    if (code === 'EACCES' || code === 'EPERM') return { problem: 'permission denied', isDenied: true }
    return { problem: code === 'ENOENT' ? 'it is a link to nothing' : message }
  }
}

function withFolder(load: Loaded, files: readonly string[]): Loaded | NotLoaded {
  const types = [...load.types]
  for (const file of files) {
    const read = textOf(file)
    const plugin = 'problem' in read ? read : loadSingle(read.text)
    if ('problem' in plugin) return { problem: `${load.name}/${basename(file)}: ${plugin.problem}` }
    types.push(...plugin.types)
  }
  return { ...load, types }
}

function withPlugins(load: Loaded | NotLoaded): Loaded | NotLoaded {
  if ('problem' in load || load.types.length > 0) return load
  return { problem: "no 'plugins' key, and no plugin configs found" }
}

/** CRI-O asks every plugin for its versions before it takes a file (libcni, ValidateNetworkList). */
function programProblem(load: Loaded | NotLoaded, programs: Programs): string | undefined {
  if ('problem' in load) return undefined
  for (const type of load.types) {
    const problem = programs.problemOf(type, load.version || '0.1.0')
    if (problem !== undefined) return problem.message
  }
  return undefined
}

/** For a directory that a runtime reads this is an error: no pod gets a network. */
function programFindings(directory: string, { absence }: Programs): readonly Finding[] {
  if (absence === undefined) return []
  const message = `no plugin can be started: ${absence.message}`
  return [findingIn(directory, { id: 'bin-dir-missing', severity: 'error', message, cure: absence.cure })]
}

/** containerd calls the plugin `loopback` for each pod, whatever the configuration says; CRI-O sets `lo` up itself. */
function loopbackFindings(
  directory: string,
  readers: readonly NodeRuntime[],
  { hasDirectory, problemOf }: Programs,
): readonly Finding[] {
  const containerd = readers.find(({ runtime }) => runtime === 'containerd')
  if (containerd === undefined || containerd.settings.hasInternalLoopback === true || !hasDirectory) return []
  const problem = problemOf('loopback', undefined)
  if (problem === undefined) return []
  const link = `ln -s trestle ${containerd.settings.binDirs[0]}/loopback`
  const cure = problemOf('trestle', undefined) === undefined ? link : undefined
  return [findingIn(directory, { id: 'loopback-plugin-missing', message: problem.message, cure })]
}

/** A containerd that reads another directory does not watch this one. */
function watchFindings(directory: string, readers: readonly NodeRuntime[]): readonly Finding[] {
  const pids = readers.flatMap(({ runtime, pid, root }) => (runtime === 'containerd' && root === '' ? [pid] : []))
  const not = notWatching(directory).filter((pid) => pids.includes(pid))
  return not.map((pid) =>
    findingIn(directory, { id: 'dir-not-watched', message: `containerd (process ${pid}) does not watch it` }),
  )
}
