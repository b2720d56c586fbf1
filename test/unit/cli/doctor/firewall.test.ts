// SPDX-License-Identifier: Apache-2.0
// Firewalls of others as `nft -j` lists them: which packets of pods a rule is for, and which chains doctor names.

import { expect, it } from 'vitest'
import { checkFirewalls } from '../../../../src/commands/doctor/firewalls.ts'
import type { Node, PodNetwork } from '../../../../src/commands/doctor/observed-node.ts'
import { acceptMark } from '../../../../src/kernel/nft-table.ts'
import { uplinkName } from '../../../../src/kernel/proc.ts'

type Rule = readonly object[]
type Chain = Readonly<Record<string, string>>

const pods = { name: 'pods', subnets: ['10.240.0.0/24'], links: ['cni0'], bridges: ['cni0'], accepts: false }
const up = uplinkName() ?? 'uplink'

/** What doctor says of a base chain f with these rules: of others only those that it leads to. */
async function said(
  rules: Readonly<Record<string, readonly Rule[]>>,
  chain: Chain = {},
  network: object = {},
  text = 'iifname "cni0" counter packets 1 bytes 60 drop',
) {
  const table = { family: 'inet', table: 'fw', ...chain }
  const base = { type: 'filter', hook: 'forward', policy: 'accept', ...table, name: 'f' }
  const listed = Object.entries(rules).flatMap(([name, all]) =>
    all.map((expr) => ({ rule: { family: table.family, table: table.table, chain: name, handle: 7, expr } })),
  )
  const flags = chain['flags'] === undefined ? '' : `\tflags ${chain['flags']}\n`
  const lines = `${flags}\t\t${text} # handle 7\n`
  const listing = `table ${table.family} ${table.table} { # handle 1\n${lines}}\n`
  const ask = ({ args }: { readonly args: readonly string[] }) => {
    const json = JSON.stringify({ nftables: [{ chain: base }, ...listed] })
    return { code: 0, stdout: args[0] === '-j' ? json : listing }
  }
  const networks: readonly PodNetwork[] = [{ ...pods, isSetUp: true, ...network }]
  const found = await checkFirewalls({ machine: { ask }, networks } as unknown as Node)
  return found.map(({ id, message }) => `${id}: ${message}`).join('; ')
}

const drops = { policy: 'drop' }
/** Packets that are said to be dropped. */
const wayIn = (text: string) => /packets (from|to) pods/.exec(text)?.[1] ?? text

const is = (left: object, right: unknown, op = '==') => ({ match: { op, left, right } })
const isNot = (left: object, right: unknown) => is(left, right, '!=')
const payload = (protocol: string, field: string) => ({ payload: { protocol, field } })
const [saddr, daddr, dport] = [payload('ip', 'saddr'), payload('ip', 'daddr'), payload('tcp', 'dport')]
const [iif, oif, mark] = ['iifname', 'oifname', 'mark'].map((key) => ({ meta: { key } })) as [object, object, object]
const state = { ct: { key: 'state' } }
const range = (addr: string, len: number) => ({ prefix: { addr, len } })
const own = range('10.240.0.0', 24)
const blocked = is(daddr, '@blocked')
const xt = (name: string, type = 'match') => ({ xt: { type, name } })
const [accept, drop, back] = [{ accept: null }, { drop: null }, { return: null }]
const jump = (target: string) => ({ jump: { target } })

type Way = 'from' | 'to' | ''
it.each<[what: string, conditions: Rule, ifDropped: Way, ifAcceptedAlone: Way]>([
  ['nothing', [], 'from', ''],
  ['their range as source', [is(saddr, own)], 'from', 'to'],
  ['a wider one', [is(saddr, range('10.0.0.0', 8))], 'from', 'to'],
  ['one of them as destination', [is(daddr, '10.240.0.2')], 'to', 'from'],
  ['other sources, by a link', [isNot(saddr, own), is(iif, up)], 'to', 'from'],
  ['links by their beginnings', [is(iif, 'cni*'), is(oif, `${up.slice(0, 2)}*`)], 'from', 'to'],
  ['what does not leave by the bridge', [is(iif, 'cni0'), isNot(oif, 'cni0')], 'from', 'to'],
  ['a set of sources', [is(saddr, { set: [range('10.66.0.0', 16), own] })], 'from', 'to'],
  ['a port', [is(dport, 443)], 'from', ''],
  ['another port', [is(dport, 25)], '', 'from'],
  ['some ports', [is(dport, { set: [80, 443] })], 'from', ''],
  ['a range of ports', [is(dport, { range: [440, 450] })], '', ''],
  ['all ports of UDP but one', [isNot(payload('udp', 'dport'), 53)], '', 'from'],
  ['sources of IPv6 but for some', [isNot(payload('ip6', 'saddr'), 'fd00::1')], '', 'from'],
  ['answers', [is(state, ['established', 'related'])], 'to', 'from'],
  ['all but new connections', [isNot(state, 'new')], 'to', 'from'],
  ['invalid packets', [is(state, 'invalid')], '', 'from'],
  ['a set with a name', [blocked], '', ''],
  ['a set with a name, and another source', [is(saddr, range('10.66.0.0', 16)), blocked], '', 'from'],
  ['a mark of others', [is({ '&': [mark, 0x4000] }, 0x4000)], '', 'from'],
  ['no mark', [is(mark, 0)], 'from', ''],
  ['fragments', [isNot({ '&': [payload('ip', 'frag-off'), 8191] }, 0)], '', 'from'],
  ['flags of TCP', [isNot({ '&': [payload('tcp', 'flags'), 23] }, 2), is(state, 'new')], '', 'to'],
  ['a comment of iptables', [xt('comment'), is(saddr, own)], 'from', 'to'],
  ['a condition of iptables', [xt('addrtype')], '', ''],
])('a rule for %s', async (_, conditions, ifDropped, ifAcceptedAlone) => {
  expect(wayIn(await said({ f: [[...conditions, drop]] }))).toBe(ifDropped)
  expect(wayIn(await said({ f: [[...conditions, accept]] }, drops))).toBe(ifAcceptedAlone)
})

