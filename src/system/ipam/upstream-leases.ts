// SPDX-License-Identifier: Apache-2.0
// Reservations of the upstream host-local (its layout: docs/design.md, "Upstream host-local"): a node may be
// switched to trestle while its pods live, so theirs are honoured and our DEL gives them back.

import { rmSync, statSync } from 'node:fs'
import { uptime } from 'node:os'
import { parseAddress } from '../../cni/address.ts'
import { namesIn, readableText, readText } from '../files/files.ts'

/** host-local's default dataDir. */
export const defaultDataDir = '/var/lib/cni/networks'

/** Who holds a reservation. Files of old versions have no interface name. */
interface UpstreamLease {
  readonly address: string
  readonly containerId: string
  readonly ifName?: string
}

/** Addresses reserved by the upstream host-local since the machine started; older holders ended with it. */
export function upstreamAddresses(dataDir: string, network: string): readonly string[] {
  const directory = `${dataDir}/${network}`
  return addressFiles(directory).filter((name) => isSinceBoot(`${directory}/${name}`))
}

/**
 * The file by which a pod of another network has the address: on a node that was switched, a network of ours may have
 * the range of one with another name.
 */
export function upstreamFileElsewhere(dataDir: string, network: string, address: string): string | undefined {
  return otherNetworks(dataDir, network)
    .map((directory) => `${directory}/${address}`)
    .find(isSinceBoot)
}

/** The addresses that have a file in other networks, whatever its age. */
export function upstreamNamesElsewhere(dataDir: string, network: string): readonly string[] {
  return otherNetworks(dataDir, network).flatMap(addressFiles)
}

/**
 * The address that the upstream host-local gave out last from a range set: the round robin of a network that was
 * switched goes on there. Neighbours still know an address that was freed just now by its last pod's MAC.
 */
export function upstreamLastGiven(dataDir: string, network: string, set: number): string | undefined {
  return readableText(`${dataDir}/${network}/last_reserved_ip.${set}`)?.trim()
}

export function upstreamLeases(dataDir: string, network: string): readonly UpstreamLease[] {
  const directory = `${dataDir}/${network}`
  return addressFiles(directory).flatMap((address) => {
    const text = readableText(`${directory}/${address}`)
    if (text === undefined) return []
    const [containerId = '', ifName] = text.trim().split(/\r?\n/)
    return [{ address, containerId, ...(ifName === undefined ? {} : { ifName }) }]
  })
}

/** The addresses that the upstream host-local reserved for a container's interface. */
export function addressesHeld(
  dataDir: string,
  network: string,
  holder: { containerId: string; ifName: string },
): readonly string[] {
  const leases = upstreamLeases(dataDir, network)
  return leases.filter((lease) => isHeldBy(lease, holder)).map(({ address }) => address)
}

/** Removes the upstream host-local's reservations of a container's interface, as its own DEL does. */
export function releaseUpstreamAddresses(
  dataDir: string,
  network: string,
  holder: { containerId: string; ifName: string },
): void {
  for (const address of addressesHeld(dataDir, network, holder))
    rmSync(`${dataDir}/${network}/${address}`, { force: true })
}

/** Whether a container other than `containerId` has the address in any network of the directory. */
export function isLeasedElsewhere(dataDir: string, address: string, containerId: string): boolean {
  return namesIn(dataDir).some((network) => {
    const found = readText(`${dataDir}/${network}/${address}`)
    if (found === undefined) return false
    return found === 'unreadable' || found.text.trim().split(/\r?\n/)[0] !== containerId
  })
}

function isHeldBy(lease: UpstreamLease, holder: { containerId: string; ifName: string }): boolean {
  return lease.containerId === holder.containerId && (lease.ifName === undefined || lease.ifName === holder.ifName)
}

function otherNetworks(dataDir: string, network: string): readonly string[] {
  return namesIn(dataDir)
    .filter((name) => name !== network)
    .map((name) => `${dataDir}/${name}`)
}

function addressFiles(directory: string): readonly string[] {
  return namesIn(directory).filter((name) => parseAddress(name) !== undefined)
}

/** Whether the file is there, and was written since the machine started. */
export function isSinceBoot(file: string): boolean {
  try {
    return statSync(file).mtimeMs >= Date.now() - uptime() * 1000
  } catch {
    return false
  }
}
