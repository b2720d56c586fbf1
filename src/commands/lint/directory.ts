// SPDX-License-Identifier: Apache-2.0
// A directory of configurations as the runtimes see it: every file, and the file that each runtime uses.

import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { byBytes, filesIn, isConfigurationName, readConfigurationFile } from '../config-directory.ts'
import type { Finding } from '../findings.ts'
import { namesIfThere, orElse } from '../if-there.ts'
import { type NodeRuntime, runtimeText } from '../runtimes/node-runtimes.ts'
import { defaultConfDir, defaultSettings } from '../runtimes/runtime-settings.ts'
import { type Candidate, type Prediction, predict } from './choice.ts'
import { type FileLint, lintText } from './file.ts'
import { findingIn } from './finding.ts'
import type { Programs } from './programs.ts'

/** A directory of configurations. `readers`: the runtimes that read it. */
export interface Target {
  readonly directory: string
  readonly binDirs: readonly string[]
  readonly readers: readonly NodeRuntime[]
}

export function targetOf(directory: string, runtimes: readonly NodeRuntime[]): Target {
  const readers = runtimes.filter(({ settings }) => join(settings.confDir, '.') === join(directory, '.'))
  const [owner] = readers.length > 0 ? readers : runtimes
  const fromEnv = process.env['CNI_PATH']
  const binDirs = fromEnv ? fromEnv.split(':') : (owner?.settings ?? defaultSettings).binDirs
  return { directory, readers, binDirs }
}

/** `prediction` is absent if the directory, or a file of it, cannot be read. */
export interface DirectoryLint {
  readonly files: readonly FileLint[]
  readonly findings: readonly Finding[]
  readonly prediction?: Prediction
}

/** A file that is not there yet, or has another text. */
export interface PlannedFile {
  readonly name: string
  readonly text: string
}

/** `planned`: the directory is looked at as if it had this file. */
export function lintDirectory(
  directory: string,
  programs: Programs,
  readers: readonly NodeRuntime[] = [],
  planned?: PlannedFile,
): DirectoryLint {
  const names = namesWith(directory, planned)
  if (names === undefined) return { files: [], findings: [unreadable(directory)] }
  const files: FileLint[] = []
  const candidates: Candidate[] = []
  let isDenied = false
  for (const name of names.filter(isConfigurationName)) {
    const file = join(directory, name)
    const read = name === planned?.name ? planned : readConfigurationFile(file)
    if ('problem' in read) {
      isDenied ||= read.isDenied === true
      const findings = [findingIn(file, { id: 'file-unreadable', message: read.problem })]
      files.push({ file, types: [], findings })
      candidates.push({ name, network: '', problem: read.problem })
    } else {
      const lint = lintText(file, read.text, programs)
      files.push(lint)
      const problem = lint.list === undefined ? (lint.problem ?? 'it is no object') : lint.problem
      candidates.push({ name, network: lint.list?.name ?? '', problem, programProblem: programProblem(lint, programs) })
    }
  }
  const ofFiles = files.flatMap(({ findings }) => findings).filter(({ id }) => id !== 'bin-dir-missing')
  // Without all files the runtimes' choice is unknown: they run as root.
  if (isDenied) return { files, findings: ofFiles }
  const settings = Object.assign({}, ...readers.map((reader) => reader.settings))
  const prediction = predict(candidates, settings)
  const ignored = names.filter((name) => !isConfigurationName(name)).map((name) => join(directory, name))
  const findings = [
    ...ofFiles,
    ...unused(directory, candidates, prediction),
    ...ignored.map((file) => findingIn(file, { id: 'wrong-extension', message: 'no runtime reads it' })),
    ...programFindings(directory, { prediction, readers, programs }),
  ]
  if (files.length > 0) return { files, findings, prediction }
  const empty = findingIn(directory, { id: 'dir-empty', message: 'no file of it ends in .conflist, .conf or .json' })
  return { files, findings: [empty, ...findings], prediction }
}

