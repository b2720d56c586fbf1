// SPDX-License-Identifier: Apache-2.0
// Operations on kernel settings. Those of the host are files that trestle writes itself, and only where the value
// differs; those of a pod are set by sysctl(8), which enters its namespace.

import { writeFileSync } from 'node:fs'
import { CniError, Code } from '../cni/errors.ts'
import { isPodLinkName } from '../drivers/names.ts'
import { cureOf, reasonOf } from './messages.ts'
import { forwardingKey, type OpOf } from './operation.ts'
import { linkNames, readSysctl } from './proc.ts'

/** Writes one setting of the host. Throws CniError 100. */
export function writeHostSysctl({ key, value, why }: OpOf<'sysctl.set'>): void {
  const isForwarding6 = key === forwardingKey(6)
  const now = readSysctl(key)
  if (now === value) return
  if (now === undefined && isForwarding6)
    throw new CniError(Code.commandFailed, 'ipv6-not-there', `could not ${why}: this kernel has no IPv6`, {
      details: 'it was started with ipv6.disable=1, or built without; take the IPv6 range out of the configuration',
    })
  // A link that is gone, or one without IPv6: there is nothing to set.
  if (now === undefined && key.startsWith('net/ipv6/conf/')) return
  if (isForwarding6) keepRouterAdvertisements()
  write(key, value, why)
}

/**
 * Switching IPv6 forwarding on drops the default routes that the node has learned, and a forwarding node ignores router
 * advertisements unless accept_ra is 2 (net/ipv6/addrconf.c, addrconf_fixup_forwarding). Never on a pod's link: a pod
 * could change the node's routes (CVE-2020-10749).
 */
function keepRouterAdvertisements(): void {
  for (const name of linkNames().filter((each) => each !== 'lo' && !isPodLinkName(each))) {
    const key = `net/ipv6/conf/${name}/accept_ra`
    if (readSysctl(key) === '1') write(key, '2', `keep the router advertisements of ${name}`)
  }
}

function write(key: string, value: string, why: string): void {
  try {
    writeFileSync(`/proc/sys/${key}`, value)
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException
    throw new CniError(Code.commandFailed, 'sysctl-not-set', `could not ${why}: ${code}`, {
      details: `writing ${value} to /proc/sys/${key}: ${message}\n${cureOf(reasonOf(message))}`,
      cause,
    })
  }
}
