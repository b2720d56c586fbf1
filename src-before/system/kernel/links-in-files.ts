// SPDX-License-Identifier: Apache-2.0
// The host's links and addresses without a process, for STATUS: from /sys, and from what the C library lists.

import { existsSync, readFileSync, readlinkSync } from 'node:fs'
import { networkInterfaces } from 'node:os'
import { basename } from 'node:path'
import { orElse } from '../../cni/error.ts'
import { defined } from '../../cni/json.ts'
import { isPodLinkName } from '../../model/names.ts'
import type { AddressedLink, AddressedLinks } from '../../model/observed.ts'
import { isOwnSysfs, linkNames } from './kernel-files.ts'

/**
 * The links of our network namespace; undefined where /sys shows another one. A link that is down or without a carrier
 * has no addresses here (uv_interface_addresses of libuv leaves it out).
 */
export function linksInFiles(): AddressedLinks | undefined {
  if (!isOwnSysfs()) return undefined
  const addresses = addressesByLink()
  return { links: new Map(linkNames().map((name) => [name, linkOf(name, addresses.get(name) ?? [])])) }
}

/** CIDRs by link. An IPv4 address with a label (`eth0:1`) is of the link before the colon. */
function addressesByLink(): ReadonlyMap<string, readonly string[]> {
  const byLink = new Map<string, string[]>()
  for (const [label, addresses = []] of Object.entries(networkInterfaces())) {
    const name = label.replace(/:.*/, '')
    byLink.set(name, [...(byLink.get(name) ?? []), ...addresses.flatMap(({ cidr }) => cidr ?? [])])
  }
  return byLink
}

function linkOf(name: string, addresses: readonly string[]): AddressedLink {
  const directory = `/sys/class/net/${name}`
  const filtering = read(`${directory}/bridge/vlan_filtering`)
  const master = linked(`${directory}/master`)
  return {
    name,
    addresses,
    mac: read(`${directory}/address`) ?? '',
    ...defined({
      kind: kindOf(directory),
      vlanFiltering: filtering === undefined ? undefined : filtering === '1',
      master: master === undefined ? undefined : basename(master),
      alias: isPodLinkName(name) ? read(`${directory}/ifalias`) : undefined,
    }),
  }
}

/** Files tell a bridge, and a device of the machine, which has none; the kind of another one is not told. */
function kindOf(directory: string): string | undefined {
  if (existsSync(`${directory}/bridge`)) return 'bridge'
  return linked(directory)?.includes('/virtual/') ? 'virtual' : undefined
}

function read(path: string): string | undefined {
  return orElse(() => readFileSync(path, 'utf8').trim() || undefined, undefined)
}

function linked(path: string): string | undefined {
  return orElse(() => readlinkSync(path), undefined)
}
