// SPDX-License-Identifier: Apache-2.0
// Programs of the host: the agent's own executable, which it puts where the runtime looks for it, and the tools that it
// takes from there.

import { createHash } from 'node:crypto'
import { createReadStream, existsSync, readFileSync, statSync } from 'node:fs'
import { copyFile, mkdir, open, rename, rm } from 'node:fs/promises'
import { basename } from 'node:path'
import { isSea } from 'node:sea'
import { oneLine } from '../cni/errors.ts'
import type { WrapRun } from '../process/machine.ts'
import { isExecutable, type Run, toolPath } from '../process/runner.ts'
import { sweepTemporaryFiles, temporaryPath } from '../state/files.ts'
import type { Settings } from './settings.ts'

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

/** `installed` hears of each file that was written. */
interface Place extends Pick<Settings, 'binDir' | 'hostRoot'> {
  readonly installed?: (what: 'executable' | 'library', file: string) => void
}

/** The marks of all files when they were seen to be right; the last refusal, its mark, and its time (performance.now()). */
let settled: string | undefined
let refusal: { readonly mark: string; readonly text: string; readonly atMs: number } | undefined

/** Time until the next trial after a refusal, because each trial copies 120 MB. */
const againMs = 60_000

/**
 * Puts this executable, and libraries that the host lacks, where the runtime looks for them. Returns why the host cannot run
 * it; then the former one stays. Throws the system's error.
 */
export async function settleProgram(place: Place, run: Run): Promise<string | undefined> {
  const { binDir } = place
  const [own, program] = [process.execPath, `${binDir}/trestle`]
  // An unpacked agent, in development, has no executable to install.
  if (!isSea() || own === program) return undefined
  const marks = () => [own, program, ...libraryNames.map((name) => `${binDir}/${name}`)].map(markOf).join(', ')
  if (marks() === settled) return undefined
  if (refusal?.mark === markOf(own) && performance.now() - refusal.atMs < againMs) return refusal.text
  await mkdir(binDir, { recursive: true, mode: 0o755 })
  // A node has one agent: what a killed one left is as large as the executable.
  sweepTemporaryFiles(binDir, 0)
  const isSame = isExecutable(program) && (await haveSameBytes(program, own))
  const file = isSame ? program : temporaryPath(program)
  try {
    if (!isSame) await copyWhole(own, file, 0o755)
    const refused = await proveOnHost(place, run, file)
    if (refused !== undefined) {
      refusal = { mark: markOf(own), text: refused, atMs: performance.now() }
      return refused
    }
    if (!isSame) {
      await rename(file, program)
      place.installed?.('executable', program)
    }
    settled = marks()
    return undefined
  } finally {
    if (!isSame) await rm(file, { force: true })
  }
}

/** Removes the files of settleProgram(), a library only if its bytes are the agent's. Returns the removed files. */
export async function removeProgram({ binDir }: Place): Promise<readonly string[]> {
  const files = existsSync(`${binDir}/trestle`) ? [`${binDir}/trestle`] : []
  for (const { name, file } of ownLibraries())
    if (await haveSameBytes(`${binDir}/${name}`, file)) files.push(`${binDir}/${name}`)
  for (const file of files) await rm(file)
  return files
}

/** Runs the file on the host, and again with libraries if the host lacks some. Returns what a failure printed. */
async function proveOnHost(place: Place, run: Run, file: string): Promise<string | undefined> {
  const refused = await tryOnHost(place, run, file)
  if (refused === undefined || !/loading shared libraries/.test(refused)) return refused
  for (const library of ownLibraries()) {
    const to = `${place.binDir}/${library.name}`
    if (await haveSameBytes(to, library.file)) continue
    const temporary = temporaryPath(to)
    await copyWhole(library.file, temporary, 0o644)
    await rename(temporary, to)
    place.installed?.('library', to)
  }
  // The directory may have another path on the host than in the container, which $ORIGIN then names.
  return await tryOnHost(place, run, file, place.hostRoot === '' ? place.binDir : '.')
}

/** Starts the file under the host's root, with the libraries of a directory. Returns what a failure printed. */
async function tryOnHost({ binDir, hostRoot }: Place, run: Run, file: string, libraries?: string) {
  // A relative path, because the directory may have another path on the host.
  const onHost = [`--root=${hostRoot}`, `--wd=${binDir}`, '--', `./${basename(file)}`, 'version']
  const env = { PATH: toolPath(), LC_ALL: 'C', ...(libraries === undefined ? {} : { LD_LIBRARY_PATH: libraries }) }
  const command = hostRoot === '' ? { file, args: ['version'], env } : { file: 'nsenter', args: onHost, env }
  const { code, stdout, stderr, signal } = await run(command)
  if (code === 0 && stdout.startsWith('trestle ')) return undefined
  return oneLine(stderr) || oneLine(stdout) || `it ended with ${signal ?? code}`
}

/** The files of this process's libraries (proc(5), /proc/pid/maps: the path is the rest of the line). */
function ownLibraries(): readonly { readonly name: string; readonly file: string }[] {
  const maps = readFileSync('/proc/self/maps', 'latin1')
  return libraryNames.flatMap((name) => {
    const file = maps.match(/\/.*$/gm)?.find((path) => basename(path).startsWith(name))
    return file === undefined ? [] : [{ name, file }]
  })
}

async function copyWhole(from: string, to: string, mode: number): Promise<void> {
  await copyFile(from, to)
  const handle = await open(to, 'r')
  await handle.chmod(mode)
  await handle.sync()
  await handle.close()
}

/** Changes with the file. */
function markOf(file: string): string {
  const { dev, ino, size, mtimeMs, ctimeMs } = statSync(file, { throwIfNoEntry: false }) ?? {}
  return [dev, ino, size, mtimeMs, ctimeMs].join(' ')
}

/** Whether both are there, and alike. */
async function haveSameBytes(a: string, b: string): Promise<boolean> {
  const [size, other] = [a, b].map((file) => statSync(file, { throwIfNoEntry: false })?.size)
  return size !== undefined && size === other && (await digestOf(a)) === (await digestOf(b))
}

/** In chunks: the whole file would exceed the rest of the agent's memory. */
async function digestOf(file: string): Promise<string> {
  const hash = createHash('sha256')
  for await (const chunk of createReadStream(file)) hash.update(chunk)
  return hash.digest('hex')
}
