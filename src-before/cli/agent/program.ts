// SPDX-License-Identifier: Apache-2.0
// Puts the executable into the runtime's directory. A trial on the host comes before the replacement, because the host
// may lack libraries of the agent's container, or may not run the executable at all.

import {
  accessSync,
  chmodSync,
  closeSync,
  constants,
  copyFileSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readFileSync,
  readSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs'
import { basename } from 'node:path'
import { oneLine, orElse } from '../../cni/error.ts'
import { ownerMark } from '../../system/files/files.ts'
import { pathWithTools } from '../../system/process/programs.ts'
import type { Run } from '../../system/process/runner.ts'
import { sweepTemporaries } from '../../system/store/sweep.ts'

/** Libraries of the executable that a minimal host lacks (ldd); DT_RUNPATH is $ORIGIN, so they may be beside it. */
const libraryNames = ['libstdc++.so.6', 'libgcc_s.so.1', 'libatomic.so.1']

/** `binDir`: the host's directory in the agent's mounts. `hostRoot`: the host's root, empty without a container. */
interface ProgramPlace {
  readonly binDir: string
  readonly hostRoot: string
  readonly own: string
  readonly run: Run
}

/** `changed`: new files. `refused`: the reason why the host cannot run the executable; then the former one stays. */
interface SettledProgram {
  readonly changed: readonly string[]
  readonly refused?: string
}

/** Files that ran on the host, by their marks; the last refusal and its time (performance.now()). */
let proven: { readonly files: readonly string[]; readonly marks: string } | undefined
let refusal: { readonly marks: string; readonly text: string; readonly atMs: number } | undefined

/** Time until the next trial after a refusal, because each trial copies 120 MB. */
const againMs = 60_000

/** Puts `own` and libraries that the host lacks into `binDir`, if they are not there. Throws the system's error. */
export async function settleProgram(place: ProgramPlace): Promise<SettledProgram> {
  const { binDir, own } = place
  const program = `${binDir}/trestle`
  const isSame = isSameFile(program, own)
  if (isSame && proven !== undefined && safeMarks(proven.files) === proven.marks) return { changed: [] }
  if (refusal?.marks === marksOf(own) && performance.now() - refusal.atMs < againMs)
    return { changed: [], refused: refusal.text }
  mkdirSync(binDir, { recursive: true, mode: 0o755 })
  // Removes copies of killed agents, which are as large as the executable.
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

/** Removes the files of settleProgram(), a library only if its bytes are the agent's. Returns the removed files. */
export function removeProgram({ binDir }: Pick<ProgramPlace, 'binDir'>): readonly string[] {
  const libraries = ownLibraries().flatMap(({ name, file }) => {
    return isSameFile(`${binDir}/${name}`, file, constants.R_OK) ? [`${binDir}/${name}`] : []
  })
  const files = [`${binDir}/trestle`, ...libraries].filter((file) => existsSync(file))
  for (const file of files) rmSync(file)
  return files
}

/**
 * Runs the file on the host, and again with libraries if the host lacks some. `refused`: output of the last failure.
 */
async function proveOnHost(
  place: ProgramPlace,
  file: string,
): Promise<{ readonly refused?: string; readonly libraries: readonly string[] }> {
  const first = await tryOnHost(place, file, false)
  if (first === undefined) return { libraries: [] }
  if (!/loading shared libraries/.test(first)) return { refused: first, libraries: [] }
  const libraries = placeLibraries(place.binDir)
  // The directory may have another path on the host than in the container, which $ORIGIN then names.
  const refused = await tryOnHost(place, file, true)
  return { libraries, ...(refused === undefined ? {} : { refused }) }
}

/** Starts the file under the host's root. `isBeside`: with the libraries beside it. Returns the output of a failure. */
async function tryOnHost(
  { run, binDir, hostRoot }: ProgramPlace,
  file: string,
  isBeside: boolean,
): Promise<string | undefined> {
  const words = ['version']
  // A relative path, because the directory may have another path on the host.
  const onHost = [`--root=${hostRoot}`, `--wd=${binDir}`, '--', `./${basename(file)}`, ...words]
  const libraries = hostRoot === '' ? binDir : '.'
  const env = { PATH: pathWithTools(), LC_ALL: 'C', ...(isBeside ? { LD_LIBRARY_PATH: libraries } : {}) }
  const { code, stdout, stderr, signal } =
    hostRoot === '' ? await run({ file, args: words, env }) : await run({ file: 'nsenter', args: onHost, env })
  if (code === 0 && stdout.startsWith('trestle ')) return undefined
  return oneLine(stderr) || oneLine(stdout) || `it ended with ${signal ?? code}`
}

/** Puts this process's own libraries beside the executable. Returns the new files. */
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

/** The files of this process's libraries (proc(5), /proc/pid/maps: the path is the rest of the line). */
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
  return orElse(() => marksOf(...files), undefined)
}

// Compares two files: reads them once, and then compares the file system's marks.

/** Pairs of equal files with their marks, which reveal a change without a read. */
const same = new Map<string, string>()

/** True if `file` equals `own` and allows `mode`. Reads both files only after a change. */
function isSameFile(file: string, own: string, mode = constants.X_OK): boolean {
  try {
    accessSync(file, mode)
    const marks = marksOf(file, own)
    if (same.get(file) === marks) return true
    if (statSync(file).size !== statSync(own).size || !haveSameBytes(file, own)) return false
    same.set(file, marks)
    return true
  } catch {
    return false
  }
}

/** Records a new copy of `own` as equal, without a read. Throws the system's error for a missing file. */
function knowSame(file: string, own: string): void {
  same.set(file, marksOf(file, own))
}

/** A text that changes with the files. Throws the system's error for a missing file. */
function marksOf(...files: readonly string[]): string {
  return files
    .map((file) => statSync(file))
    .map(({ dev, ino, size, mtimeMs, ctimeMs }) => [dev, ino, size, mtimeMs, ctimeMs].join(' '))
    .join(', ')
}

const blockBytes = 1024 * 1024

/** Reads block by block, since both whole files would exceed the rest of the agent's memory. */
function haveSameBytes(a: string, b: string): boolean {
  const fds = [a, b].map((file) => openSync(file, 'r'))
  const [one, other] = [Buffer.alloc(blockBytes), Buffer.alloc(blockBytes)]
  try {
    for (;;) {
      const [read = 0, alike = 0] = [readSync(fds[0] ?? -1, one), readSync(fds[1] ?? -1, other)]
      if (read !== alike || !one.subarray(0, read).equals(other.subarray(0, alike))) return false
      if (read === 0) return true
    }
  } finally {
    for (const fd of fds) closeSync(fd)
  }
}
