// SPDX-License-Identifier: Apache-2.0
// What the stderr of ip, tc, bridge, nft and sysctl means. Tools run with LC_ALL=C, so the kernel's reasons are in English
// (strerror(3), and the extended messages of netlink).

import { CniError, Code, oneLine } from '../cni/errors.ts'
import type { Op } from './operation.ts'

/** Why something was refused. */
export type Reason = 'absent' | 'exists' | 'busy' | 'invalid' | 'denied' | 'ipv6-off' | 'bridge-full' | 'too-old'

const reasons: readonly (readonly [RegExp, Reason])[] = [
  [/exchange full/i, 'bridge-full'],
  [/IPv6 is disabled/i, 'ipv6-off'],
  [/Could not open file "\/dev\/stdin"/, 'too-old'],
  [/File exists|interval overlaps|conflicts with|Device or resource busy.*already|already exists/i, 'exists'],
  [/Device or resource busy/i, 'busy'],
  [
    /does not exist|Cannot find device|No such (?:device|file or directory|process|address)|Cannot assign requested address|Cannot find specified qdisc|handle of zero|Invalid handle|not found|No such table|No chain\/target/i,
    'absent',
  ],
  [/Operation not permitted|Permission denied/i, 'denied'],
  [/Invalid argument|Operation not supported|not supported/i, 'invalid'],
]

export function reasonOf(stderr: string): Reason | undefined {
  return reasons.find(([pattern]) => pattern.test(stderr))?.[1]
}

/** A tool that refused an operation. `op`: undefined where the tool does not say which. */
export class CommandError extends CniError {
  readonly op: Op | undefined
  readonly reason: Reason | undefined

  constructor(message: string, more: { details: string; op: Op | undefined; reason: Reason | undefined; id?: string }) {
    super(Code.commandFailed, more.id ?? 'command-failed', message, { details: more.details })
    this.op = more.op
    this.reason = more.reason
  }
}

/** `whys`: of all operations of the batch, for the case that the tool does not say which one it refused. */
export function commandError(failed: {
  readonly command: string
  readonly op: Op | undefined
  readonly whys: readonly string[]
  readonly stderr: string
  readonly code: number | undefined
  readonly signal?: string | undefined
}): CommandError {
  const { command, op, stderr, code, signal, whys } = failed
  const reason = reasonOf(stderr)
  const what = op?.why ?? (whys.length === 1 ? whys[0] : `run ${command}`)
  const said = firstReason(stderr) || (signal ? `ended by ${signal}` : `exit status ${code}`)
  const cure = cureOf(reason, op)
  return new CommandError(`could not ${what}: ${said}`, {
    details: `${command}: ${stderr.trim() || said}${cure && `\n${cure}`}`,
    op,
    reason,
  })
}

/** The line that gives the reason: not the one that only names the failed line of a batch. */
function firstReason(stderr: string): string {
  const lines = stderr.split('\n').map((line) => line.trim())
  const said = lines.find((line) => line !== '' && !/^Command failed |^\^|^(?:add|delete|list|flush) /.test(line)) ?? ''
  return oneLine(said.replace(/^(?:RTNETLINK answers|Error): /, '').replace(/^\/dev\/stdin:\d+:[\d-]+: Error: /, ''))
}

/** What to do, as far as the reason tells. */
export function cureOf(reason: Reason | undefined, op?: Op): string {
  if (reason === 'denied')
    return 'trestle needs CAP_NET_ADMIN and CAP_SYS_ADMIN (nsenter): give them to the container runtime that calls'
  const key = `net.ipv6.conf.${op && 'dev' in op ? op.dev : '*'}.disable_ipv6`
  if (reason === 'ipv6-off') return `IPv6 is switched off; take the IPv6 range out, or run sysctl -w ${key}=0`
  if (reason === 'too-old') return 'this nft cannot read from a socket: update nftables to 1.0.2 or newer'
  if (op?.kind === 'vlan.add' || op?.kind === 'vlan.delete' || (op?.kind === 'bridge.add' && op.vlanFiltering))
    return 'the kernel lacks CONFIG_BRIDGE_VLAN_FILTERING, or the bridge was made without vlan_filtering: use a bridge for each VLAN, without "vlan" and "vlanTrunk"'
  if (op?.kind === 'sysctl.set' && op.place === 'pod')
    return 'there is no such key in the pod, or it is a key that is read-only in a pod: those of the whole machine'
  return ''
}
