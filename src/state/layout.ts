// SPDX-License-Identifier: Apache-2.0
// Where the state is, file by file, and that nobody but root can write there.
//
//   /run/trestle/state                           the marker: without it the state was lost
//               /networks/NETWORK/attachments/KEY  finished attachments
//                                /pending/KEY      calls in progress, killed ones, and what could not be removed
//                                /addresses/IP     reservations: hard links to the intent record
//                                /locks/KEY        held while an attachment is torn down
//                                /last.ADDRESS     the address that a range set gave last, by the set's first address
//                                /network.json     what the main attachments share; chained.json: the chained ones
//               /ports/PROTOCOL:PORT:FAMILY:IP     host ports of all networks, reserved likewise
//               /accept.json                       the accepts in other firewalls
//               /cluster.json                      the cluster's ranges, written by the agent
//               /lock                              held while shared parts of the machine change
//               /damaged/                          files that could not be read
//               /call.…                            open in the processes of a call (process/killed-calls.ts)
//               /failures/, /records/              calls that are kept (recording/)

import { lstatSync, renameSync } from 'node:fs'
import { CniError, Code, oneLine } from '../cni/errors.ts'
import { shortId } from '../drivers/names.ts'
import type { AttachmentId } from '../drivers/spec.ts'
import { makeDirectory, namesIn, readText } from './files.ts'

/** The environment variable is for tests. */
export function stateRoot(): string {
  return process.env['TRESTLE_STATE_DIR'] || '/run/trestle'
}

export function markerFile(): string {
  return `${stateRoot()}/state`
}

export function machineLockFile(): string {
  return `${stateRoot()}/lock`
}

export function clusterFile(): string {
  return `${stateRoot()}/cluster.json`
}

export function portsDirectory(): string {
  return `${stateRoot()}/ports`
}

export function networkDirectory(network: string): string {
  return `${stateRoot()}/networks/${shortId(network)}`
}

export function addressesDirectory(network: string): string {
  return `${networkDirectory(network)}/addresses`
}

/** The name of an attachment's record, distinct for every one. */
export function recordName({ containerId, ifName, role }: AttachmentId): string {
  return `${shortId(containerId)}:${ifName}${role === 'main' ? '' : `:${role}`}`
}

export function finishedFile(id: AttachmentId): string {
  return `${networkDirectory(id.network)}/attachments/${recordName(id)}`
}

/** The intent record, to which reservations are links. */
export function pendingFile(id: AttachmentId): string {
  return `${networkDirectory(id.network)}/pending/${recordName(id)}`
}

export function attachmentLockFile(id: AttachmentId): string {
  return `${networkDirectory(id.network)}/locks/${recordName(id)}`
}

export function networkFile({ name, role }: { readonly name: string; readonly role: 'main' | 'chained' }): string {
  return `${networkDirectory(name)}/${role === 'main' ? 'network' : 'chained'}.json`
}

/** The directory names of all networks with state: `networkDirectory` takes them as names. */
export function networkNames(): readonly string[] {
  return namesIn(`${stateRoot()}/networks`).filter((name) => !name.startsWith('.'))
}

export const networkParts = ['', '/pending', '/attachments', '/addresses', '/locks']

/**
 * Makes the state directory. Throws CniError 5 where it, or a directory in it that this call uses, is not a directory
 * of root alone: whoever can write there decides which links and addresses trestle removes.
 */
export function requireState(network?: string): void {
  try {
    makeDirectory(stateRoot())
  } catch (cause) {
    requireOurs(stateRoot())
    throw unusable(stateRoot(), (cause as Error).message, cause)
  }
  requireStateIfThere(network)
}

/** The same without making anything; false where there is no state. */
export function requireStateIfThere(network?: string): boolean {
  const root = stateRoot()
  if (lstatSync(root, { throwIfNoEntry: false }) === undefined) return false
  for (const name of ['', '/networks', '/ports', '/damaged']) requireOurs(`${root}${name}`)
  const networks = network === undefined ? networkNames() : [network]
  for (const each of networks) for (const part of networkParts) requireOurs(`${networkDirectory(each)}${part}`)
  return true
}

/** One that is not there yet is nobody's; a file in an inner directory's place is damage and moved away. */
function requireOurs(directory: string): void {
  const stat = lstatSync(directory, { throwIfNoEntry: false })
  if (stat === undefined) return
  if (stat.isFile() && directory !== stateRoot()) {
    setAside(directory)
    return
  }
  if (stat.isDirectory() && stat.uid === process.geteuid?.() && (stat.mode & 0o022) === 0) return
  const owner = `owned by uid ${stat.uid} with mode ${(stat.mode & 0o7777).toString(8)}`
  const is = stat.isSymbolicLink() ? 'a symbolic link' : stat.isDirectory() ? owner : 'no directory'
  throw unusable(directory, `it has to be a directory of root that nobody else can write to, and is ${is}`)
}

function unusable(directory: string, why: string, cause?: unknown): CniError {
  return new CniError(Code.ioFailure, 'state-unusable', `the state directory ${directory} cannot be used: ${why}`, {
    details: `trestle acts as root on what it says: run as root, and remove it, or when nobody has changed it: chown root; chmod 700`,
    cause,
  })
}

/** The text of a file of ours. What cannot be read, a directory in its place, say, is set aside. */
export function readOwnText(path: string): string | undefined {
  const found = readText(path)
  if (found === 'unreadable') setAside(path)
  return found === 'unreadable' ? undefined : found?.text
}

/** Moves a file that cannot be read out of the way, for `doctor` to show. Never throws. */
export function setAside(path: string): void {
  try {
    const damaged = `${stateRoot()}/damaged`
    makeDirectory(damaged)
    const name = path.slice(stateRoot().length + 1).replaceAll('/', '_')
    renameSync(path, `${damaged}/_${name}.${Date.now()}`.slice(0, damaged.length + 250))
    process.stderr.write(`trestle: ${oneLine(path)} cannot be read and was moved to ${damaged}\n`)
  } catch {
    // It stays where it is, and is found again.
  }
}
