// SPDX-License-Identifier: Apache-2.0
// Command lines for people, which change a chain of others. They are shown, and never run.

import type { ChainPlace } from '../../features/accept-place.ts'
import { tableWords } from '../../tools/accept-commands.ts'
import { ruleRemovalText, sparingText, subnetAcceptTexts } from '../../tools/nft.ts'

/** Let the packets of a subnet pass a chain of others. */
export function subnetAcceptLines(place: ChainPlace, subnet: string): readonly string[] {
  if (place.kind === 'nft') return subnetAcceptTexts(place, subnet).map((text) => `nft ${text}`)
  const insert = [place.program, ...tableWords(place), '-I', place.chain].join(' ')
  return [
    `${insert} -d ${subnet} -m conntrack --ctstate RELATED,ESTABLISHED,DNAT -j ACCEPT`,
    `${insert} -s ${subnet} -j ACCEPT`,
  ]
}

/** Accepts what comes in by a link, or from a subnet (a CIDR), before every rule. */
export function inputAcceptLine(place: ChainPlace, of: string): string {
  if (place.kind === 'nft') return `nft ${subnetAcceptTexts(place, of).at(-1)}`
  const words = [of.includes('/') ? '-s' : '-i', of]
  return [place.program, ...tableWords(place), '-I', place.chain, ...words, '-j ACCEPT'].join(' ')
}

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

/** Accepts packets from or to a subnet right before a rule of others. */
export function sparingLine(
  place: ChainPlace,
  before: string,
  { end, subnet }: { readonly end: 'from' | 'to'; readonly subnet: string },
): string {
  if (place.kind === 'nft') return `nft ${sparingText(place, before, `${end === 'from' ? 's' : 'd'}addr ${subnet}`)}`
  const words = [...tableWords(place), '-I', place.chain, before, end === 'from' ? '-s' : '-d', subnet]
  return [place.program, ...words, '-j ACCEPT'].join(' ')
}
