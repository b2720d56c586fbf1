// SPDX-License-Identifier: Apache-2.0
// The one place that reads the tools' error texts. The runner sets LC_ALL=C, so they are English;
// most are strerror(3) of what the kernel answered.

export type Reason = 'exists' | 'absent' | 'denied' | 'busy' | 'full' | 'invalid' | 'other'

const reasons: readonly (readonly [RegExp, Reason])[] = [
  [/File exists|already exists|conflicts with|interval overlaps/i, 'exists'],
  [
    /No such (file|device|process)|Cannot find device|does not exist|No such file or directory|Cannot find specified qdisc|handle of zero|Invalid handle/i,
    'absent',
  ],
  [/Permission denied|Operation not permitted|Read-only file system|IPv6 is disabled/i, 'denied'],
  [/Device or resource busy|Resource temporarily unavailable/i, 'busy'],
  // EXFULL: a bridge has no port number left (net/bridge/br_if.c, find_portno).
  [/exchange full/i, 'full'],
  [
    /Invalid argument|Invalid "|is wrong|Not supported|is a garbage|Nexthop has invalid gateway|unreachable/i,
    'invalid',
  ],
]

/** Why a tool failed, from its stderr. */
export function reasonOf(stderr: string): Reason {
  return reasons.find(([pattern]) => pattern.test(stderr))?.[1] ?? 'other'
}
