// SPDX-License-Identifier: Apache-2.0
// Host ports are per node, across networks: reserved by link(2) of the intent record under /run/trestle/ports,
// like addresses. Someone else's is refused with the holder's name; a dead holder's is taken over.

import { existsSync, rmSync } from 'node:fs'
import { CniError } from '../../cni/error.ts'
import { isPortConflict, portOf, reservationName } from '../../features/host-ports.ts'
import type { HostPort } from '../../model/attachment.ts'
import { type AttachmentRecord, describeHolder, sameKey } from '../../model/record.ts'
import { linkOnce, namesIn } from '../files/files.ts'
import {
  isHeldBy,
  portsDirectory,
  type Releasing,
  release,
  reservationFile,
  reservationHolder,
} from './reservations.ts'

/** Who reserves, and how the ports of a dead holder are freed: `settle` says whether it could. */
interface PortRequest {
  readonly intentFile: string
  readonly key: AttachmentRecord['key']
  readonly settle: (holder: AttachmentRecord) => Promise<boolean>
  /** Gives back what nobody can have, of reservations that cannot be read. */
  readonly reclaim: () => Promise<void>
}

/**
 * Reserves the ports. Returns them without those that another interface of the container has: runtimes give the same
 * ports to each of its networks. Throws CniError 104 naming the port and its holder.
 */
export async function reservePorts(request: PortRequest, ports: readonly HostPort[]): Promise<readonly HostPort[]> {
  const shared = new Set<HostPort>()
  const leaveToHolder = (port: HostPort) => {
    if (otherHolder(port, request.key)?.key.containerId !== request.key.containerId) throw portTaken(port, request.key)
    shared.add(port)
  }
  for (const port of ports) if (!(await reservePort(request, port))) leaveToHolder(port)
  // Our names first, then one look at the others: of two that ask at once, at least one sees the other.
  for (const { port, name, other } of conflicts(ports.filter((each) => !shared.has(each)))) {
    if (isOurs(request, other) || (await isFreed(request, other))) continue
    rmSync(`${portsDirectory()}/${name}`, { force: true })
    leaveToHolder(port)
  }
  return ports.filter((port) => !shared.has(port))
}

/** Gives back every port of an attachment: `ports`, or where it is absent those that say they are its. */
export async function releasePorts(of: Releasing, ports: readonly HostPort[] | undefined): Promise<void> {
  const known = ports?.map(reservationName)
  const remove = (name: string) => rmSync(reservationFile({ name }), { force: true, recursive: true })
  await release(of, { network: undefined, known, purpose: 'release host ports', remove })
}

/** False where another attachment has the port. */
async function reservePort(request: PortRequest, port: HostPort): Promise<boolean> {
  const name = reservationName(port)
  const file = `${portsDirectory()}/${name}`
  if (linkOnce(request.intentFile, file) || isOurs(request, name)) return true
  return (await isFreed(request, name)) && linkOnce(request.intentFile, file)
}

function isOurs(request: PortRequest, name: string): boolean {
  return isHeldBy({ name }, request.key)
}

/** Whether the port's holder was dead and has been torn down, or has given it back meanwhile. */
async function isFreed(request: PortRequest, name: string): Promise<boolean> {
  const holder = reservationHolder({ name })
  if (holder === undefined) await request.reclaim()
  return (holder !== undefined && (await request.settle(holder))) || !existsSync(`${portsDirectory()}/${name}`)
}

/** Reserved names that stand in the way of the ports', without these. The directory has the ports of all pods. */
function conflicts(ports: readonly HostPort[]) {
  const wanted = ports.map((port) => ({ port, name: reservationName(port) }))
  const byPort = Map.groupBy(wanted, ({ name }) => portOf(name))
  return namesIn(portsDirectory()).flatMap((other) =>
    (byPort.get(portOf(other)) ?? [])
      .filter(({ name }) => other !== name && isPortConflict(name, other))
      .map(({ port, name }) => ({ port, name, other })),
  )
}

/** Who has the port, or all or one of its addresses, other than `key`. */
function otherHolder(port: HostPort, key: AttachmentRecord['key']): AttachmentRecord | undefined {
  return [reservationName(port), ...conflicts([port]).map(({ other }) => other)]
    .map((name) => reservationHolder({ name }))
    .find((holder) => holder !== undefined && !sameKey(holder.key, key))
}

/** CniError 104, naming the holder: somebody other than `key`. */
export function portTaken(port: HostPort, key: AttachmentRecord['key']): CniError {
  const other = otherHolder(port, key)
  const where = port.hostIp === undefined ? '' : ` on ${port.hostIp}`
  const holder =
    other === undefined
      ? 'an attachment that cannot be read'
      : `${describeHolder(other)} (network ${other.key.network})`
  return new CniError('port-reserved', `host port ${port.hostPort}/${port.protocol}${where} is taken`, {
    details: `by ${holder}; ${portsDirectory()} has all`,
  })
}