const states = (verdicts: Readonly<Record<string, object>>) => ({
  vmap: { key: state, data: { set: Object.entries(verdicts) } },
})
it.each<[what: string, rules: Readonly<Record<string, readonly Rule[]>>, chain: Chain, way: Way]>([
  ['an accept before the drop', { f: [[accept], [drop]] }, drops, ''],
  ['a drop behind a log', { f: [[{ log: {} }, { counter: {} }, drop]] }, {}, 'from'],
  ['a reject', { f: [[{ reject: {} }]] }, {}, 'from'],
  ['a reject of iptables', { f: [[xt('REJECT', 'target')]] }, {}, 'from'],
  ['a log of iptables', { f: [[xt('LOG', 'target')]] }, {}, ''],
  ['a return', { f: [[back], [accept]] }, drops, 'from'],
  ['a return that may be', { f: [[blocked, back], [drop]] }, {}, ''],
  ['a jump', { f: [[jump('z')]], z: [[drop]] }, {}, 'from'],
  ['a jump that may be', { f: [[blocked, jump('z')]], z: [[drop]] }, {}, ''],
  ['a jump that comes back', { f: [[jump('z')], [accept]], z: [[back], [drop]] }, drops, ''],
  ['a jump to an accept', { f: [[blocked, jump('z')]], z: [[accept]] }, drops, ''],
  ['a goto, which does not come back', { f: [[{ goto: { target: 'z' } }], [accept]] }, drops, 'from'],
  ['chains in a circle', { f: [[jump('z')]], z: [[jump('f')]] }, drops, 'from'],
  ['a map of states', { f: [[states({ established: accept, invalid: drop })], [is(oif, 'cni0'), drop]] }, {}, ''],
  ['a map that accepts answers alone', { f: [[states({ established: accept })]] }, drops, 'from'],
  ['a map of chains', { f: [[states({ new: jump('z'), established: accept })]] }, drops, ''],
])('%s', async (_, rules, chain, way) => expect(wayIn(await said(rules, chain))).toBe(way))

it.each<[text: string, way: Way]>([
  ['ct state established,related accept', 'from'],
  ['ct state new,related,established accept', ''],
  ['ct state ! invalid accept', ''],
  ['xt match "conntrack" accept', ''],
])('reads states of iptables in the text of the rule: %s', async (text, way) => {
  expect(wayIn(await said({ f: [[xt('conntrack'), accept]] }, drops, {}, text))).toBe(way)
})

it('knows the mark of packets that trestle accepts', async () => {
  const f = [[is({ '&': [mark, acceptMark] }, acceptMark), accept]]
  expect(await said({ f }, drops, { accepts: true })).toBe('')
  expect(wayIn(await said({ f }, drops))).toBe('from')
})

it.each<[what: string, chain: Chain, network?: object]>([
  ['a chain of nat', { type: 'nat' }],
  ["trestle's own table", { table: 'trestle' }],
  ['firewalld', { table: 'firewalld' }],
  ['a dormant table', { flags: 'dormant' }],
  ['another family', { family: 'ip6' }],
  ['a table of bridges', { family: 'bridge' }],
  ['what the node sends', { hook: 'output' }],
  ['what a link takes in', { hook: 'ingress' }],
  ['a forward hook where the first ADD puts its accept', {}, { accepts: true, isSetUp: false }],
])('says nothing of %s', async (_, chain, network) => {
  expect(await said({ f: [[drop]] }, { ...drops, ...chain }, network)).toBe('')
})

it('names the chain, the subnet and the rule or the policy, once for a chain', async () => {
  const subnets = ['10.240.0.0/24', 'fd00:240::/64']
  const head = 'firewall-drops: nft chain inet fw f drops packets from pods of'
  expect(await said({}, drops, { subnets })).toBe(`${head} 10.240.0.0/24, by its policy`)
  const ofIpv6 = { f: [[is({ meta: { key: 'nfproto' } }, 'ipv6'), drop]] }
  expect(await said(ofIpv6, {}, { subnets })).toBe(`${head} fd00:240::/64, by \`iifname "cni0" drop\` of chain f`)
})

it('is a note in the input hook, of what pods open to the node', async () => {
  const input = { ...drops, hook: 'input' }
  expect(await said({ f: [[is(state, 'established'), accept]] }, input)).toBe(
    'node-firewall: nft chain inet fw f drops what pods of 10.240.0.0/24 open to the node, by its policy',
  )
  expect(await said({ f: [[is(saddr, own), accept]] }, input)).toBe('')
})

it('takes no failure of nft for a node without rules', async () => {
  const ask = () => ({ code: 1, stdout: '', stderr: 'Operation not permitted\n' })
  const asked = checkFirewalls({ machine: { ask }, networks: [] } as unknown as Node)
  await expect(asked).rejects.toThrow('nft cannot list the rules: Operation not permitted')
})
