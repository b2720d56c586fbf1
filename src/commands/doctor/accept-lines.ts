// SPDX-License-Identifier: Apache-2.0
// Command lines for people, which change a chain of others. They are shown, and never run.

import type { ChainPlace } from '../../../src-before/features/accept-place.ts'
import { placeWords, tableWords } from '../../../src-before/tools/accept-commands.ts'
import { type PodPackets, podAcceptText, ruleRemovalText } from '../../../src-before/tools/nft.ts'

/** Accepts packets of pods in a chain of others: before the rule with this id, or behind all of its rules. */
export function acceptLine(place: ChainPlace, before: string | undefined, packets: PodPackets): string {
  if (place.kind === 'nft') return `nft ${podAcceptText(place, packets, before)}`
  const { end, of, only } = packets
  const option = of.includes('/') ? { from: '-s', to: '-d' } : { from: '-i', to: '-o' }
  const match = [option[end], of, ...(only === undefined ? [] : [partWords[only]])]
  return [place.program, ...tableWords(place), ...placeWords(place, before), ...match, '-j ACCEPT'].join(' ')
}

const partWords = {
  answers: '-m conntrack --ctstate RELATED,ESTABLISHED',
  translated: '-m conntrack --ctstate DNAT',
  icmp: '-p icmp',
  'ipv6-icmp': '-p ipv6-icmp',
} as const

/**
 * Takes a rule of others out. `text`: as the tool shows it; nft goes by the handle.
 */
export function ruleRemovalLine(
  place: ChainPlace,
  { id, text }: { readonly id: string; readonly text: string },
): string {
  if (place.kind === 'nft') return `nft ${ruleRemovalText(place, id).trimEnd()}`
  return [place.program, ...tableWords(place), text.replace(/^-A /, '-D ')].join(' ')
}
