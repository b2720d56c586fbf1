// SPDX-License-Identifier: Apache-2.0
// Names of network interfaces: what the specification's own library refuses, and what trestle
// refuses on top because a tool between us and the kernel would read it as something else.

import { hasControlCharacter } from './control-characters.ts'

/** Room in the kernel's IFNAMSIZ (16) without the closing zero byte: linux/if.h. */
const LONGEST_BYTES = 15

/** Directories of /proc/sys/net/ipv4/conf: an interface of that name would share their sysctls. */
const sysctlWords: readonly string[] = ['all', 'default']

function utf8Length(text: string): number {
  let bytes = 0
  for (const char of text) {
    const code = char.codePointAt(0) ?? 0
    bytes += code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4
  }
  return bytes
}

/**
 * Why `name` can be no interface's name, or undefined. The rules and texts are those of libcni's
 * ValidateInterfaceName (pkg/utils/utils.go); the length is in bytes.
 */
export function linkNameProblem(name: string): string | undefined {
  if (name === '') return 'interface name is empty'
  if (utf8Length(name) > LONGEST_BYTES) return 'interface name is too long'
  if (name === '.' || name === '..') return 'interface name is . or ..'
  if (/[/:\u0085]|(?!\ufeff)\s/.test(name)) return 'interface name contains / or : or whitespace characters'
  return undefined
}

/**
 * Why trestle makes no interface called `name`, though the kernel would, or undefined. `%` is a
 * pattern to the kernel (dev_alloc_name), `#`, quotes and backslash are syntax in a batch of
 * iproute2 (lib/utils.c) or nft, what is not ASCII reads differently in every tool, and a leading
 * `-` is an option.
 */
export function unsafeNameProblem(name: string): string | undefined {
  if (/[^\x20-\x7e]/.test(name) && !hasControlCharacter(name))
    return 'interface name contains a character outside ASCII'
  if (/[%#\\"'`]/.test(name) || hasControlCharacter(name))
    return 'interface name contains %, #, \\, a quote or a control character'
  if (name.startsWith('-')) return 'interface name starts with -'
  if (sysctlWords.includes(name)) return `interface name ${name} is a directory of /proc/sys/net/ipv4/conf`
  return undefined
}

/** Why `name` can be no bridge's name, or undefined: iptables and nft read it as a pattern (iptables(8), -i). */
export function patternNameProblem(name: string): string | undefined {
  return /^!|[+*]$/.test(name) ? 'interface name starts with ! or ends with + or *' : undefined
}
