// SPDX-License-Identifier: Apache-2.0
// The node's allow-list of pod sysctls, the upstream tuning plugin's file and rules
// (docs/design.md, "Upstream tuning"): a regular expression a line, not anchored; no file allows everything.

import { CniError } from '../../cni/error.ts'
import { readText } from '../files/files.ts'

const allowlistFile = '/etc/cni/tuning/allowlist.conf'

/** Throws CniError 7 naming the first sysctl that is not on the list. Keys are paths below /proc/sys. */
export function requireAllowedSysctls(keys: readonly string[], ifName: string): void {
  if (keys.length === 0) return
  const found = readText(allowlistFile)
  if (found === undefined) return
  if (found === 'unreadable') throw new CniError('sysctl-allowlist-invalid', `cannot read ${allowlistFile}`)
  const lines = found.text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '')
  const patterns = lines.map(toPattern)
  const refused = keys.find(
    (key) => !patterns.some((pattern) => spellings(key, ifName).some((text) => pattern.test(text))),
  )
  if (refused === undefined) return
  throw new CniError('sysctl-not-allowed', `tuning.sysctl: Sysctl ${refused.replaceAll('/', '.')} is not allowed`, {
    details: `Only the following sysctls are allowed: [${lines.join(' ')}] (${allowlistFile})`,
  })
}

/** Upstream matches the key as it stands in the configuration: dotted or not, with IFNAME or the name. */
function spellings(key: string, ifName: string): readonly string[] {
  const general = key.replace(`/${ifName}/`, '/IFNAME/')
  return [key, general].flatMap((text) => [text, text.replaceAll('/', '.')])
}

function toPattern(line: string): RegExp {
  try {
    return new RegExp(line)
  } catch (cause) {
    throw new CniError('sysctl-allowlist-invalid', `${allowlistFile}: "${line}" is no regular expression`, { cause })
  }
}
