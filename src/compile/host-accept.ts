// SPDX-License-Identifier: Apache-2.0
// The command lines of an accept pair in somebody else's chain. The rules' comments name us and the
// bridge or subnet, so that whoever reads the chain knows whose they are.

import { formatCidr, parseCidr } from '../cni/address.ts'
import { CniCode, CniError, printable } from '../cni/error.ts'
import { patternNameProblem, unsafeNameProblem } from '../cni/link-name.ts'
import type { AcceptPlace } from '../plan/host-accept.ts'

/** A command that changes a place, and what it is for. */
export interface AcceptCommand {
  readonly file: string
  readonly args: readonly string[]
  readonly stdin?: string
}

export type Direction = 'in' | 'out'

export const directions: readonly Direction[] = ['in', 'out']

/** Seconds to wait for the lock of the xtables tools (iptables(8), -w). */
const lockWaitS = '5'

/** The rule's comment: `trestle cni0 in`. `of`: see plan/host-accept.ts, HostAccept. */
export function acceptComment(of: string, direction: Direction): string {
  return `trestle ${of} ${direction}`
}

/** `-C`, `-I` or `-D` of one rule with an iptables variant. `in`: from the pods. Throws CniError 7 for a name that is a pattern. */
export function iptablesCommand(
  action: '-C' | '-I' | '-D',
  place: Extract<AcceptPlace, { kind: 'iptables' }>,
  rule: { readonly of: string; readonly direction: Direction },
): AcceptCommand {
  const [from, to] = isSubnet(rule.of) ? ['-s', '-d'] : ['-i', '-o']
  if (!isSubnet(rule.of)) requireNoPattern(rule.of)
  const comment = acceptComment(rule.of, rule.direction)
  const match = [rule.direction === 'in' ? from : to, rule.of, '-m', 'comment', '--comment', comment]
  return { file: place.program, args: ['-w', lockWaitS, action, place.chain, ...match, '-j', 'ACCEPT'] }
}

/** The chain's rules, as commands. */
export function iptablesListCommand({ program, chain }: Extract<AcceptPlace, { kind: 'iptables' }>): AcceptCommand {
  return { file: program, args: ['-w', lockWaitS, '-S', chain] }
}

/** Text of a state file is no subnet unless it reads as we write one. */
function isSubnet(of: string): boolean {
  const cidr = parseCidr(of)
  return cidr !== undefined && formatCidr(cidr) === of
}

/** The bridge of a chained attachment was named by somebody else: `br+` would be every bridge to iptables. */
function requireNoPattern(bridge: string): void {
  const problem = patternNameProblem(bridge) ?? unsafeNameProblem(bridge)
  if (problem === undefined) return
  throw new CniError(CniCode.invalidConfig, `"${printable(bridge)}" cannot be named in a rule: ${problem}`, {
    details: 'set firewall.hostAccept to "off", or rename the bridge',
  })
}

/** The chain with its rules' handles. */
export function nftListCommand(place: Extract<AcceptPlace, { kind: 'nft' }>): AcceptCommand {
  return { file: 'nft', args: ['-a', '-f', '-'], stdin: `list chain ${chainText(place)}\n` }
}

/** Both rules at the head of the chain, in one transaction. Throws CniError 7 for a bridge's name that nft would take for a pattern. */
export function nftInsertCommand(place: Extract<AcceptPlace, { kind: 'nft' }>, of: string): AcceptCommand {
  if (!isSubnet(of) && !/^[\w.@+-]+$/.test(of)) {
    throw new CniError(CniCode.invalidConfig, `"${printable(of)}" cannot be named in a rule`, {
      details: 'with "firewall" a bridge name may have letters, digits and _ . @ + - only',
    })
  }
  const lines = directions.map(
    (direction) =>
      `insert rule ${chainText(place)} ${nftMatch(of, direction)} accept comment "${acceptComment(of, direction)}"\n`,
  )
  return { file: 'nft', args: ['-f', '-'], stdin: lines.join('') }
}

function nftMatch(of: string, direction: Direction): string {
  if (!isSubnet(of)) return `${direction === 'in' ? 'iifname' : 'oifname'} "${of}"`
  return `${of.includes(':') ? 'ip6' : 'ip'} ${direction === 'in' ? 'saddr' : 'daddr'} ${of}`
}

/** Takes rules out by handle, in one transaction. */
export function nftDeleteCommand(
  place: Extract<AcceptPlace, { kind: 'nft' }>,
  handles: readonly string[],
): AcceptCommand {
  const lines = handles.map((handle) => `delete rule ${chainText(place)} handle ${handle}\n`)
  return { file: 'nft', args: ['-f', '-'], stdin: lines.join('') }
}

/** The handles of our rules in `nft -a list chain`. */
export function acceptHandles(listing: string, of: string): readonly string[] {
  return listing.split('\n').flatMap((line) => {
    const isOurs = directions.some((direction) => line.includes(`comment "${acceptComment(of, direction)}"`))
    return isOurs ? (/# handle (\d+)$/.exec(line)?.[1] ?? []) : []
  })
}

/** Adds a bridge or a subnet to a firewalld zone or takes it out. At run time only: the rules die with the machine, as the bridge does. */
export function firewalldCommand(action: 'add' | 'remove', zone: string, of: string): AcceptCommand {
  return { file: 'firewall-cmd', args: [`--zone=${zone}`, `--${action}-${firewalldWord(of)}=${of}`] }
}

/** Asks for the zone that an interface or a subnet is in. */
export function firewalldZoneCommand(of: string): AcceptCommand {
  return { file: 'firewall-cmd', args: [`--get-zone-of-${firewalldWord(of)}=${of}`] }
}

function firewalldWord(of: string): string {
  return isSubnet(of) ? 'source' : 'interface'
}

function chainText({ family, table, chain }: Extract<AcceptPlace, { kind: 'nft' }>): string {
  return `${family} ${table} ${chain}`
}
