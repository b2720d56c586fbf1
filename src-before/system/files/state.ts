// SPDX-License-Identifier: Apache-2.0
// Where the state is, and that nobody else can write there. docs/design.md, "State", has each file of it.

import { accessSync, constants, lstatSync, readlinkSync, renameSync, type Stats, statfsSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { CniError, oneLine } from '../../cni/error.ts'
import { networkDirName } from '../../model/names.ts'
import { makeDirectory, type NamesIn, namesIn, readText } from './files.ts'

/** The state directory; moved by an environment variable in tests only. */
export function stateRoot(): string {
  return process.env['TRESTLE_STATE_DIR'] || '/run/trestle'
}

/** The files of one network. */
export interface NetworkFiles {
  readonly directory: string
  readonly network: string
  readonly lock: string
  readonly settleLock: string
  readonly locks: string
  readonly pending: string
  readonly attachments: string
  readonly addresses: string
  readonly cooling: string
}

/** The paths of a network's state; nothing is made. */
export function networkFiles(name: string, root = stateRoot()): NetworkFiles {
  const directory = `${root}/networks/${networkDirName(name)}`
  return {
    directory,
    network: `${directory}/network.json`,
    lock: `${directory}/lock`,
    settleLock: `${directory}/settle.lock`,
    locks: `${directory}/locks`,
    pending: `${directory}/pending`,
    attachments: `${directory}/attachments`,
    addresses: `${directory}/addresses`,
    cooling: `${directory}/cooling`,
  }
}

/** The name of a network's directory: `networkFiles` takes it, as the network's own name. */
export function directoryNameOf({ directory }: NetworkFiles): string {
  return directory.slice(directory.lastIndexOf('/') + 1)
}

/** The same with what the chained attachments of the network share in place of what the main ones do. */
export function chainedFiles(files: NetworkFiles): NetworkFiles {
  return { ...files, network: `${files.directory}/chained.json` }
}

/** The directories of all networks with state. `names`: where they have been looked at. */
export function networkDirectories(root = stateRoot(), names: NamesIn = namesIn): readonly NetworkFiles[] {
  return names(`${root}/networks`).map((name) => networkFilesAt(`${root}/networks/${name}`))
}

/** The same, and beside each its chained part: everything that a `NetworkSpec` is written down for. */
export function networkParts(): readonly NetworkFiles[] {
  return networkDirectories().flatMap((files) => [files, chainedFiles(files)])
}

/**
 * Makes the state directory when it is missing. Throws CniError 5 when it, or a directory in it that this call uses,
 * is not a directory of ours alone: whoever can write there decides which addresses and links we remove, and a link
 * would lead our writing elsewhere. `network`: the one that the call is about; without it all are looked at. The error
 * says what was found: owner and mode, or where the link leads.
 */
export function requireState(network?: string): void {
  const root = stateRoot()
  try {
    makeDirectory(root)
  } catch (error) {
    // A link that leads nowhere, say: mkdir(2) tells EEXIST or ENOENT of it.
    requireOurs(root)
    throw unusable(root, (error as Error).message, error)
  }
  const shared = ['', '/networks', '/ports', '/localnet', '/damaged'].map((name) => `${root}${name}`)
  for (const directory of shared) requireOurs(directory)
  const networks = network === undefined ? networkDirectories(root) : [networkFiles(network, root)]
  for (const { directory, pending, attachments, addresses, cooling, locks } of networks) {
    for (const each of [directory, pending, attachments, addresses, cooling, locks]) requireOurs(each)
  }
}

/** The same of a state directory that is there, for who only looks: none is made. Returns whether it is there. */
export function requireStateIfThere(): boolean {
  const isThere = lstatSync(stateRoot(), { throwIfNoEntry: false }) !== undefined
  if (isThere) requireState()
  return isThere
}

/** One that is not there yet is nobody's; a file in the place of an inner one is damage, and would be met for ever. */
function requireOurs(directory: string): void {
  const stat = lstatSync(directory, { throwIfNoEntry: false })
  if (stat === undefined) return
  if (stat.isFile() && directory !== stateRoot()) {
    setAside(directory)
    return
  }
  const isOurs = stat.isDirectory() && stat.uid === process.geteuid?.() && (stat.mode & 0o022) === 0
  if (isOurs) return
  throw unusable(directory, `it has to be a directory of root, mode 755 or stricter, and ${found(directory, stat)}`)
}

/** What is there in place of a directory of ours, and what to do about it. */
function found(path: string, stat: Stats): string {
  if (stat.isSymbolicLink()) return `it is a symbolic link to ${oneLine(readlinkSync(path))}; remove the link`
  if (!stat.isDirectory()) return `it is ${stat.isFile() ? 'a file' : 'a pipe, a socket or a device'}; remove it`
  const euid = process.geteuid?.()
  const is = `it is owned by uid ${stat.uid} and has mode ${(stat.mode & 0o7777).toString(8)}`
  if (euid !== 0) return `${is}, and trestle runs as uid ${euid}; run it as root`
  return `${is}; when nobody has changed what is in it, run chown root ${path}; chmod 700 ${path}`
}

/**
 * For STATUS: throws CniError 5 as `requireState` does, and when nothing can be written to the state directory:
 * read-only or full. One that is not there yet is not made: the directory that it would be made in is looked at.
 */
export function requireUsableState(network: string): void {
  const root = stateRoot()
  if (lstatSync(root, { throwIfNoEntry: false }) !== undefined) requireState(network)
  requireRoom(nearest(root))
}

/** The directory itself, or the nearest one above it that is there. */
function nearest(directory: string): string {
  const stat = statSync(directory, { throwIfNoEntry: false })
  if (stat === undefined && dirname(directory) !== directory) return nearest(dirname(directory))
  if (stat?.isDirectory() === true) return directory
  throw unusable(directory, 'it is in the place of a directory of the state; remove it')
}

function requireRoom(root: string): void {
  try {
    accessSync(root, constants.W_OK)
  } catch (error) {
    throw unusable(root, (error as Error).message, error)
  }
  const { bavail, files, ffree } = statfsSync(root)
  // A file system without a count of inodes says 0 of 0.
  if (bavail === 0 || (files > 0 && ffree === 0)) throw unusable(root, 'its file system is full')
}

/** What a file of the state holds; one that cannot be read is set aside, never fatal (docs/design.md, "State"). */
export function readState<T>(file: string, decode: (text: string) => T | undefined): T | undefined {
  const found = readText(file)
  if (found === undefined) return undefined
  const value = found === 'unreadable' ? undefined : decode(found.text)
  if (value === undefined) setAside(file)
  return value
}

/** Moves a file that cannot be read out of the way, for `doctor` to show; never throws. */
export function setAside(path: string): void {
  try {
    makeDirectory(`${stateRoot()}/damaged`)
    renameSync(path, `${stateRoot()}/damaged/${asideName(path)}.${Date.now()}`)
  } catch {
    // Reported by whoever found it unreadable; it stays where it is.
  }
}

export function asideCopies(path: string): readonly string[] {
  return asideOf(path, /^\.\d+$/)
}

export function asideBelow(directory: string): readonly string[] {
  return asideOf(directory, /^_.+\.\d+$/)
}

function asideOf(path: string, rest: RegExp): readonly string[] {
  const beginning = asideName(path)
  return namesIn(`${stateRoot()}/damaged`)
    .filter((name) => name.startsWith(beginning) && rest.test(name.slice(beginning.length)))
    .map((name) => `${stateRoot()}/damaged/${name}`)
}

/** Its place in the state directory; `.` and the time follow. */
function asideName(path: string): string {
  return path.slice(stateRoot().length + 1).replaceAll('/', '_')
}

function networkFilesAt(directory: string): NetworkFiles {
  const [root, name] = [
    directory.slice(0, directory.lastIndexOf('/networks/')),
    directory.slice(directory.lastIndexOf('/') + 1),
  ]
  return networkFiles(name, root)
}

function unusable(root: string, why: string, cause?: unknown): CniError {
  return new CniError('state-unusable', `the state directory ${root} cannot be used`, {
    details: `${why}; trestle keeps reservations there and does not work without it`,
    cause,
  })
}
