// SPDX-License-Identifier: Apache-2.0
// What is known of attachments beyond their records: after state was removed or damaged, the links, the pods' ends of
// them, the tables, libcni's cache and prevResult tell it.

import { defined } from '../../cni/model/defined.ts'
import type { AttachmentKey, AttachmentSpec, NetworkSpec } from '../model/attachment.ts'
import { networkDirName } from '../model/names.ts'
import { type NetnsIdentity, sameKey } from '../model/record.ts'
import type { Reservation } from './orphan-reservations.ts'

/**
 * An attachment without a record that can be read. `addresses` without prefix length; `ports`: names of reservations.
 */
export interface Rediscovered {
  readonly key: AttachmentKey
  /** `path` empty where its namespace was not found. */
  readonly netns: NetnsIdentity
  readonly addresses: readonly string[]
  readonly ports: readonly string[]
  /** It has these now: what is reserved under these names and cannot be read is its own. */
  readonly isCertain: boolean
  /** What the kernel shows of it, and of its network (from-kernel.ts). */
  readonly seen?: AttachmentSpec
  readonly network?: NetworkSpec
}

/** One entry for each attachment. What is certain of one leaves out what is not. */
export function merged(found: readonly Rediscovered[]): readonly Rediscovered[] {
  const first = found.filter((each, at) => found.findIndex((other) => sameKey(other.key, each.key)) === at)
  return first.map(({ key }) => {
    const sightings = found.filter((other) => sameKey(other.key, key))
    const certain = sightings.filter(({ isCertain }) => isCertain)
    const believed = certain.length > 0 ? certain : sightings
    return {
      key,
      netns: believed.find(({ netns }) => netns.path !== '')?.netns ?? { path: '', inode: 0 },
      addresses: [...new Set(believed.flatMap(({ addresses }) => addresses))],
      ports: [...new Set(believed.flatMap(({ ports }) => ports))],
      isCertain: certain.length > 0,
      ...defined({
        seen: believed.find(({ seen }) => seen !== undefined)?.seen,
        network: believed.find(({ network }) => network !== undefined)?.network,
      }),
    }
  })
}

/** The names under which it has addresses and host ports reserved: a chained part has no addresses of its own. */
export function rediscoveredReservations({ key, addresses, ports }: Rediscovered): readonly Reservation[] {
  const network = networkDirName(key.network)
  const ownAddresses = key.role === 'chained' ? [] : addresses
  return [...ownAddresses.map((name) => ({ network, name })), ...ports.map((name) => ({ name }))]
}
