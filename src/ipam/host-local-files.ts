// SPDX-License-Identifier: Apache-2.0
// Reservations of the reference host-local plugin: `DATADIR/NETWORK/ADDRESS` with the container id, CR LF and the interface
// name (old versions: the id alone), and `last_reserved_ip.N`. A node changes over while its pods live: addresses that
// were reserved since boot are given to nobody, and the DEL of a container that trestle does not know frees them.

import { statSync } from 'node:fs'
import { parseAddress } from '../cni/addresses.ts'
import { readKernelFile } from '../kernel/proc.ts'
import { namesIn, readableText, removeFile } from '../state/files.ts'

/** Addresses that pods of this boot may have. */
export function hostLocalAddresses(dataDir: string, network: string): readonly string[] {
  const directory = `${dataDir}/${network}`
  const names = namesIn(directory).filter((name) => parseAddress(name) !== undefined)
  if (names.length === 0) return []
  const bootMs = Date.now() - Number((readKernelFile('/proc/uptime') ?? '0').split(' ')[0]) * 1000
  return names.filter((name) => (statSync(`${directory}/${name}`, { throwIfNoEntry: false })?.mtimeMs ?? 0) >= bootMs)
}

/** Where its round robin was: neighbours still know an address that was freed just now by another MAC. */
export function hostLocalLast(dataDir: string, network: string, set: number): string | undefined {
  return readableText(`${dataDir}/${network}/last_reserved_ip.${set}`)?.trim()
}

/** Frees what the plugin reserved for a container's interface, as its own DEL does. */
export function releaseHostLocal(
  dataDir: string,
  network: string,
  holder: { containerId: string; ifName: string },
): void {
  const directory = `${dataDir}/${network}`
  for (const name of namesIn(directory).filter((each) => parseAddress(each) !== undefined)) {
    const [containerId, ifName] = readableText(`${directory}/${name}`)?.trim().split(/\r?\n/) ?? []
    const isHolder = containerId === holder.containerId && (ifName === undefined || ifName === holder.ifName)
    if (isHolder) removeFile(`${directory}/${name}`)
  }
}
