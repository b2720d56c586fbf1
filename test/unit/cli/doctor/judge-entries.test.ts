// SPDX-License-Identifier: Apache-2.0
// What doctor says of firewalls that pods meet before they are forwarded, and on their way to the node.

import { describe, expect, it } from 'vitest'
import type { FirewallFacts, NodeFacts } from '../../../../src/commands/doctor/facts.ts'
import { judge } from '../../../../src/commands/doctor/judge.ts'
import { ruleOfPods } from '../../../../src/commands/doctor/kernel.ts'
import { readIptablesMatches, readNftMatches } from '../../../../src/commands/doctor/rule-matches.ts'
import { readIptablesRules } from '../../../../src-before/tools/iptables.ts'
import { healthy, kernel } from './healthy.ts'

const idsOf = (facts: NodeFacts) => judge(facts).map(({ id, severity }) => `${severity} ${id}`)
const input = {
  kind: 'iptables',
  program: 'iptables-nft',
  chain: 'INPUT',
} as const
const raw = { ...input, table: 'raw', chain: 'PREROUTING' } as const
const nft = { kind: 'nft', family: 'inet', table: 'f', chain: 'in' } as const

type Rule = FirewallFacts['rules'][number]

const iptables = (chain: string, words: readonly string[]): readonly Rule[] => {
  const listing = words.map((each) => `-A ${chain} ${each}`).join('\n')
  return readIptablesRules(listing, chain).map((rule) => {
    return {
      ...rule,
      chain,
      isOurs: false,
      matches: readIptablesMatches(rule.text),
    }
  })
}
const withChain = (firewall: FirewallFacts): NodeFacts => ({
  ...healthy,
  firewalls: [firewall],
})
const onInput = (words: readonly string[], endsInDrop = true) =>
  withChain({
    hook: 'input',
    base: input,
    ...(endsInDrop ? { tail: { chain: 'INPUT' } } : {}),
    rules: iptables('INPUT', words),
  })
const onRaw = (...words: readonly string[]) =>
  withChain({
    hook: 'prerouting',
    base: raw,
    rules: iptables('PREROUTING', words),
  })
/** Each text with what it does. */
const onNft = (...texts: readonly (readonly [string, Rule['act']])[]) => {
  const rules = texts.map(([text, act]) => {
    return {
      chain: 'in',
      id: '1',
      act,
      isOurs: false,
      isUnconditional: false,
      text,
      matches: readNftMatches(text),
    }
  })
  return withChain({ hook: 'input', base: nft, tail: { chain: 'in' }, rules })
}

const lo = '-i lo -j ACCEPT'
const established = '-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT'
const ssh = '-p tcp -m tcp --dport 22 -j ACCEPT'

