// SPDX-License-Identifier: Apache-2.0
// A process that failed, told as what it was meant to do.

import { CniError, oneLine } from '../cni/error.ts'
import type { Op } from '../model/op.ts'
import type { Reason } from '../plan/order/stage.ts'
import { type Batch, failedOp } from './batches.ts'

/** The failure of one batch. `op` is undefined where the tool did not say which line failed. */
export class CommandError extends CniError {
  readonly op: Op | undefined
  readonly reason: Reason
  readonly stdout: string

  constructor(op: Op | undefined, texts: { message: string; details: string; reason: Reason; stdout: string }) {
    super('command-failed', texts.message, { details: texts.details })
    this.name = 'CommandError'
    this.op = op
    this.reason = texts.reason
    this.stdout = texts.stdout
  }
}

/** A process's end, as the runner tells it. `lack`: the capability that it was refused for. */
interface Ended {
  readonly code: number | undefined
  readonly stdout: string
  readonly stderr: string
  readonly missing?: { readonly name: string; readonly hint: string } | undefined
}

/** Bounds of the message; the details have all of it. */
const mostGoals = 8
const longestExcerpt = 2000

export function commandError(batch: Exclude<Batch, { tool: 'file' }>, output: Ended): CommandError {
  const op = failedOp(batch, output.stderr)
  const excerpt = output.stderr
    .replace(/^Command failed -:\d+$/gm, '')
    .trim()
    .slice(0, longestExcerpt)
  const goal = op?.why ?? goalOf(batch.ops)
  const missing = output.missing && ` (${output.missing.name} is missing)`
  const told = oneLine(excerpt) || `${batch.tool} ended with status ${output.code ?? 'of a signal'}`
  const hint = output.missing ? `\n${output.missing.hint}` : hintFor(op, output.stderr)
  const place = `${batch.tool} in the ${batch.in === 'pod' ? "pod's" : "host's"} network namespace`
  return new CommandError(op, {
    message: `could not ${goal}: ${told}${missing ?? ''}`,
    details: `${place}, input:\n${batch.stdin}stderr:\n${output.stderr}${hint}`,
    reason: reasonOf(output.stderr),
    stdout: output.stdout,
  })
}

/** The first ones of what was meant, which may be hundreds. */
function goalOf(ops: readonly Op[]): string {
  const named = ops.slice(0, mostGoals).map(({ why }) => why)
  const rest = ops.length - named.length
  return [...named, ...(rest > 0 ? [`do one of ${rest} more things`] : [])].join(', or ')
}

/** What the tool's own words do not tell. */
function hintFor(op: Op | undefined, stderr: string): string {
  // nftables 0.9 opens /dev/stdin by name, which open(2) refuses for a socket.
  if (stderr.includes('Could not open file "/dev/stdin"'))
    return (
      '\nthis nft is too old for the rules: nftables 1.0.2 and newer take them; update it, `nft --version` ' +
      'tells what is there'
    )
  // EACCES of inet6_addr_add and fib6_nh_init (net/ipv6/addrconf.c, route.c).
  if (op !== undefined && 'dev' in op && stderr.includes('IPv6 is disabled')) return ipv6Off(op.dev)
  if (op?.kind === 'bridge.add' && op.vlanFiltering) {
    return '\nthe configuration asks for VLANs, which need a kernel with CONFIG_BRIDGE_VLAN_FILTERING'
  }
  if (op?.kind === 'sysctl.pod' && stderr.includes('setting key'))
    return '\na key that is read-only in a pod is one of the node: tuning cannot set it'
  if (op?.kind === 'vlan.add') return '\nVLANs need a bridge with vlan_filtering on: this one was made without'
  return ''
}

/** A dot in a link's name is a slash to sysctl(8). */
function ipv6Off(dev: string): string {
  const key = `net.ipv6.conf.${dev.replaceAll('.', '/')}.disable_ipv6`
  return (
    `\n${key} is 1: run sysctl -w ${key}=0, and see that nothing sets it again (/etc/sysctl.d, a ` +
    `network manager); or take the IPv6 range out of the configuration`
  )
}

// The one place that reads the tools' error texts. The runner sets LC_ALL=C, so they are English;
// most are strerror(3) of what the kernel answered.

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
