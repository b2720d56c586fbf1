// SPDX-License-Identifier: Apache-2.0
// `trestle install`: puts this executable where each runtime looks for plugins, tries it there, and puts a configuration
// where the runtime looks for networks, last. Everything is decided and said before the first file is written.

import { accessSync, constants, existsSync, mkdirSync, realpathSync, symlinkSync } from 'node:fs'
import { basename, dirname } from 'node:path'
import { isSea } from 'node:sea'
import { settleProgram } from '../agent/program.ts'
import { nowMs } from '../process/clock.ts'
import { runnerUntil } from '../process/runner.ts'
import { writeSynced } from '../state/files.ts'
import { type Command, exitCode, type Input, UsageError } from './command.ts'
import { isConfigurationName } from './config-directory.ts'
import { failureOf } from './failure.ts'
import { countOf, type Finding, findingText } from './findings.ts'
import { textIfThere } from './if-there.ts'
import { readConfigurationText } from './input-file.ts'
import { readInstalled, writeInstalled } from './installed-files.ts'
import { type Choice, choicesText, type Prediction } from './lint/choice.ts'
import { lintDirectory, type PlannedFile } from './lint/directory.ts'
import { findingIn } from './lint/finding.ts'
import { openPrograms, type Programs } from './lint/programs.ts'
import { print } from './output.ts'
import { type NodeRuntime, nodeRuntimes, runtimeText } from './runtimes/node-runtimes.ts'
import { defaultSettings } from './runtimes/runtime-settings.ts'
import { requireRoot } from './self.ts'

export const installCommand: Command = {
  name: 'install',
  words: '[CONFLIST]',
  maxWords: 1,
  summary: 'put this executable, and then a configuration, where the runtime looks for them',
  description: [
    'Asks the runtimes of this node for their directories, copies this executable there, starts it once, and copies',
    'CONFLIST last. Refuses what `trestle lint` calls an error, and a CONFLIST that the runtime would not use. Run it',
    'again to update; without CONFLIST only the executable is updated. `trestle uninstall` removes what was written.',
  ].join('\n'),
  options: { 'dry-run': { type: 'boolean', help: 'only say what would be written' } },
  examples: [
    'trestle install pod-network.conflist',
    'trestle install --dry-run pod-network.conflist',
    'trestle install',
  ],
  run,
}

/** The directories of a runtime, with what will be written there. */
interface Place {
  readonly confDir: string
  readonly binDir: string
  readonly names: readonly string[]
  /** The executable's path; undefined where this executable, or a link to it, is there. */
  readonly program?: string
  /** containerd calls a plugin `loopback` for each pod; trestle does its work under that name. */
  readonly loopback?: string
  readonly configuration?: string
  readonly findings: readonly Finding[]
  readonly prediction: Prediction | undefined
}

async function run(input: Input): Promise<number> {
  requireRoot('install', 'it writes into the directories of the runtime')
  if (!isSea())
    throw failureOf('install-not-possible', 'install: this is no executable, but its source: run dist/trestle')
  const [file] = input.words
  if (file === '-') throw new UsageError('install needs the name of a file')
  const planned = file === undefined ? undefined : { name: nameOf(file), text: readConfigurationText(file) }
  const runtimes = await nodeRuntimes()
  const silent = runtimes.find((runtime) => runtime.silent !== undefined)
  if (silent !== undefined) {
    const message = `install: ${runtimeText(silent)} does not answer, so its directories are unknown: ${silent.silent}`
    throw failureOf('install-not-possible', message, { details: 'start it, and run install again' })
  }
  const places = placesOf(runtimes).map((place) => decide(place, planned, file))
  for (const { confDir, binDir } of places) for (const each of [confDir, binDir]) requireWritable(each)
  const findings = places.flatMap((place) => place.findings)
  const isRefused = countOf(findings, 'error') > 0
  const isDone = input.values['dry-run'] !== true && !isRefused
  const written = new Set<string>()
  if (isDone) for (const place of places) await write(place, planned?.text ?? '', (file) => written.add(file))
  return report(input, { places, findings, isRefused, isDone, written, hasRuntime: runtimes.length > 0 })
}

/** A name that sorts before most others: a runtime uses the first file. */
function nameOf(file: string): string {
  const name = basename(file)
  if (!isConfigurationName(name)) throw new UsageError(`${file}: its name must end in .conflist, .conf or .json`)
  return /^\d/.test(name) ? name : `10-${name}`
}

interface Directories {
  readonly confDir: string
  readonly binDir: string
  readonly readers: readonly NodeRuntime[]
}

/** Each directory of configurations once; without a runtime the usual ones. */
function placesOf(runtimes: readonly NodeRuntime[]): readonly Directories[] {
  const places = new Map<string, Directories>()
  for (const { settings } of runtimes.length === 0 ? [{ settings: defaultSettings }] : runtimes) {
    const { confDir, binDirs } = settings
    const binDir = binDirs.find(isWritable) ?? binDirs[0] ?? ''
    const readers = runtimes.filter((each) => each.settings.confDir === confDir)
    places.set(confDir, { confDir, binDir, readers })
  }
  return [...places.values()]
}

