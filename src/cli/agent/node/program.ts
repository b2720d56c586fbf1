// SPDX-License-Identifier: Apache-2.0
// The executable where the runtime looks for it. It is tried on the host before it takes the old one's place: the
// agent's container has libraries that the host may lack, and a host may be no place for it at all.

import {
  chmodSync,
  closeSync,
  constants,
  copyFileSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
} from 'node:fs'
import { basename } from 'node:path'
import { oneLine } from '../../../cni/model/error.ts'
import { ownerMark } from '../../../system/files/files.ts'
import { pathWithTools, type Run } from '../../../system/process/runner.ts'
import { sweepTemporaries } from '../../../system/store/sweep.ts'
import { isSameFile, knowSame, marksOf } from './same-file.ts'

/**
 * What hosts with little more than glibc lack (ldd of the executable). They may stand beside it: its DT_RUNPATH is
 * $ORIGIN.
 */
const libraryNames = ['libstdc++.so.6', 'libgcc_s.so.1', 'libatomic.so.1']

/**
 * `binDir`: the host's directory as the agent sees it. `hostRoot`: the host's root, empty where it is the agent's own.
 */
export interface ProgramPlace {
  readonly binDir: string
  readonly hostRoot: string
  readonly own: string
  readonly run: Run
}

/**
 * `changed`: files that were put there. `refused`: why the host cannot run the executable; then nothing has taken its
 * place.
 */
export interface SettledProgram {
  readonly changed: readonly string[]
  readonly refused?: string
}

/** The files that the host was seen to run, by their marks; and what it last refused, and when (performance.now()). */
let proven: { readonly files: readonly string[]; readonly marks: string } | undefined
let refusal: { readonly marks: string; readonly text: string; readonly atMs: number } | undefined

/** A host that refused is asked again after this time: a copy of 120 MB is much for each round. */
const againMs = 60_000

/**
 * Puts `own` at `binDir`/trestle, with the libraries that the host lacks, where it is not there. Throws the system's
 * error.
 */
export async function settleProgram(place: ProgramPlace): Promise<SettledProgram> {
  const { binDir, own } = place
  const program = `${binDir}/trestle`
  const isSame = isSameFile(program, own)
  if (isSame && proven !== undefined && safeMarks(proven.files) === proven.marks) return { changed: [] }
  if (refusal?.marks === marksOf(own) && performance.now() - refusal.atMs < againMs)
    return { changed: [], refused: refusal.text }
  mkdirSync(binDir, { recursive: true, mode: 0o755 })
  // A killed agent's copy is as large as the executable.
  sweepTemporaries(binDir)
  const file = isSame ? program : `${binDir}/.trestle.${ownerMark()}.0`
  try {
    if (!isSame) copyWhole(own, file, 0o755)
    const { refused, libraries } = await proveOnHost(place, file)
    if (refused !== undefined) {
      refusal = { marks: marksOf(own), text: refused, atMs: performance.now() }
      return { changed: libraries, refused }
    }
    if (!isSame) renameSync(file, program)
    knowSame(program, own)
    const files = [program, ...libraryNames.map((name) => `${binDir}/${name}`).filter((each) => existsSync(each))]
    proven = { files, marks: marksOf(...files) }
    return { changed: [...libraries, ...(isSame ? [] : [program])] }
  } finally {
    if (!isSame) rmSync(file, { force: true })
  }
}

/**
 * Removes what settleProgram() put there; a library only where it is the agent's own. Returns the files that it
 * removed.
 */
export function removeProgram({ binDir }: Pick<ProgramPlace, 'binDir'>): readonly string[] {
  const libraries = ownLibraries().flatMap(({ name, file }) => {
    return isSameFile(`${binDir}/${name}`, file, constants.R_OK) ? [`${binDir}/${name}`] : []
  })
  const files = [`${binDir}/trestle`, ...libraries].filter((file) => existsSync(file))
  for (const file of files) rmSync(file)
  return files
}

/**
 * Runs the file on the host, and once more with libraries where it lacks some: `refused` is what it said in the end.
 */
async function proveOnHost(
  place: ProgramPlace,
  file: string,
): Promise<{ readonly refused?: string; readonly libraries: readonly string[] }> {
  const first = await tryOnHost(place, file, false)
  if (first === undefined) return { libraries: [] }
  if (!/loading shared libraries/.test(first)) return { refused: first, libraries: [] }
  const libraries = placeLibraries(place.binDir)
  // The host may know this directory by another path than the container: then $ORIGIN is not seen from here.
  const refused = await tryOnHost(place, file, true)
  return { libraries, ...(refused === undefined ? {} : { refused }) }
}

/**
 * Starts the file with the host's root as its own; `isBeside`: with the libraries there. Returns what it said where it
 * did not run.
 */
async function tryOnHost(
  { run, binDir, hostRoot }: ProgramPlace,
  file: string,
  isBeside: boolean,
): Promise<string | undefined> {
  const words = ['version']
  // By its directory, which need not have the same path on the host.
  const onHost = [`--root=${hostRoot}`, `--wd=${binDir}`, '--', `./${basename(file)}`, ...words]
  const libraries = hostRoot === '' ? binDir : '.'
  const env = { PATH: pathWithTools(), LC_ALL: 'C', ...(isBeside ? { LD_LIBRARY_PATH: libraries } : {}) }
  const { code, stdout, stderr, signal } =
    hostRoot === '' ? await run({ file, args: words, env }) : await run({ file: 'nsenter', args: onHost, env })
  if (code === 0 && stdout.startsWith('trestle ')) return undefined
  return oneLine(stderr) || oneLine(stdout) || `it ended with ${signal ?? code}`
}

/** Puts the libraries that this process itself uses beside the executable. Returns the files that were not there. */
function placeLibraries(binDir: string): readonly string[] {
  return ownLibraries().flatMap(({ name, file }) => {
    const to = `${binDir}/${name}`
    if (isSameFile(to, file, constants.R_OK)) return []
    const temporary = `${binDir}/.${name}.${ownerMark()}.0`
    try {
      copyWhole(file, temporary, 0o644)
      renameSync(temporary, to)
    } finally {
      rmSync(temporary, { force: true })
    }
    return [to]
  })
}

/** Where this process has its libraries from (proc(5), /proc/pid/maps): the path is the rest of the line. */
function ownLibraries(): readonly { readonly name: string; readonly file: string }[] {
  const maps = readFileSync('/proc/self/maps', 'latin1')
  return libraryNames.flatMap((name) => {
    const file = maps.match(/\/.*$/gm)?.find((path) => basename(path).startsWith(name))
    return file === undefined ? [] : [{ name, file }]
  })
}

function copyWhole(from: string, to: string, mode: number): void {
  copyFileSync(from, to)
  chmodSync(to, mode)
  const fd = openSync(to, 'r')
  fsyncSync(fd)
  closeSync(fd)
}

function safeMarks(files: readonly string[]): string | undefined {
  try {
    return marksOf(...files)
  } catch {
    return undefined
  }
}
