// SPDX-License-Identifier: Apache-2.0
// The programs of `type` and `ipam.type`: whether they exist, can be started, and speak the cniVersion. They are
// started for VERSION only, which changes nothing (CNI spec 1.1.0, section 2).

import { spawnSync } from 'node:child_process'
import { accessSync, closeSync, constants, openSync, readdirSync, readSync, realpathSync, statSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { isSea } from 'node:sea'
import { isPluginType } from '../../cni/config-head.ts'
import { parseObject } from '../../cni/json.ts'
import type { ObservedLink } from '../../kernel/observed.ts'
import { orElse } from '../if-there.ts'
import { nearestWord } from '../nearest-word.ts'
import { isOwnType } from '../own-type.ts'
import { type Found, shown } from './finding.ts'

const versionTimeoutMs = 5000

type Problem = Pick<Found, 'id' | 'message' | 'cure'>

/** Plugins below the directories of CNI_PATH; each program is examined once. */
export interface Programs {
  readonly hasDirectory: boolean
  /** If no directory exists: their names, and directories that have plugins instead. */
  readonly absence?: Pick<Found, 'message' | 'cure'>
  /** The problem of a program with a configuration of this version. */
  readonly problemOf: (type: string, version: string | undefined) => Problem | undefined
  /** The links of the node, if they are to be compared with the file. */
  readonly host?: () => ReadonlyMap<string, ObservedLink> | undefined
  /** Whether a plugin of this type is trestle: by its name, or because the file is this executable or a link to it. */
  readonly isOwn: (type: string) => boolean
}

/** `others`: directories of packages, which a runtime does not search. */
export function openPrograms(directories: readonly string[], others: readonly string[] = []): Programs {
  const hasDirectory = directories.some((directory) => namesIn(directory) !== undefined)
  const known = new Map<string, Program>()
  const programOf = (type: string): Program => {
    const program = known.get(type) ?? lookAt(type, directories, others)
    known.set(type, program)
    return program
  }
  return {
    hasDirectory,
    ...(hasDirectory ? {} : { absence: absenceOf(directories, others) }),
    isOwn: (type) => isOwnType(type) || isCopy(fileOf(type, directories)),
    problemOf: (type, version) => {
      const { problem, versions } = programOf(type)
      if (problem !== undefined || version === undefined || versions.includes(version)) return problem
      const message = `the plugin ${shown(type)} does not support cniVersion ${version}`
      return { id: 'plugin-version', message, cure: `use one that it supports: ${versions.map(shown).join(', ')}` }
    },
  }
}

interface Program {
  readonly problem?: Problem
  readonly versions: readonly string[]
}

function lookAt(type: string, directories: readonly string[], others: readonly string[]): Program {
  const found = fileOf(type, directories)
  if (found === undefined) return { problem: missing(type, directories, others), versions: [] }
  const problem = startProblem(found)
  if (problem !== undefined) return { problem, versions: [] }
  return versionsOf(found)
}

function fileOf(type: string, directories: readonly string[]): string | undefined {
  return isPluginType(type) ? directories.map((directory) => join(directory, type)).find(exists) : undefined
}

function absenceOf(directories: readonly string[], others: readonly string[]): Pick<Found, 'message' | 'cure'> {
  const [directory = ''] = directories
  const other = others.find((each) => (namesIn(each) ?? []).length > 0)
  const message = `${directories.join(', ')} ${directories.length === 1 ? 'is' : 'are'} not there`
  if (other === undefined) return { message, cure: undefined }
  return { message: `${message}; there are plugins in ${other}`, cure: linkCure(other, directory) }
}

function linkCure(from: string, to: string): string {
  return `ln -s ${from} ${to} (or let the runtime look there: bin_dirs of containerd, plugin_dirs of CRI-O)`
}

function missing(type: string, directories: readonly string[], others: readonly string[]): Problem {
  const names = directories.flatMap((directory) => namesIn(directory) ?? [])
  if (names.includes(type)) {
    return { id: 'plugin-missing', message: `the plugin ${shown(type)} is a link to nothing`, cure: 'install it' }
  }
  const message = `there is no plugin ${shown(type)} in ${directories.join(', ')}`
  const elsewhere = fileOf(type, others)
  if (elsewhere !== undefined) {
    const cure = linkCure(elsewhere, `${directories[0]}/`)
    return { id: 'plugin-missing', message: `${message}; it is in ${dirname(elsewhere)}`, cure }
  }
  const meant = nearestWord(type, names)
  if (meant === undefined) return { id: 'plugin-missing', message, cure: undefined }
  return { id: 'plugin-missing', message: `${message}; did you mean "${meant}"?`, cure: `write "type": "${meant}"` }
}

/** This executable, or a link to it. */
function isCopy(file: string | undefined): boolean {
  if (file === undefined) return false
  return isOwnType(basename(realpathSync(file))) || (isSea() && statSync(file).size === statSync(process.execPath).size)
}

function startProblem(file: string): Problem | undefined {
  const stat = statSync(file)
  if (!stat.isFile())
    return { id: 'plugin-not-executable', message: `${file} is no regular file`, cure: 'install the plugin' }
  if ((stat.mode & 0o111) === 0)
    return { id: 'plugin-not-executable', message: `${file} has no x in its mode`, cure: `chmod 755 ${file}` }
  if (!mayRun(file)) {
    const cure = 'mount the file system without noexec, or install the plugin elsewhere'
    return { id: 'plugin-not-executable', message: `${file} may not be started from its file system`, cure }
  }
  const { problem, interpreter } = formatProblem(readHead(file), process.arch)
  if (problem !== undefined) return { id: 'plugin-wrong-format', message: `${file}: ${problem}`, cure: undefined }
  if (interpreter === undefined || mayRun(interpreter)) return undefined
  const message = `${file} is a script for ${shown(interpreter)}, which cannot be started`
  return { id: 'plugin-wrong-format', message, cure: 'install the interpreter, or correct the first line' }
}

function versionsOf(file: string): Program {
  const { status, stdout, error } = spawnSync(file, [], {
    env: { CNI_COMMAND: 'VERSION', CNI_PATH: '', PATH: process.env['PATH'] ?? '', LC_ALL: 'C' },
    input: '{"cniVersion":"1.1.0"}',
    encoding: 'utf8',
    timeout: versionTimeoutMs,
    maxBuffer: 1024 * 1024,
    killSignal: 'SIGKILL',
  })
  const versions = status === 0 ? supportedIn(stdout) : undefined
  if (versions !== undefined) return { versions }
  const why = status === null ? (error?.message ?? 'it was killed') : `status ${status}, no list of versions`
  const message = `${file} does not answer VERSION: ${why}`
  return { problem: { id: 'plugin-version', message, cure: undefined }, versions: [] }
}

function supportedIn(stdout: string): readonly string[] | undefined {
  const versions = parseObject(stdout)?.['supportedVersions']
  return Array.isArray(versions) ? versions.filter((each) => typeof each === 'string') : undefined
}

function namesIn(directory: string): readonly string[] | undefined {
  return orElse(() => readdirSync(directory), undefined)
}

function exists(file: string): boolean {
  return statSync(file, { throwIfNoEntry: false }) !== undefined
}

/** access(2) fails on a file system mounted noexec, too. */
function mayRun(file: string): boolean {
  try {
    accessSync(file, constants.X_OK)
    return true
  } catch {
    return false
  }
}

function readHead(file: string): Buffer {
  const fd = openSync(file, 'r')
  try {
    const head = Buffer.alloc(256)
    return head.subarray(0, readSync(fd, head, 0, head.length, 0))
  } finally {
    closeSync(fd)
  }
}

// Whether this machine can start a file: by the head of an ELF file (elf.h, elf(5)), or by a script's #!.

/** Node's names of architectures by e_machine. */
const machines: Readonly<Record<number, string>> = {
  3: 'ia32',
  21: 'ppc64',
  22: 's390x',
  40: 'arm',
  62: 'x64',
  183: 'arm64',
  243: 'riscv64',
  258: 'loong64',
}

/** Kernels that also run programs for a smaller machine. */
const alsoRuns: Readonly<Record<string, string>> = { x64: 'ia32', arm64: 'arm' }

/**
 * The reason if the kernel cannot start a file with this head. `architecture`: Node's process.arch. The caller
 * examines a script's interpreter.
 */
export function formatProblem(
  head: Buffer,
  architecture: string,
): { readonly problem?: string; readonly interpreter?: string } {
  if (head.length === 0) return { problem: 'it is empty' }
  if (head.subarray(0, 2).toString('latin1') === '#!') return { interpreter: interpreterOf(head) }
  if (head.subarray(0, 4).toString('latin1') !== '\x7fELF') {
    return { problem: 'it is neither a program (ELF) nor a script (no #! in its first line)' }
  }
  if (head.length < 20) return { problem: 'it is cut short' }
  const machine = head[5] === 1 ? head.readUInt16LE(18) : head.readUInt16BE(18)
  const name = machines[machine] ?? `machine ${machine}`
  if (name === architecture || name === alsoRuns[architecture]) return {}
  return { problem: `it is for ${name}, and this machine is ${architecture}` }
}

function interpreterOf(head: Buffer): string {
  return head.toString('utf8', 2).split('\n')[0]?.trim().split(/\s/)[0] ?? ''
}
