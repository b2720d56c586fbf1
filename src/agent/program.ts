// SPDX-License-Identifier: Apache-2.0
// Programs of the host: the agent's own executable, which it puts where the runtime looks for it, and the tools that it
// takes from there.

import {
  chmodSync,
  closeSync,
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
import { oneLine } from '../cni/errors.ts'
import type { WrapRun } from '../process/machine.ts'
import { isExecutable, type Run, toolPath } from '../process/runner.ts'
import { sweepTemporaryFiles, temporaryPath } from '../state/files.ts'

/** A table that one version of nft made another one may misread (kept apart from ip, whose version is nobody's business). */
const sharedNames = /^(nft|ip6?tables(-[a-z]+)*)$/

const directories = ['/usr/local/sbin', '/usr/local/bin', '/usr/sbin', '/usr/bin', '/sbin', '/bin']

/** Whether the host has a program. `hostRoot`: empty without a container, where our own PATH counts, too. */
export function isOnHost(name: string, hostRoot: string): boolean {
  const own = hostRoot === '' ? toolPath().split(':') : []
  return [...own, ...directories].some((directory) => isExecutable(`${hostRoot}${directory}/${name}`))
}

/** In a container nft and iptables are the host's, with the host's root as their own. */
export function onHost(hostRoot: string): WrapRun {
  return (run) => (command) => {
    const { file, args } = command
    if (hostRoot === '' || !sharedNames.test(file) || !isOnHost(file, hostRoot)) return run(command)
    return run({ ...command, file: 'nsenter', args: [`--root=${hostRoot}`, `--wd=${hostRoot}`, '--', file, ...args] })
  }
}

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

/** The marks of all files when they were seen to be right; the last refusal, its mark, and its time (performance.now()). */
let settled: string | undefined
let refusal: { readonly mark: string; readonly text: string; readonly atMs: number } | undefined

/** Time until the next trial after a refusal, because each trial copies 120 MB. */
const againMs = 60_000

/** Puts `own` and libraries that the host lacks into `binDir`, if they are not there. Throws the system's error. */
export async function settleProgram(place: ProgramPlace): Promise<SettledProgram> {
  const { binDir, own } = place
  const program = `${binDir}/trestle`
  const marks = () => [own, program, ...libraryNames.map((name) => `${binDir}/${name}`)].map(markOf).join(', ')
  if (marks() === settled) return { changed: [] }
  if (refusal?.mark === markOf(own) && performance.now() - refusal.atMs < againMs)
    return { changed: [], refused: refusal.text }
  mkdirSync(binDir, { recursive: true, mode: 0o755 })
  // Removes copies of killed agents, which are as large as the executable.
  sweepTemporaryFiles(binDir)
  const isSame = isExecutable(program) && haveSameBytes(program, own)
  const file = isSame ? program : temporaryPath(program)
  try {
    if (!isSame) copyWhole(own, file, 0o755)
    const { refused, libraries } = await proveOnHost(place, file)
    if (refused !== undefined) {
      refusal = { mark: markOf(own), text: refused, atMs: performance.now() }
      return { changed: libraries, refused }
    }
    if (!isSame) renameSync(file, program)
    settled = marks()
    return { changed: [...libraries, ...(isSame ? [] : [program])] }
  } finally {
    if (!isSame) rmSync(file, { force: true })
  }
}

/** Removes the files of settleProgram(), a library only if its bytes are the agent's. Returns the removed files. */
export function removeProgram({ binDir }: Pick<ProgramPlace, 'binDir'>): readonly string[] {
  const libraries = ownLibraries().flatMap(({ name, file }) => {
    return haveSameBytes(`${binDir}/${name}`, file) ? [`${binDir}/${name}`] : []
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
  const env = { PATH: toolPath(), LC_ALL: 'C', ...(isBeside ? { LD_LIBRARY_PATH: libraries } : {}) }
  const { code, stdout, stderr, signal } =
    hostRoot === '' ? await run({ file, args: words, env }) : await run({ file: 'nsenter', args: onHost, env })
  if (code === 0 && stdout.startsWith('trestle ')) return undefined
  return oneLine(stderr) || oneLine(stdout) || `it ended with ${signal ?? code}`
}

/** Puts this process's own libraries beside the executable. Returns the new files. */
function placeLibraries(binDir: string): readonly string[] {
  return ownLibraries().flatMap(({ name, file }) => {
    const to = `${binDir}/${name}`
    if (haveSameBytes(to, file)) return []
    const temporary = temporaryPath(to)
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

/** Changes with the file. */
function markOf(file: string): string {
  const { dev, ino, size, mtimeMs, ctimeMs } = statSync(file, { throwIfNoEntry: false }) ?? {}
  return [dev, ino, size, mtimeMs, ctimeMs].join(' ')
}

const blockBytes = 1024 * 1024

/** Reads block by block, since both whole files would exceed the rest of the agent's memory. */
function haveSameBytes(a: string, b: string): boolean {
  const [first, second] = [a, b].map((file) => statSync(file, { throwIfNoEntry: false })?.size)
  if (first === undefined || first !== second) return false
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
