// SPDX-License-Identifier: Apache-2.0
// What iptables-save prints, as doctor reads it: which packets a rule is for, and the commands against it.

import { expect, it } from 'vitest'
import { readSaved } from '../../../../src/commands/doctor/iptables.ts'
import {
  addressMatches,
  linkMatches,
  type Matches,
  type Packet,
} from '../../../../src/commands/doctor/packet-filter.ts'

const sent: Packet = {
  family: 4,
  in: 'cni0',
  out: 'up0',
  from: '10.240.0.2',
  to: '203.0.113.77',
  state: 'new',
  isMarked: false,
}
const answer: Packet = { ...sent, in: 'up0', out: 'cni0', from: sent.to, to: sent.from, state: 'established' }

const saved = (...lines: readonly string[]) => readSaved(['*filter', ...lines, 'COMMIT', ''].join('\n'), 'iptables', 4)
/** The only rule of a FORWARD. */
function ruleOf(words: string) {
  const [chain] = saved(':FORWARD ACCEPT [0:0]', `-A FORWARD ${words}`)
  const [rule] = chain?.chains.get('FORWARD') ?? []
  if (rule === undefined) throw new Error(`no rule: ${words}`)
  return rule
}

it.each<[words: string, ofSent: Matches, ofAnswer: Matches]>([
  ['-j DROP', 'yes', 'yes'],
  ['-s 10.240.0.0/24 -j DROP', 'yes', 'no'],
  ['-d 10.240.0.2/32 -j DROP', 'no', 'yes'],
  ['! -s 10.240.0.0/24 -i up0 -j DROP', 'no', 'yes'],
  ['-i cni+ -o up+ -j DROP', 'yes', 'no'],
  ['! -i cni0 -o cni0 -j ACCEPT', 'no', 'yes'],
  ['-p tcp -m tcp --dport 443 -j DROP', 'yes', 'yes'],
  ['-p tcp -m tcp --dport 25 -j DROP', 'no', 'no'],
  ['-p tcp -m multiport --dports 80,443 -j DROP', 'maybe', 'maybe'],
  ['-p udp -m udp ! --dport 53 -j DROP', 'no', 'no'],
  ['-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT', 'no', 'yes'],
  ['-m state ! --state NEW -j ACCEPT', 'no', 'yes'],
  ['-m conntrack --ctstate INVALID -j DROP', 'no', 'no'],
  ['-m set --match-set blocked src -j DROP', 'maybe', 'maybe'],
  ['-s 10.66.0.0/16 -m set --match-set blocked src -j DROP', 'no', 'no'],
  ['-m comment --comment "from -s 10.66.0.0/16 -j DROP" -s 10.240.0.0/24 -j REJECT --reject-with x', 'yes', 'no'],
  ['-m mark --mark 0x4000/0x4000 -j DROP', 'no', 'no'],
  ['-m mark --mark 0x1000/0x1000 -j ACCEPT', 'no', 'no'],
  ['-m mark --mark 0x0 -j DROP', 'yes', 'yes'],
])('%s is for what pods send: %s, for answers: %s', (words, ofSent, ofAnswer) => {
  const { matches } = ruleOf(words)
  expect([matches(sent), matches(answer)]).toEqual([ofSent, ofAnswer])
})

it('takes no rule for fragments for one of whole packets', () => {
  expect(ruleOf('-f -j DROP').matches(sent)).not.toBe('yes')
})

it('knows the mark of packets that trestle accepts', () => {
  expect(ruleOf('-m mark --mark 0x1000/0x1000 -j ACCEPT').matches({ ...sent, isMarked: true })).toBe('yes')
})

it.each([
  ['-j DROP', 'drop', undefined],
  ['-i cni0 -j REJECT --reject-with icmp-port-unreachable', 'drop', undefined],
  ['-j RETURN', 'return', undefined],
  ['-m comment --comment x -j LOCAL-FW', 'jump', 'LOCAL-FW'],
  ['-g LOCAL-FW', 'goto', 'LOCAL-FW'],
  ['-j LOG --log-prefix "-j DROP "', 'none', undefined],
  ['-s 10.0.0.0/8', 'none', undefined],
])('%s: %s', (words, verdict, target) => {
  const { verdict: read, target: to } = ruleOf(words)
  expect({ read, to }).toEqual({ read: verdict, to: target })
})

it('reads base chains with their policies and commands, and no nat table', () => {
  const text = [
    ...['*nat', ':PREROUTING DROP [0:0]', 'COMMIT'],
    ...['*raw', ':PREROUTING ACCEPT [0:0]', '-A PREROUTING -i cni0 -j DROP', 'COMMIT'],
    ...['*filter', ':FORWARD DROP [3:180]', ':LOCAL-FW - [0:0]', '-A FORWARD -j LOCAL-FW', '-A LOCAL-FW -j DROP'],
    'COMMIT',
  ]
  const [raw, forward, ...more] = readSaved(text.join('\n'), 'iptables-nft', 4)
  expect(more).toEqual([])
  expect(raw).toMatchObject({ hook: 'prerouting', policy: 'accept', text: 'PREROUTING of iptables-nft, table raw' })
  expect(raw?.chains.get('PREROUTING')?.[0]?.remove).toBe('iptables-nft -t raw -D PREROUTING -i cni0 -j DROP')
  expect(forward).toMatchObject({ hook: 'forward', policy: 'drop', text: 'FORWARD of iptables-nft' })
  expect(forward?.append('-s X -j ACCEPT')).toBe('iptables-nft -A FORWARD -s X -j ACCEPT')
  const [drop] = forward?.chains.get('LOCAL-FW') ?? []
  expect(drop?.insert('-s X -j ACCEPT')).toBe('iptables-nft -I LOCAL-FW 1 -s X -j ACCEPT')
})

it.each<[Matches, Matches]>([
  [addressMatches('10.240.0.2', '10.240.0.2'), 'yes'],
  [addressMatches('fd00:240::2', 'fd00:240::/64'), 'yes'],
  [addressMatches('10.240.0.2', '::/0'), 'no'],
  [addressMatches('10.240.0.2', '10.0.0.2/255.0.0.255'), 'maybe'],
  [linkMatches('cni0', 'cni*'), 'yes'],
  [linkMatches('cni0', 'cni'), 'no'],
])('one address or link, case %#', (found, expected) => expect(found).toBe(expected))
