// SPDX-License-Identifier: Apache-2.0
// The accepts of release 0.1 in chains of others: a pair of rules at the head of the chain for each bridge or subnet.
// They are only taken out any more.

import { patternNameProblem, unsafeNameProblem } from '../cni/model/link-name.ts'
import type { ChainPlace } from '../plan/rules/host-accept.ts'
import { type AcceptCommand, type IptablesPlace, isSubnet, type NftPlace, nftCommand } from './host-accept.ts'
import { ruleRemovalText } from './nft.ts'
import { readRuleTexts } from './read-foreign-nft.ts'

const directions = ['in', 'out'] as const

/**
 * `-C` and `-D` of the rules of a pair. None for a name that iptables would read as a pattern or an option: it got
 * none.
 */
export function pairCommands(
  place: IptablesPlace,
  subject: string,
): readonly { check: AcceptCommand; remove: AcceptCommand }[] {
  if (!isSubnet(subject) && (patternNameProblem(subject) ?? unsafeNameProblem(subject)) !== undefined) return []
  return directions.map((direction) => ({
    check: iptablesCommand('-C', place, { subject, direction }),
    remove: iptablesCommand('-D', place, { subject, direction }),
  }))
}

function iptablesCommand(
  action: '-C' | '-D',
  place: IptablesPlace,
  { subject, direction }: { readonly subject: string; readonly direction: 'in' | 'out' },
): AcceptCommand {
  const [from, to] = isSubnet(subject) ? ['-s', '-d'] : ['-i', '-o']
  const match = [direction === 'in' ? from : to, subject, '-m', 'comment', '--comment', pairComment(subject, direction)]
  return { file: place.program, args: ['-w', '5', action, place.chain, ...match, '-j', 'ACCEPT'] }
}

/** The handles of a pair in `nft -a list chain`. */
export function pairHandles(listing: string, subject: string): readonly string[] {
  const comments = directions.map((direction) => `comment "${pairComment(subject, direction)}"`)
  const rules = [...readRuleTexts(listing)]
  return rules.flatMap(([handle, text]) => (comments.some((comment) => text.includes(comment)) ? [handle] : []))
}

/** Takes the rules out in one transaction. */
export function deletePairCommand(place: NftPlace, handles: readonly string[]): AcceptCommand {
  return nftCommand(handles.map((handle) => ruleRemovalText(place, handle)).join(''))
}

function pairComment(subject: string, direction: (typeof directions)[number]): string {
  return `trestle ${subject} ${direction}`
}

/** Whether a place may have such a pair: firewalld's zones are as they were. */
export function isChainPlace<T extends { readonly kind: string }>(place: T | ChainPlace): place is ChainPlace {
  return place.kind !== 'firewalld'
}
