// SPDX-License-Identifier: Apache-2.0
// The command lines of an accept pair in somebody else's chain. The rules' comments name us and the
// bridge, so that whoever reads the chain knows whose they are.

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

/** The rule's comment: `trestle cni0 in`. */
export function acceptComment(bridge: string, direction: Direction): string {
  return `trestle ${bridge} ${direction}`
}

/** `-C`, `-I` or `-D` of one rule with an iptables variant. */
export function iptablesCommand(
  action: '-C' | '-I' | '-D',
  place: Extract<AcceptPlace, { kind: 'iptables' }>,
  rule: { readonly bridge: string; readonly direction: Direction },
): AcceptCommand {
  requireNoPattern(rule.bridge)
  const comment = acceptComment(rule.bridge, rule.direction)
  const match = [rule.direction === 'in' ? '-i' : '-o', rule.bridge, '-m', 'comment', '--comment', comment]
  return { file: place.program, args: ['-w', lockWaitS, action, place.chain, ...match, '-j', 'ACCEPT'] }
}

/** The chain's rules, as commands. */
export function iptablesListCommand({ program, chain }: Extract<AcceptPlace, { kind: 'iptables' }>): AcceptCommand {
  return { file: program, args: ['-w', lockWaitS, '-S', chain] }
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
export function nftInsertCommand(place: Extract<AcceptPlace, { kind: 'nft' }>, bridge: string): AcceptCommand {
  if (!/^[\w.@+-]+$/.test(bridge)) {
    throw new CniError(CniCode.invalidConfig, `"${printable(bridge)}" cannot be named in a rule`, {
      details: 'with "firewall" a bridge name may have letters, digits and _ . @ + - only',
    })
  }
  const lines = directions.map((direction) => {
    const match = `${direction === 'in' ? 'iifname' : 'oifname'} "${bridge}"`
    return `insert rule ${chainText(place)} ${match} accept comment "${acceptComment(bridge, direction)}"\n`
  })
  return { file: 'nft', args: ['-f', '-'], stdin: lines.join('') }
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
export function acceptHandles(listing: string, bridge: string): readonly string[] {
  return listing.split('\n').flatMap((line) => {
    const isOurs = directions.some((direction) => line.includes(`comment "${acceptComment(bridge, direction)}"`))
    return isOurs ? (/# handle (\d+)$/.exec(line)?.[1] ?? []) : []
  })
}

/** Adds the bridge to a firewalld zone or takes it out. At run time only: the rules die with the machine, as the bridge does. */
export function firewalldCommand(action: 'add' | 'remove', zone: string, bridge: string): AcceptCommand {
  return { file: 'firewall-cmd', args: [`--zone=${zone}`, `--${action}-interface=${bridge}`] }
}

/** Asks for the zone that an interface is in. */
export function firewalldZoneCommand(dev: string): AcceptCommand {
  return { file: 'firewall-cmd', args: [`--get-zone-of-interface=${dev}`] }
}

function chainText({ family, table, chain }: Extract<AcceptPlace, { kind: 'nft' }>): string {
  return `${family} ${table} ${chain}`
}