/** In the order of Go; undefined if the directory cannot be read, and nothing is planned for it. */
function namesWith(directory: string, planned: PlannedFile | undefined): readonly string[] | undefined {
  const names = orElse(() => filesIn(directory), undefined)
  if (planned === undefined) return names
  return [...new Set([...(names ?? []), planned.name])].toSorted(byBytes)
}

function unreadable(directory: string): Finding {
  try {
    readdirSync(directory)
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    if (code === 'ENOENT') return findingIn(directory, { id: 'dir-missing', message: 'it is not there' })
    const why = code === 'EACCES' ? 'permission denied' : message
    return findingIn(directory, { id: 'dir-unreadable', message: why })
  }
  return findingIn(directory, { id: 'dir-unreadable', message: 'it changes while it is read' })
}

/** CRI-O asks every plugin for its versions before it takes a file (libcni, ValidateNetworkList). */
function programProblem({ types, list }: FileLint, programs: Programs): string | undefined {
  if (programs.absence !== undefined) return programs.absence
  const problems = types.map((type) => programs.problemOf(type, list?.version ?? '0.1.0'))
  return problems.find((problem) => problem !== undefined)?.message
}

/** Valid files that neither containerd nor CRI-O takes for the default network, and files of one network. */
function unused(directory: string, files: readonly Candidate[], { containerd, crio }: Prediction): readonly Finding[] {
  const valid = files.filter(({ problem }) => problem === undefined)
  const found: Finding[] = []
  for (const [at, { name, network, programProblem }] of valid.entries()) {
    const file = join(directory, name)
    const same = valid.slice(0, at).find((other) => network !== '' && other.network === network)
    // What CRI-O skips is told with its reason.
    if (name !== containerd.file && name !== crio.file && programProblem === undefined) {
      const message = `${containerd.file ?? crio.file ?? files[0]?.name} is before it in the order of names`
      found.push(findingIn(file, { id: 'sorted-later', message }))
    }
    if (same !== undefined) {
      const message = `its network ${network} is also in ${same.name}`
      found.push(findingIn(file, { id: 'same-network', message }))
    }
  }
  return found
}

interface About {
  readonly prediction: Prediction
  readonly readers: readonly NodeRuntime[]
  readonly programs: Programs
}

/** No plugin at all; and `loopback`, which containerd calls for each pod, whatever the configuration says. */
function programFindings(directory: string, { prediction, readers, programs }: About): readonly Finding[] {
  if (programs.absence !== undefined) {
    const message = `no plugin can be started: ${programs.absence}`
    return [findingIn(directory, { id: 'bin-dir-missing', severity: 'error', message })]
  }
  const settings = readers.find(({ runtime }) => runtime === 'containerd')?.settings
  if (settings === undefined || settings.hasInternalLoopback || prediction.containerd.file === undefined) return []
  const problem = programs.problemOf('loopback', undefined)
  if (problem === undefined) return []
  const cure = `ln -s trestle ${settings.binDirs[0]}/loopback`
  return [findingIn(directory, { id: 'loopback-plugin-missing', message: problem.message, cure })]
}

/** The usual directory has configurations, but for those of podman and nerdctl, and no runtime reads it. */
export function unusedDirectory(runtimes: readonly NodeRuntime[]): readonly Finding[] {
  const names = namesIfThere(defaultConfDir).filter(isConfigurationName)
  const [first] = runtimes
  if (first === undefined || runtimes.some(({ settings }) => settings.confDir === defaultConfDir)) return []
  if (names.every((name) => /podman|nerdctl/.test(name))) return []
  const { confDir } = first.settings
  const message = `${runtimeText(first)} reads ${confDir}, and nothing here`
  return [findingIn(defaultConfDir, { id: 'dir-not-used', message, cure: `move the file to ${confDir}` })]
}
