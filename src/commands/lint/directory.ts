// SPDX-License-Identifier: Apache-2.0
// A directory of configurations as the runtimes see it: every file, and the file that each runtime uses.

import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { filesIn, isConfigurationName, readConfigurationFile } from '../config-directory.ts'
import type { Finding } from '../findings.ts'
import { orElse } from '../if-there.ts'
import type { NodeRuntime } from '../runtimes/node-runtimes.ts'
import { type Candidate, isHere, type Loaded, type Prediction, predict } from './choice.ts'
import { overlapOf, subnetsOf } from './contradictions.ts'
import { type FileLint, lintText } from './file.ts'
import { findingIn } from './finding.ts'
import type { Programs } from './programs.ts'

/** `prediction` is absent if the directory, or a file of it, cannot be read. */
export interface DirectoryLint {
  readonly files: readonly FileLint[]
  readonly findings: readonly Finding[]
  readonly prediction?: Prediction
}

/** `readers`: the runtimes of the node that read it. `isOfCrio`: whether CRI-O would find these programs. */
interface DirectoryOptions {
  readonly readers?: readonly NodeRuntime[]
  readonly isOfCrio?: boolean
}

interface LookedAt {
  readonly lint: FileLint
  readonly candidate: Candidate
  /** The file is unreadable for the user of lint; a runtime may read it. */
  readonly isDenied?: true
}

export function lintDirectory(
  directory: string,
  programs: Programs,
  { readers = [], isOfCrio = true }: DirectoryOptions = {},
): DirectoryLint {
  const names = orElse(() => filesIn(directory), undefined)
  if (names === undefined) return { files: [], findings: [unreadable(directory)] }
  const looked = names.filter(isConfigurationName).map((name) => lookAt(directory, name, programs))
  const files = looked.map(({ lint }) => lint)
  const ofFiles = files.flatMap(({ findings }) => findings).filter(({ id }) => id !== 'bin-dir-missing')
  // Without all files the runtimes' choice is unknown: they run as root.
  if (looked.some(({ isDenied }) => isDenied)) return { files, findings: ofFiles }
  const candidates = looked.map(({ candidate: { programProblem, ...rest } }) => {
    return isOfCrio ? { ...rest, programProblem } : rest
  })
  const settingsOf = (name: string) => readers.find(({ runtime }) => runtime === name)?.settings
  const { maxConfNum } = settingsOf('containerd') ?? {}
  const prediction = predict(candidates, { maxConfNum, defaultNetwork: settingsOf('CRI-O')?.defaultNetwork })
  const about = { directory, looked, prediction, readers }
  const findings = [
    ...ofFiles,
    ...emptiness(directory, looked.length),
    ...consequences(about),
    ...unused(about),
    ...shared(about),
    ...names.filter((name) => !isConfigurationName(name)).map((name) => ignored(join(directory, name))),
    ...programFindings(about, programs),
  ]
  return { files, findings, prediction }
}

function unreadable(directory: string): Finding {
  try {
    readdirSync(directory)
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    if (code === 'ENOENT') return findingIn(directory, { id: 'dir-missing', message: 'it is not there' })
    const isDenied = code === 'EACCES'
    return findingIn(directory, { id: 'dir-unreadable', message: isDenied ? 'permission denied' : message })
  }
  return findingIn(directory, { id: 'dir-unreadable', message: 'it changes while it is read' })
}

function lookAt(directory: string, name: string, programs: Programs): LookedAt {
  const file = join(directory, name)
  const read = readConfigurationFile(file)
  if ('problem' in read) {
    const lint = { file, types: [], findings: [findingIn(file, { id: 'file-unreadable', message: read.problem })] }
    return { lint, candidate: { name, load: read }, ...(read.isDenied ? { isDenied: true } : {}) }
  }
  const lint = lintText(file, read.text, programs)
  return { lint, candidate: candidateOf(name, lint, programs) }
}

function candidateOf(name: string, { list, types, problem }: FileLint, programs: Programs): Candidate {
  if (problem !== undefined || list === undefined) return { name, load: { problem: problem ?? 'it is no object' } }
  const load = { name: list.name, version: list.version ?? '0.1.0', types }
  return { name, load, programProblem: programProblem(load, programs) }
}