describe('the input hook', () => {
  it.each<[string, NodeFacts, readonly string[]]>([
    ['a policy that drops all', onInput([]), ['error firewall-drops']],
    ['the same behind an accept of lo', onInput([lo]), ['error firewall-drops']],
    ['the same behind one of another link', onInput(['-i docker0 -j ACCEPT']), ['error firewall-drops']],
    ['a last rule that drops all', onInput(['-j DROP', '-i cni0 -j ACCEPT'], false), ['error firewall-drops']],
    ['a drop of the bridge', onInput(['-i cni0 -j DROP'], false), ['error firewall-drops']],
    ['a drop of the range', onInput(['-s 10.240.0.0/16 -j REJECT'], false), ['error firewall-drops']],
    ['a firewall of the node', onInput([lo, established, ssh]), ['note node-firewall']],
    ['a firewall of established connections alone', onInput([lo, established]), ['note node-firewall']],
    [
      'a drop of the bridge behind accepts',
      onInput([established, '-i cni0 -j DROP'], false),
      ['note firewall-drops-some'],
    ],
    ['a drop of a port', onInput(['-s 10.240.0.0/24 -p tcp --dport 22 -j DROP'], false), ['note firewall-drops-some']],
    [
      'a drop of one address of the node',
      onInput(['-i cni0 -d 192.0.2.2 -j DROP'], false),
      ['note firewall-drops-some'],
    ],
    ['an accept of the bridge', onInput([lo, '-i cni0 -j ACCEPT']), []],
    ['an accept of the beginning of its name', onInput(['-i cni+ -j ACCEPT']), []],
    ['an accept of the range', onInput([established, '-s 10.240.0.0/24 -j ACCEPT', '-j DROP'], false), []],
    ['an accept of a wider range', onInput(['-s 10.0.0.0/8 -j ACCEPT']), []],
    ['an accept of all but the uplink', onInput(['! -i eth0 -j ACCEPT']), []],
    ['an accept of all but the bridge', onInput(['! -i cni0 -j ACCEPT']), ['error firewall-drops']],
    ['an accept of new connections', onInput(['-m conntrack --ctstate NEW,ESTABLISHED -j ACCEPT']), []],
    ['a drop of forged sources', onInput(['-i eth0 -s 10.0.0.0/8 -j DROP'], false), []],
    ['a drop of others', onInput(['-s 203.0.113.0/24 -j DROP', '-i docker0 -j DROP'], false), []],
    ['kubelet’s', onInput(['! -s 127.0.0.0/8 -d 127.0.0.0/8 -m conntrack ! --ctstate DNAT -j DROP'], false), []],
    ['nft, nothing accepted', onNft(), ['error firewall-drops']],
    ['nft, links in place', onNft(['iifname { "lo", "cni0" } accept', 'accept']), []],
    ['nft, other links in place', onNft(['iifname { "lo", "docker0" } accept', 'accept']), ['error firewall-drops']],
    ['nft, ranges in place', onNft(['ip saddr { 10.7.0.0/16, 10.240.0.0/24 } accept', 'accept']), []],
    ['nft, a set of links', onNft(['iifname @inner accept', 'accept']), ['note node-firewall']],
    ['nft, a set of others', onNft(['ip saddr @admins accept', 'accept']), ['note node-firewall']],
    [
      'nft, a map of states',
      onNft(['ct state vmap { established : accept, invalid : drop }', 'none']),
      ['note node-firewall'],
    ],
    ['nft, established and new', onNft(['ct state { established, new } accept', 'accept']), []],
    [
      'nft, a drop that is logged',
      onNft(['iifname "cni0" log prefix "no " drop', 'drop'], ['accept', 'accept']),
      ['error firewall-drops'],
    ],
  ])('%s', (_, facts, ids) => {
    expect(idsOf(facts)).toEqual(ids)
  })

  it('prints what pods need of the node, behind all rules', () => {
    expect(judge(onInput([]))[0]?.run?.split('\n')).toEqual([
      'iptables-nft -A INPUT -i cni0 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT',
      'iptables-nft -A INPUT -i cni0 -p icmp -j ACCEPT',
    ])
    expect(judge(onNft())[0]?.run?.split('\n')).toEqual([
      'nft add rule inet f in iifname cni0 ct state established,related accept',
      'nft add rule inet f in iifname cni0 meta l4proto icmp accept',
    ])
  })

  it('prints the same right before a rule that drops the rest, and nothing for a chain that others may lead to', () => {
    const single = '-d 192.0.2.2 -j DROP'
    expect(judge(onInput([single, '-j DROP'], false))[0]?.run).toMatch(
      /^iptables-nft -I INPUT 2 .* RELATED,ESTABLISHED -j ACCEPT\niptables-nft -I INPUT 2 -i cni0 -p icmp -j ACCEPT$/,
    )
    const rules = iptables('LOGDROP', ['-j LOG', '-j DROP'])
    const found = judge(withChain({ hook: 'input', base: input, rules }))
    expect(found.map(({ id, run }) => ({ id, run }))).toEqual([{ id: 'firewall-drops', run: undefined }])
  })

  it('prints no command where an administrator chose what pods reach', () => {
    const dns = onInput([established, '-i cni0 -p udp -m udp --dport 53 -j ACCEPT'])
    expect(judge(dns).map(({ id, run }) => ({ id, run }))).toEqual([{ id: 'node-firewall', run: undefined }])
  })

  it('of a family that no network has: nothing', () => {
    const six = withChain({
      hook: 'input',
      base: { ...input, program: 'ip6tables-nft' },
      tail: { chain: 'INPUT' },
      rules: [],
    })
    expect(idsOf(six)).toEqual([])
  })

  it('a chain that packets may have left before it drops is no end', () => {
    const [from, drop] = ['-m addrtype --dst-type LOCAL -j RETURN', '-j DROP']
    const rules = [...iptables('not-local', [from, drop]), ...iptables('INPUT', ['-i cni0 -j ACCEPT'])]
    expect(idsOf(withChain({ hook: 'input', base: input, tail: { chain: 'INPUT' }, rules }))).toEqual([])
  })
})

