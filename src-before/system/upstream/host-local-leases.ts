// SPDX-License-Identifier: Apache-2.0
// Reservations of the upstream host-local (its layout: docs/design.md, "Upstream host-local"): a node may be
// switched to trestle while its pods live, so theirs are honoured and our DEL gives them back.

import { rmSync } from 'node:fs'
import { parseAddress } from '../../cni/address.ts'
import { isSinceBoot, namesIn, readableText, readText } from '../files/files.ts'
import { identityOfNetns, netnsState } from '../kernel/netns.ts'
import { cachedAttachment } from './read-libcni-cache.ts'

/** host-local's default dataDir. */
export const defaultDataDir = '/var/lib/cni/networks'

/** Who holds a reservation. Files of old versions have no interface name. */
interface UpstreamLease {
  readonly address: string
  readonly containerId: string
  readonly ifName?: string
}

/** Addresses that the upstream host-local reserved for pods that may live. */
export function upstreamAddresses(dataDir: string, network: string): readonly string[] {
  return addressFiles(`${dataDir}/${network}`).filter((address) => mayLive({ dataDir, network, address }))
}

/**
 * The file by which a pod of another network has the address: on a node that was switched, a network of ours may have
 * the range of one with another name.
 */
export function upstreamFileElsewhere(dataDir: string, network: string, address: string): string | undefined {
  const found = otherNetworks(dataDir, network).find((other) => mayLive({ dataDir, network: other, address }))
  return found && `${dataDir}/${found}/${address}`
}

/** The addresses that have a file in other networks, whatever its age. */
export function upstreamNamesElsewhere(dataDir: string, network: string): readonly string[] {
  return otherNetworks(dataDir, network).flatMap((other) => addressFiles(`${dataDir}/${other}`))
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
    return text === undefined ? [] : [leaseOf(address, text)]
  })
}

function leaseOf(address: string, text: string): UpstreamLease {
  const [containerId = '', ifName] = text.trim().split(/\r?\n/)
  return { address, containerId, ...(ifName === undefined ? {} : { ifName }) }
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
  return namesIn(dataDir).filter((name) => name !== network)
}

function addressFiles(directory: string): readonly string[] {
  return namesIn(directory).filter((name) => parseAddress(name) !== undefined)
}

/**
 * Whether the holder of a reservation may live: older ones ended with the machine. A clock that was set since then, or
 * a machine that slept, makes files look older than the start: there libcni's word counts.
 */
function mayLive(at: { readonly dataDir: string; readonly network: string; readonly address: string }): boolean {
  const file = `${at.dataDir}/${at.network}/${at.address}`
  if (isSinceBoot(file)) return true
  const text = readableText(file)
  const { containerId = '', ifName } = text === undefined ? {} : leaseOf(at.address, text)
  if (ifName === undefined) return false
  const cached = cachedAttachment({ network: at.network, containerId, ifName })
  return cached !== undefined && netnsState(identityOfNetns(cached.netns)) === 'live'
}