/** CRI-O asks every plugin for its versions before it takes a file (libcni, ValidateNetworkList). */
function programProblem({ types, version }: Loaded, programs: Programs): string | undefined {
  if (programs.absence !== undefined) return programs.absence
  for (const type of types) {
    const problem = programs.problemOf(type, version)
    if (problem !== undefined) return problem.message
  }
  return undefined
}

interface About {
  readonly directory: string
  readonly looked: readonly LookedAt[]
  readonly prediction: Prediction
  readonly readers: readonly NodeRuntime[]
}

function emptiness(directory: string, count: number): readonly Finding[] {
  if (count > 0) return []
  return [findingIn(directory, { id: 'dir-empty', message: 'no file of it ends in .conflist, .conf or .json' })]
}

function ignored(file: string): Finding {
  return findingIn(file, { id: 'wrong-extension', message: 'no runtime reads it' })
}

/** Files that stop a runtime or are skipped, where no finding of the file says so already; and a difference of choices. */
function consequences({ directory, looked, prediction, readers }: About): readonly Finding[] {
  const { containerd, crio, skipped, cnitool } = prediction
  const names = readers.map(({ runtime }) => runtime)
  const reported = new Set<string>()
  for (const { lint, candidate } of looked) {
    if (lint.findings.some(({ id, severity }) => severity === 'error' || id === 'bin-dir-missing')) {
      reported.add(candidate.name)
    }
  }
  const found: { id: string; name: string; message: string }[] = []
  if (isHere(names, 'containerd') && containerd.file === undefined && containerd.stoppedBy !== undefined) {
    const message = `containerd reads it first and loads nothing: ${containerd.reason}`
    found.push({ id: 'containerd-stops', name: containerd.stoppedBy, message })
  }
  for (const { network, choice } of cnitool) {
    if (choice.file !== undefined || choice.stoppedBy === undefined) continue
    const message = `cnitool does not find the network ${network} behind it`
    found.push({ id: 'cnitool-stops', name: choice.stoppedBy, message })
  }
  if (isHere(names, 'CRI-O')) {
    found.push(
      ...skipped.map(({ file, reason }) => ({ id: 'cri-o-skips', name: file, message: `CRI-O skips it: ${reason}` })),
    )
  }
  const news = found.filter(({ name }) => !reported.has(name))
  const areBoth = isHere(names, 'containerd') && isHere(names, 'CRI-O')
  const isExplained = found.length > news.length || containerd.file === crio.file
  const message = `containerd uses ${containerd.file ?? 'nothing'}, CRI-O ${crio.file ?? 'nothing'}`
  return [
    ...news.map(({ id, name, message: text }) => findingIn(join(directory, name), { id, message: text })),
    ...(areBoth && !isExplained ? [findingIn(directory, { id: 'runtimes-differ', message })] : []),
  ]
}

/** Valid files that neither containerd nor CRI-O takes for the default network. */
function unused({ directory, looked, prediction: { containerd, crio } }: About): readonly Finding[] {
  const used = [containerd.file, crio.file]
  const whole = looked.filter(({ candidate }) => !('problem' in candidate.load) && !used.includes(candidate.name))
  const message = `${looked[0]?.candidate.name} is before it in the order of names`
  return whole.map(({ candidate }) => findingIn(join(directory, candidate.name), { id: 'sorted-later', message }))
}

/** Two files with one network's name, and two networks with one address. */
function shared({ looked }: About): readonly Finding[] {
  const found: Finding[] = []
  const before: { name: string; network: string; subnets: readonly string[] }[] = []
  for (const { lint, candidate } of looked) {
    if ('problem' in candidate.load) continue
    const network = candidate.load.name
    const subnets = (lint.list?.plugins ?? []).flatMap(subnetsOf)
    const same = network === '' ? undefined : before.find((other) => other.network === network)
    if (same !== undefined) {
      const message = `its network ${network} is also in ${same.name}`
      found.push(findingIn(lint.file, { id: 'same-network', message }))
    }
    for (const other of before) {
      const both = other.network === network ? undefined : overlapOf(subnets, other.subnets)
      if (both === undefined) continue
      const message = `its subnet ${both[0]} overlaps with ${both[1]} of ${other.name}`
      found.push(findingIn(lint.file, { id: 'subnets-overlap', message }))
    }
    before.push({ name: candidate.name, network, subnets })
  }
  return found
}

/** No plugin at all; and `loopback`, which containerd calls for each pod, whatever the configuration says. */
function programFindings({ directory, prediction, readers }: About, programs: Programs): readonly Finding[] {
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
