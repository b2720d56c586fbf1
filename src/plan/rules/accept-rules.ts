// SPDX-License-Identifier: Apache-2.0
// firewall.hostAccept in our own table: which forwarded packets other firewalls are to let pass. Sets keyed by network
// decide, one bit of the packet mark carries the decision to the chains of others (host-accept.ts).

import { markText } from './accept-mark.ts'

/** A chain without the comments of its rules: they have the ruleset's version (ruleset.ts). */
export interface AcceptChain {
  readonly name: string
  readonly hook?: string
  readonly rules: readonly {
    readonly name: string
    readonly expression: string
  }[]
}

/** Where packets are judged. A base chain that runs before it cannot be told anything by a mark. */
export const acceptPriority = -149

/**
 * The chains; without rules where no network wants an accept, so that nobody's marks are touched. They come right after
 * mangle (-150), where others set and save whole marks, and before every filter chain; the bit is gone again right
 * before mangle's postrouting, so that no CONNMARK saves it for packets to come.
 */
export function acceptChains(mark: number | undefined): readonly AcceptChain[] {
  const rules = mark === undefined ? undefined : rulesOf(mark)
  return [
    { name: 'admitted', rules: rules?.admitted ?? [] },
    {
      name: 'admit',
      hook: `type filter hook forward priority ${acceptPriority}`,
      rules: rules?.admit ?? [],
    },
    {
      name: 'unmark',
      hook: 'type filter hook postrouting priority -151',
      rules: rules?.unmark ?? [],
    },
  ]
}

function rulesOf(mark: number) {
  const bit = markText(mark)
  const clear = `meta mark & ${bit} != 0 meta mark set meta mark & ${markText(0xffff_ffff - mark)}`
  const set = `meta mark set meta mark | ${bit} accept`
  const named = (name: string, expression: string) => ({ name: `${name} ${bit}`, expression })
  return {
    admit: [
      // Whoever had the bit set before us would be let in by our accept.
      named('admit-clear', clear),
      // What pods send. A source can be forged: by address it has to come by a veth, from where the answer would go.
      named('admit-from', `iifname @acceptlinks ${set}`),
      named('admit-from4', `meta iifkind "veth" ip saddr @acceptnet4 fib saddr . iif oif exists ${set}`),
      named('admit-from6', `meta iifkind "veth" ip6 saddr @acceptnet6 fib saddr . iif oif exists ${set}`),
      named('admit-to', 'oifname @acceptlinks jump admitted'),
      named('admit-to4', 'ip daddr @acceptnet4 jump admitted'),
      named('admit-to6', 'ip6 daddr @acceptnet6 jump admitted'),
    ],
    // What is sent to pods.
    admitted: [
      named('answer', `ct state established,related ${set}`),
      named('translated', `ct status dnat ${set}`),
      named('new4', `ip daddr . ip saddr @acceptnew4 ${set}`),
      named('new6', `ip6 daddr . ip6 saddr @acceptnew6 ${set}`),
    ],
    unmark: [named('unmark', clear)],
  }
}