/** `file`: the configuration as it was named, for the findings. */
function decide({ confDir, binDir, readers }: Directories, planned: PlannedFile | undefined, file = ''): Place {
  const program = `${binDir}/trestle`
  const isThere = existsSync(program) && realpathSync(program) === process.execPath
  const configuration = planned === undefined ? undefined : `${confDir}/${planned.name}`
  const there = openPrograms(readers[0]?.settings.binDirs ?? [binDir], true)
  // This executable answers for the plugin trestle, which may not be in the runtime's directory yet.
  const own = openPrograms([dirname(process.execPath)])
  const programs: Programs = {
    isOwn: there.isOwn,
    problemOf: (type, version) => (type === 'trestle' ? own : there).problemOf(type, version),
  }
  const { findings, prediction } = lintDirectory(confDir, programs, readers, planned)
  const ofFile = findings
    .filter((finding) => configuration !== undefined && finding.file === configuration && finding.id !== 'sorted-later')
    .map((finding) => ({ ...finding, on: file, file }))
  const needsLoopback = findings.some(({ id }) => id === 'loopback-plugin-missing')
  const names = readers.map(({ runtime }) => runtime)
  return {
    ...{ confDir, binDir, names, prediction },
    ...(isThere ? {} : { program }),
    ...(needsLoopback ? { loopback: `${binDir}/loopback` } : {}),
    ...(configuration === undefined ? {} : { configuration }),
    findings: [
      ...ofFile,
      ...(configuration === undefined || countOf(ofFile, 'error') > 0
        ? []
        : notUsed(file, configuration, names, prediction)),
    ],
  }
}

/** The runtimes that would not use the new file `to`, each as an error about `file`. */
function notUsed(file: string, to: string, names: readonly string[], prediction?: Prediction): readonly Finding[] {
  const choices: readonly (readonly [string, Choice | undefined])[] = [
    ['containerd', prediction?.containerd],
    ['CRI-O', prediction?.crio],
  ]
  const found: Finding[] = []
  for (const [runtime, choice] of choices) {
    if (names.length > 0 && !names.includes(runtime)) continue
    if (choice === undefined || choice.file === basename(to)) continue
    const used = choice.file === undefined ? `no file: ${choice.reason}` : `${choice.file}, not ${basename(to)}`
    const cure = cureOf(dirname(to), choice.file ?? choice.stoppedBy)
    found.push(
      findingIn(file, { id: 'sorted-later', severity: 'error', message: `${runtime} would use ${used}`, cure }),
    )
  }
  return found
}

/** `other`: the file that is in the way. */
function cureOf(confDir: string, other: string | undefined): string | undefined {
  if (other === undefined) return undefined
  const path = `${confDir}/${other}`
  if (!readInstalled().includes(path)) return `remove the pods of that network, then ${path}`
  return `an earlier install wrote ${path}: call the new file ${other} to replace it, or remove the old one`
}

function isWritable(directory: string): boolean {
  return refusalOf(directory) === undefined
}

/** The error code of writing into a directory, or into the one that it would be made in. */
function refusalOf(directory: string): string | undefined {
  if (!existsSync(directory) && directory !== '/') return refusalOf(dirname(directory))
  try {
    accessSync(directory, constants.W_OK)
    return undefined
  } catch (error) {
    return (error as NodeJS.ErrnoException).code
  }
}

function requireWritable(directory: string): void {
  const code = refusalOf(directory)
  if (code === undefined) return
  throw failureOf(
    'install-not-possible',
    `install: ${directory} cannot be written to: ${code === 'EROFS' ? 'it is read-only' : code}`,
  )
}

const trialTimeoutMs = 60_000

/** The executable is whole and has answered before its name is there, and the configuration comes last. */
async function write(place: Place, text: string, onWritten: (file: string) => void): Promise<void> {
  const { binDir, program, loopback, configuration } = place
  try {
    // A minimal host also gets libraries. What was there with the same bytes is not ours.
    const note = (file: string) => {
      writeInstalled([...readInstalled(), file])
      onWritten(file)
    }
    const installed = (_: string, file: string) => note(file)
    const run = runnerUntil({ endsAtMs: nowMs() + trialTimeoutMs })
    const refused = program && (await settleProgram({ binDir, hostRoot: '', installed }, run))
    if (refused) throw new Error(`${binDir}: this executable cannot run there: ${refused}`)
    if (loopback !== undefined) {
      note(loopback)
      symlinkSync('trestle', loopback)
    }
    if (configuration === undefined || textIfThere(configuration) === text) return
    note(configuration)
    mkdirSync(dirname(configuration), { recursive: true, mode: 0o755 })
    writeSynced(configuration, text)
  } catch (cause) {
    throw failureOf('install-not-possible', `install: ${(cause as Error).message}`, { cause })
  }
}

interface Report {
  readonly places: readonly Place[]
  readonly findings: readonly Finding[]
  readonly isRefused: boolean
  readonly isDone: boolean
  readonly written: ReadonlySet<string>
  readonly hasRuntime: boolean
}

function report(input: Input, { places, findings, isRefused, isDone, written, hasRuntime }: Report): number {
  const files = places.flatMap((place) =>
    [place.program, place.loopback, place.configuration].filter((file) => file !== undefined),
  )
  const lines = findings.map((finding) => findingText(finding, input.output))
  if (!hasRuntime) lines.push('no runtime answers on this node: these are the usual directories\n')
  if (isRefused) {
    lines.push('nothing was written\n')
  } else {
    if (files.length === 0) lines.push('this executable is where the runtime looks for it\n')
    for (const file of files) {
      const done = written.has(file) ? 'written ' : 'the same'
      lines.push(`  ${isDone ? done : 'to write'}  ${file}\n`)
    }
    for (const { prediction, names } of places) if (prediction !== undefined) lines.push(choicesText(prediction, names))
  }
  const document = { applied: isDone, files, findings }
  const code = isRefused ? exitCode.findings : exitCode.fine
  return print(input, { command: 'install', document, text: lines.join(''), code })
}
