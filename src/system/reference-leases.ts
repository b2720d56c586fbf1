// SPDX-License-Identifier: Apache-2.0
// Reservations of the reference host-local (its layout: reference-plugins.md §2.8): a node may be
// switched to trestle while its pods live, so theirs are honoured and our DEL gives them back.

import { rmSync, statSync } from 'node:fs'
import { uptime } from 'node:os'
import { parseAddress } from '../cni/address.ts'
import { namesIn, readText } from './files.ts'

/** host-local's default dataDir. */
export const defaultDataDir = '/var/lib/cni/networks'

/** Addresses reserved by the reference host-local since the machine started; older holders ended with it. */
export function referenceAddresses(dataDir: string, network: string): readonly string[] {
  const directory = `${dataDir}/${network}`
  const startedMs = Date.now() - uptime() * 1000
  return namesIn(directory).filter(
    (name) => parseAddress(name) !== undefined && isSince(`${directory}/${name}`, startedMs),
  )
}

/** Removes the reference host-local's reservations of a container's interface, as its own DEL does. */
export function releaseReferenceAddresses(
  dataDir: string,
  network: string,
  holder: { containerId: string; ifName: string },
): void {
  const directory = `${dataDir}/${network}`
  for (const name of namesIn(directory).filter((each) => parseAddress(each) !== undefined)) {
    const found = readText(`${directory}/${name}`)
    if (found === undefined || found === 'unreadable') continue
    // Files of old versions hold the container id only.
    const [containerId, ifName] = found.text.trim().split(/\r?\n/)
    if (containerId === holder.containerId && (ifName === undefined || ifName === holder.ifName))
      rmSync(`${directory}/${name}`, { force: true })
  }
}

function isSince(file: string, startedMs: number): boolean {
  try {
    return statSync(file).mtimeMs >= startedMs
  } catch {
    return false
  }
}