describe('the prerouting hook', () => {
  it.each<[string, NodeFacts, readonly string[]]>([
    ['a drop of the range', onRaw('-s 10.240.0.0/24 -j DROP'), ['error firewall-drops']],
    ['a drop of what is for it', onRaw('-d 10.240.0.0/24 -j DROP'), ['error firewall-drops']],
    ['a drop of the bridge', onRaw('-i cni0 -j DROP'), ['error firewall-drops']],
    ['metadata of a cloud', onRaw('-s 10.240.0.0/24 -d 169.254.169.254 -j DROP'), ['note firewall-drops-some']],
    ['forged sources', onRaw('-i eth0 -s 10.0.0.0/8 -j DROP'), []],
    ['what Docker drops for its own', onRaw('-d 172.17.0.2 ! -i docker0 -j DROP'), []],
    ['what is not from the bridge', onRaw('-d 10.240.0.2 ! -i cni0 -j DROP'), []],
    ['a port of everybody', onRaw('-p udp --dport 1900 -j DROP'), []],
  ])('%s', (_, facts, ids) => {
    expect(idsOf(facts)).toEqual(ids)
  })

  it('the printed cure names the table', () => {
    const [found] = judge(onRaw('-s 10.240.0.0/24 -j DROP'))
    expect(found?.run).toBe('iptables-nft -t raw -D PREROUTING -s 10.240.0.0/24 -j DROP')
    expect(found?.message).toContain('PREROUTING of iptables-nft, table raw')
  })
})

describe('policy rules', () => {
  const network = {
    name: 'pods',
    subnets: ['10.240.0.0/24'],
    links: ['cni0'],
    bridges: [],
    accepts: false,
    isSetUp: true,
  }
  const all = { priority: 5, src: 'all', action: 'prohibit' }
  const uplinks = new Map([['up0', '192.0.2.1']])
  it.each([
    ['the range', { ...all, src: '10.240.0.0', srclen: 24 }, ['from']],
    ['one pod', { ...all, src: '10.240.0.9', action: 'blackhole' }, ['from']],
    ['the bridge', { ...all, iif: 'cni0', action: 'unreachable' }, ['from']],
    ['what is for the range', { ...all, dst: '10.0.0.0', dstlen: 8 }, ['to']],
    ['what is for the range and comes in by the uplink', { ...all, dst: '10.0.0.0', dstlen: 8, iif: 'up0' }, ['to']],
    ['all that comes in by the uplink', { ...all, iif: 'up0' }, ['to']],
    ['what is for the range and comes from another link', { ...all, dst: '10.0.0.0', dstlen: 8, iif: 'docker0' }, []],
    ['others', { ...all, src: '10.7.0.0', srclen: 16 }, []],
    ['all but the range', { ...all, not: null, src: '10.240.0.0', srclen: 24 }, []],
    ['a table for the range', { priority: 5, src: '10.240.0.0', srclen: 24, table: 'vpn' }, []],
  ])('that name %s', (_, rule, names) => {
    expect(ruleOfPods(rule, network, uplinks).map((each) => each.names)).toEqual(names)
  })

  it('by which the kernel refuses are one finding each, with what takes them away', () => {
    const rule = 'pref 5 from 10.240.0.0/24 prohibit'
    const refusals = [{ network: 'pods', family: 4, rule, asked: 'what 10.240.0.2 sends' }] as const
    const found = judge({ ...healthy, kernel: { ...kernel, refusals } })
    expect(found.map(({ id, run }) => ({ id, run }))).toEqual([{ id: 'rule-refuses', run: `ip -4 rule del ${rule}` }])
  })
})
