// SPDX-License-Identifier: Apache-2.0
// Addresses of a network and host ports of the node are reserved by link(2) of the intent record under their name: EEXIST
// means taken, no lock is held while one is chosen, and the file itself says whose it is. A reservation is given back
// only under the lock of the attachment that holds it.

import { CniError, Code } from '../cni/errors.ts'
import { type AttachmentId, type HostPort, sameId } from '../drivers/spec.ts'
import { isTaken, linkOnce, namesIn, readableText, removeFile } from './files.ts'
import { addressesDirectory, pendingFile, portsDirectory } from './layout.ts'
import { type AttachmentRecord, decodeRecord, describeRecord } from './records.ts'

/** Tears a dead holder down; false where it lives. */
export type SettleDead = (holder: AttachmentRecord) => Promise<boolean>

/** The record behind a reservation; undefined where there is none or it cannot be read. */
function holderOf(file: string): AttachmentRecord | undefined {
  return decodeRecord(readableText(file) ?? '')
}

export function addressHolder(network: string, address: string): AttachmentRecord | undefined {
  return holderOf(`${addressesDirectory(network)}/${address}`)
}

/** Every reserved address of the network, in canonical text. */
export function reservedAddresses(network: string): readonly string[] {
  return namesIn(addressesDirectory(network)).filter((name) => !name.startsWith('.'))
}

/** Reserves the address for the intent record of `id`; false where it is taken. */
export function reserveAddress(id: AttachmentId, address: string): boolean {
  return linkOnce(pendingFile(id), `${addressesDirectory(id.network)}/${address}`)
}

/** The same for an address that was asked for by name: a dead holder is torn down. */
export async function reserveNamedAddress(
  id: AttachmentId,
  address: string,
  settleDead: SettleDead,
): Promise<AttachmentRecord | 'reserved' | undefined> {
  if (reserveAddress(id, address)) return 'reserved'
  const holder = addressHolder(id.network, address)
  if (holder !== undefined && sameId(holder.id, id)) return 'reserved'
  if (holder !== undefined && (await settleDead(holder)) && reserveAddress(id, address)) return 'reserved'
  return holder
}

/** Whether the reservation of an address is the attachment's. */
export function holdsAddress(id: AttachmentId, address: string): boolean {
  return isHeldBy(id, `${addressesDirectory(id.network)}/${address}`)
}

/** Gives back what this call has reserved a moment ago. */
export function withdrawAddress(id: AttachmentId, address: string): void {
  removeFile(`${addressesDirectory(id.network)}/${address}`)
}

/** `tcp:8080:4:any`, the name of a port's reservation. */
export function portName({ protocol, hostPort, family, hostIp }: HostPort): string {
  return `${protocol}:${hostPort}:${family}:${hostIp ?? 'any'}`
}

/** The name without its address: names that differ here never conflict. */
function portOf(name: string): string {
  return name.split(':', 3).join(':')
}

/** An address is a part of "any". */
function isConflict(a: string, b: string): boolean {
  if (portOf(a) !== portOf(b)) return false
  const [one, other] = [a, b].map((name) => name.slice(portOf(name).length + 1))
  return one === other || one === 'any' || other === 'any'
}

/**
 * Reserves host ports for the intent record of `id`. Returns those that it has: a runtime gives the same ports to each
 * network of a container, and the first one serves them. Throws CniError 104, naming the holder.
 */
export async function reservePorts(
  id: AttachmentId,
  ports: readonly HostPort[],
  settleDead: SettleDead,
): Promise<readonly HostPort[]> {
  const served: HostPort[] = []
  for (const port of ports) if (await reservePort(id, port, settleDead)) served.push(port)
  // Our names first, then one look at the others: of two that ask at once, at least one sees the other.
  const own = new Map(served.map((port) => [portName(port), port]))
  const taken = namesIn(portsDirectory()).filter((name) => !own.has(name))
  const byPort = Map.groupBy(taken, portOf)
  const shared = new Set<HostPort>()
  for (const [name, port] of own) {
    for (const other of (byPort.get(portOf(name)) ?? []).filter((each) => isConflict(name, each))) {
      const holder = holderOf(`${portsDirectory()}/${other}`)
      if (holder === undefined && !isTaken(`${portsDirectory()}/${other}`)) continue
      if (holder !== undefined && (sameId(holder.id, id) || (await settleDead(holder)))) continue
      removeFile(`${portsDirectory()}/${name}`)
      if (holder?.id.containerId !== id.containerId) throw portTaken(port, holder)
      shared.add(port)
    }
  }
  return served.filter((port) => !shared.has(port))
}

/** False where another interface of the same container has the port. */
async function reservePort(id: AttachmentId, port: HostPort, settleDead: SettleDead): Promise<boolean> {
  const file = `${portsDirectory()}/${portName(port)}`
  if (linkOnce(pendingFile(id), file)) return true
  const holder = holderOf(file)
  if (holder !== undefined && sameId(holder.id, id)) return true
  if (holder !== undefined && (await settleDead(holder)) && linkOnce(pendingFile(id), file)) return true
  // It may have been given back meanwhile.
  if (!isTaken(file)) return reservePort(id, port, settleDead)
  if (holder?.id.containerId === id.containerId) return false
  throw portTaken(port, holder)
}

function portTaken({ hostPort, protocol, hostIp }: HostPort, holder: AttachmentRecord | undefined): CniError {
  const where = hostIp === undefined ? '' : ` on ${hostIp}`
  const who = holder ? `${describeRecord(holder)} (network ${holder.id.network})` : 'an attachment that cannot be read'
  return new CniError(Code.hostPortTaken, 'port-reserved', `host port ${hostPort}/${protocol}${where} is taken`, {
    details: `by ${who}; ${portsDirectory()} has all`,
  })
}

export function holdsPort(id: AttachmentId, port: HostPort): boolean {
  return isHeldBy(id, `${portsDirectory()}/${portName(port)}`)
}

function isHeldBy(id: AttachmentId, file: string): boolean {
  const holder = holderOf(file)
  return holder !== undefined && sameId(holder.id, id)
}

/** Gives back the reservations that the attachment's record names. One that cannot be read any more is its own, too. */
export function releaseNamed(id: AttachmentId, addresses: readonly string[], ports: readonly HostPort[]): void {
  const addressFiles = addresses.map((address) => `${addressesDirectory(id.network)}/${address}`)
  for (const file of [...addressFiles, ...ports.map((port) => `${portsDirectory()}/${portName(port)}`)])
    if (holderOf(file) === undefined || isHeldBy(id, file)) removeFile(file)
}

/** Gives back those that say themselves that they are the attachment's: all of the network and of the node are read. */
export function releaseFound(id: AttachmentId): void {
  for (const file of reservationsOf(id)) removeFile(file)
}

/** The files of the reservations that say that they are the attachment's. */
export function reservationsOf(id: AttachmentId): readonly string[] {
  const directories = [addressesDirectory(id.network), portsDirectory()]
  const files = directories.flatMap((directory) => namesIn(directory).map((name) => `${directory}/${name}`))
  return files.filter((file) => isHeldBy(id, file))
}
