// SPDX-License-Identifier: Apache-2.0
// What an attachment may leave behind: the objects that a network or the machine shares, by name.
// Everything else that is in a snapshot afterwards and was not before is a leak.

import { expect } from 'vitest'
import { type Host, type Snapshot, snapshot } from './host.ts'

/** Tests name their bridges like this; a bridge, its addresses and its routes stay for the next pod. */
const bridge = '(?:cni0|br-[a-z0-9]+)'

/** Sets whose elements are per network, not per pod. */
const networkSets = ['masq4', 'masq6', 'keep4', 'keep6', 'hairpin4', 'hairpin6']

/** Elements that name bridges and nothing else, in sets of interfaces: they go with the bridge. */
const onlyBridges = new RegExp(`elements = \\{(?:[\\s.,]*"${bridge}")+\\s*\\}`)

interface Shared {
  readonly what: string
  readonly line: RegExp
}

const shared: Readonly<Record<Exclude<keyof Snapshot, 'rules'>, readonly Shared[]>> = {
  links: [{ what: 'the bridge', line: new RegExp(`^${bridge}: `) }],
  routes: [{ what: 'the gateway address and its routes', line: new RegExp(` dev ${bridge} `) }],
  state: [
    { what: 'the directories of networks', line: /^networks(\/[^/]+)? d$/ },
    { what: 'where a foreign firewall lets it through', line: /^networks\/[^/]+\/(network|chained)-accept\.json f$/ },
    { what: 'what the network shares', line: /^networks\/[^/]+\/(network|chained)\.json f$/ },
    { what: 'where the round robin is', line: /^networks\/[^/]+\/last\.\d+ f$/ },
    { what: 'the directory of host ports', line: /^ports d$/ },
    { what: 'empty directories', line: /^networks\/[^/]+\/(pending|attachments|addresses|cooling|locks) d$/ },
  ],
  sysctls: [{ what: 'forwarding', line: /^net\.(ipv4\.ip_forward|ipv6\.conf\.all\.forwarding) = [01]$/ }],
}

/** A snapshot without what may stay. */
export function withoutShared(taken: Snapshot): Snapshot {
  const [links, routes, sysctls, state] = (['links', 'routes', 'sysctls', 'state'] as const).map((part) =>
    strip(part, taken[part]),
  )
  return { links, routes, sysctls, state, rules: foreignRules(taken.rules) } as Snapshot
}

/** Fails when the host has anything that it had not in `before`, and that is not shared. */
export function expectNothingLeft(host: Host, before: Snapshot): void {
  expect(withoutShared(snapshot(host))).toEqual(withoutShared(before))
}

/** Fails when anything at all has changed, shared objects included. */
export function expectUntouched(host: Host, before: Snapshot): void {
  expect(snapshot(host)).toEqual(before)
}

function strip(part: keyof typeof shared, text: string): string {
  const lines = text.split('\n').filter((line) => !shared[part].some((each) => each.line.test(line)))
  return lines.join('\n')
}

/** Our tables may stay with their sets, chains and rules, and with the elements of networks; elements of pods may not. */
function foreignRules(text: string): string {
  return text.replace(/^table (?:inet|bridge) trestle \{\n[\s\S]*?^\}\n/gm, (table) => {
    const sets = [...table.matchAll(/^\t(?:set|map) (\S+) \{\n([\s\S]*?)^\t\}\n/gm)]
    const left = sets.filter(
      ([, name, body]) => !networkSets.includes(name ?? '') && body?.includes('elements = ') && !onlyBridges.test(body),
    )
    return left.map(([whole]) => whole).join('')
  })
}
