// SPDX-License-Identifier: Apache-2.0
// The private network of `try`: this process's namespace plays the node, a second one plays the outside behind its
// uplink. Both end with the mount and pid namespaces of the process.

import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync } from 'node:fs'
import { familyOf } from '../../cni/addresses.ts'
import type { Run } from '../../process/runner.ts'
import { failureOf } from '../failure.ts'
import { overlapOf } from '../lint/contradictions.ts'

export const outside = 'outside'

/** Where upstream plugins keep reservations and results. */
export const delegateState = '/var/lib/cni'

/** Ranges for documentation (RFC 5737, RFC 3849), two of each: a configuration under test may use one. */
const uplinks4 = ['198.51.100', '203.0.113'] as const
const uplinks6 = ['2001:db8:ffff', '2001:db8:fffe'] as const

/** Of pods whose configuration names no ranges. */
export const podRanges = ['10.240.0.0/24', 'fd00:240::/64'] as const

/** Both ends of the uplink, without prefix lengths. */
export interface Uplink {
  readonly node: { readonly 4: string; readonly 6: string }
  readonly outside: { readonly 4: string; readonly 6: string }
}

/** Addresses for the uplink that are in none of `ranges` (CIDR texts); one of all addresses is a route's. */
export function uplinkApartFrom(ranges: readonly string[]): Uplink {
  const taken = ranges.filter((range) => !range.endsWith('/0'))
  const isFree = (cidr: string) => overlapOf(taken, [cidr]) === undefined
  const v4 = uplinks4.find((prefix) => isFree(`${prefix}.0/24`)) ?? uplinks4[0]
  const v6 = uplinks6.find((prefix) => isFree(`${prefix}::/64`)) ?? uplinks6[0]
  return { node: { 4: `${v4}.2`, 6: `${v6}::2` }, outside: { 4: `${v4}.1`, 6: `${v6}::1` } }
}

/**
 * Gives this process a node's surroundings: private /run, CNI state and /sys, an uplink to the
 * outside. Only for a process in network, mount and pid namespaces of its own. Throws CniError 100.
 */
export async function openLab(run: Run, uplink: Uplink): Promise<void> {
  const mount = (...args: string[]) => must(run, ['mount', '-t', ...args])
  // Not by `run`, which notes its process below /run: that of the node until now.
  const { status, stderr } = spawnSync('mount', ['-t', 'tmpfs', '-o', 'mode=755', 'tmpfs', '/run'])
  if (status !== 0) throw failureOf('command-failed', 'mount -t tmpfs tmpfs /run failed', { details: `${stderr}` })
  await mount('sysfs', 'sysfs', '/sys')
  // Delegated plugins keep their reservations there.
  mkdirSync(delegateState, { recursive: true })
  await mount('tmpfs', 'tmpfs', delegateState)
  mkdirSync('/run/lock')
  await must(run, ['ip', 'link', 'set', 'lo', 'up'])
  await must(run, ['ip', 'netns', 'add', outside])
  await must(run, ['ip', '-n', outside, 'link', 'set', 'lo', 'up'])
  await must(run, ['ip', '-batch', '-'], nodeSide(uplink))
  await must(run, ['ip', '-n', outside, '-batch', '-'], outsideSide(uplink))
}

/** Makes the outside answer to `address`, whatever its source: it has a route back through the node. */
export async function addRouteBack(run: Run, uplink: Uplink, address: string): Promise<void> {
  const via = familyOf(address) === 6 ? uplink.node[6] : uplink.node[4]
  await must(run, ['ip', '-n', outside, 'route', 'replace', address, 'via', via])
}

/** Makes the outside the router of pods that are on the uplink itself. `address`: with the length of a pod's. */
export async function addRouter(run: Run, address: string): Promise<void> {
  const nodad = familyOf(address) === 6 ? ['nodad'] : []
  await must(run, ['ip', '-n', outside, 'address', 'replace', address, 'dev', 'uplink', ...nodad])
}

/** Runs a command; throws CniError 100 with its stderr when it fails. Returns its stdout. */
export async function must(run: Run, words: readonly string[], stdin = ''): Promise<string> {
  const [file = '', ...args] = words
  const output = await run({ file, args, stdin })
  if (output.code === 0) return output.stdout
  throw failureOf('command-failed', `${words.join(' ')} failed`, { details: output.stderr.trim() })
}

/** Whether the kernel has IPv6 at all (ipv6.disable=1 leaves the file out). */
export function hasIpv6(): boolean {
  return existsSync('/proc/net/if_inet6')
}

function nodeSide({ node, outside: far }: Uplink): string {
  return lines([
    `link add uplink type veth peer name uplink netns ${outside}`,
    'link set uplink up',
    `addr add ${node[4]}/24 dev uplink`,
    `route add default via ${far[4]}`,
    ...(hasIpv6() ? [`addr add ${node[6]}/64 dev uplink nodad`, `route add default via ${far[6]}`] : []),
  ])
}

function outsideSide({ outside: far }: Uplink): string {
  return lines([
    'link set uplink up',
    `addr add ${far[4]}/24 dev uplink`,
    ...(hasIpv6() ? [`addr add ${far[6]}/64 dev uplink nodad`] : []),
  ])
}

function lines(words: readonly string[]): string {
  return words.map((line) => `${line}\n`).join('')
}
