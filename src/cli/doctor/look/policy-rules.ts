// SPDX-License-Identifier: Apache-2.0
// Policy rules (ip-rule(8)) that refuse what pods send or get. A rule behind one that leads to a route, as a VPN's, is
// never reached: the kernel is asked whether it is.

import { familyOf } from '../../../cni/model/address.ts'
import { readDocuments } from '../../../compile/read-ip.ts'
import type { Run } from '../../../system/process/runner.ts'
import { overlapOf } from '../../lint/rules/overlaps.ts'
import type { PodNetwork, RefusalFacts } from './facts.ts'
import { podOf } from './networks.ts'

type Family = 4 | 6

/** A rule of `ip -j rule show`. */
export type PolicyRule = Readonly<Record<string, unknown>>

/** What `ip route get` says where such a rule decides (net/ipv4/fib_rules.c, net/ipv6/fib6_rules.c). */
const refusals: Readonly<Record<string, string>> = {
  prohibit: 'Permission denied',
  blackhole: 'Invalid argument',
  unreachable: 'Network is unreachable',
}

/** Looks. A process for each family; two or three more for each rule that names pods and refuses. */
export async function lookAtPolicyRules(run: Run, networks: readonly PodNetwork[]): Promise<readonly RefusalFacts[]> {
  const there = networks.filter(({ isSetUp }) => isSetUp)
  const found = ([4, 6] as const).map(async (family) => {
    const { stdout } = await run({ file: 'ip', args: ['-j', `-${family}`, 'rule', 'show'] })
    const rules: readonly PolicyRule[] = readDocuments(stdout)
    const named = there.flatMap((network) => rules.flatMap((rule) => ruleOfPods(rule, ofFamily(network, family))))
    return (await Promise.all(named.map(async (each) => await refusedBy(run, family, each)))).flat()
  })
  return (await Promise.all(found)).flat()
}

function ofFamily(network: PodNetwork, family: Family): PodNetwork {
  return {
    ...network,
    subnets: network.subnets.filter((subnet) => familyOf(subnet) === family),
  }
}

/** A rule, and which direction of the pods' packets it names. */
interface RuleOfPods {
  readonly network: PodNetwork
  readonly rule: PolicyRule
  readonly names: 'from' | 'to'
}

/** Nothing where it refuses nothing, or names others, or all but the pods. */
export function ruleOfPods(rule: PolicyRule, network: PodNetwork): readonly RuleOfPods[] {
  if (!(String(rule['action']) in refusals) || 'not' in rule) return []
  const holds = (key: string) => overlapOf(network.subnets, cidrOf(rule, key)) !== undefined
  const isIn = network.links.includes(String(rule['iif']))
  if (holds('src') || (isIn && network.subnets.length > 0)) return [{ network, rule, names: 'from' }]
  return holds('dst') ? [{ network, rule, names: 'to' }] : []
}

function cidrOf(rule: PolicyRule, key: string): readonly string[] {
  const address = rule[key]
  if (typeof address !== 'string' || address === 'all') return []
  const bits = rule[`${key}len`] ?? (familyOf(address) === 6 ? 128 : 32)
  return [`${address}/${String(bits)}`]
}

/** Of RFC 5737 and RFC 3849; nothing is sent there. A lab that has it on a link is asked for that link. */
const someoneFar = { 4: '203.0.113.77', 6: '2001:db8:ffff::77' } as const

/** Empty where the kernel has a way all the same, or the node itself has none. */
async function refusedBy(run: Run, family: Family, { network, rule, names }: RuleOfPods) {
  const [pod] = [...hostOf(rule, names === 'from' ? 'src' : 'dst'), ...network.subnets.flatMap(podOf)]
  const [link] = network.links
  const far = someoneFar[family]
  const get = async (...words: readonly string[]) =>
    await run({ file: 'ip', args: [`-${family}`, 'route', 'get', ...words] })
  const word = refusals[String(rule['action'])] ?? ''
  if (pod === undefined || link === undefined) return []
  const [asked, own] =
    names === 'from' ? [await get(far, 'from', pod, 'iif', link), await get(far)] : [await get(pod), undefined]
  const hasWay = own === undefined || own.code === 0
  if (asked.code === 0 || !asked.stderr.includes(word) || !hasWay) return []
  const what = names === 'from' ? `what ${pod} sends to ${far} by ${link}` : `what is for ${pod}`
  return [{ network: network.name, family, rule: ruleText(rule), asked: what }]
}

/** The address that a rule names, where it is one. */
function hostOf(rule: PolicyRule, key: string): readonly string[] {
  const address = rule[key]
  return typeof address === 'string' && address !== 'all' && rule[`${key}len`] === undefined ? [address] : []
}

/** As `ip rule del` takes it. */
function ruleText(rule: PolicyRule): string {
  const end = (key: string, word: string) => cidrOf(rule, key).flatMap((cidr) => [word, cidr])
  const iif = typeof rule['iif'] === 'string' ? ['iif', rule['iif']] : []
  const words = ['pref', String(rule['priority']), ...end('src', 'from'), ...end('dst', 'to'), ...iif]
  return [...words, String(rule['action'])].join(' ')
}
