// SPDX-License-Identifier: Apache-2.0
// The administrator's list of sysctls that pods may have, as the reference tuning plugin reads it: one regular expression a
// line, not anchored. Without the file everything is allowed.

import type { Call } from '../cni/call.ts'
import { CniError, Code } from '../cni/errors.ts'
import type { OwnConf } from '../config/network-conf.ts'
import { readText } from '../state/files.ts'

const allowlistFile = '/etc/cni/tuning/allowlist.conf'

/** Throws CniError 7 for a sysctl that is not on the list, 5 for a list that cannot be read. */
export function checkAllowlist({ tuning }: OwnConf, { ifName }: Call): void {
  const keys = Object.keys(tuning?.sysctl ?? {})
  const found = keys.length === 0 ? undefined : readText(allowlistFile)
  if (found === undefined) return
  if (found === 'unreadable') throw unreadable('it is no file of at most 1 MiB')
  const lines = found.text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '')
  const patterns = lines.map((line) => {
    try {
      return new RegExp(line)
    } catch {
      throw unreadable(`"${line}" is no regular expression`)
    }
  })
  for (const key of keys) {
    const dotted = key.replaceAll('/', '.')
    const forms = [dotted, key, dotted.replace(ifName, 'IFNAME'), key.replace(ifName, 'IFNAME')]
    if (patterns.some((pattern) => forms.some((form) => pattern.test(form)))) continue
    throw new CniError(Code.invalidConfig, 'sysctl-not-allowed', `tuning.sysctl: Sysctl ${dotted} is not allowed`, {
      details: `Only the following sysctls are allowed: [${lines.join(' ')}] (${allowlistFile})`,
    })
  }
}

function unreadable(why: string): CniError {
  return new CniError(Code.ioFailure, 'sysctl-allowlist-invalid', `cannot use ${allowlistFile}: ${why}`, {
    details: 'it has one regular expression a line; without the file every sysctl is allowed',
  })
}
