// SPDX-License-Identifier: Apache-2.0
// Whether a firewall of somebody else drops what pods send and get: a few packets are followed through its rules.

import { firstOf, formatAddress, lastOf, toCidr } from '../../cni/addresses.ts'
import { uplinkName } from '../../kernel/proc.ts'
import type { Machine } from '../../process/machine.ts'
import { type Finding, findingOf } from '../findings.ts'
import { savedChains } from './iptables.ts'
import { nftChains } from './nftables.ts'
import { type Node, type PodNetwork, podOf } from './observed-node.ts'
import { type BaseChain, type Drop, dropOf, type Packet } from './packet-filter.ts'
import { isPlainCommand } from './shell.ts'

export async function checkFirewalls(node: Node): Promise<readonly Finding[]> {
  const chains = [...(await nftChains(node.machine)), ...(await savedChains(node.machine))]
  const found: Finding[] = []
  for (const network of node.networks) {
    for (const chain of chains) found.push(...(await judge(chain, network, node)))
  }
  return found
}

/** Addresses for documentation (RFC 5737, RFC 3849); no packet is sent. */
const far = { 4: '203.0.113.77', 6: '2001:db8:ffff::77' } as const

/** One finding for a chain and a network; the note only where nothing worse is found. */
async function judge(chain: BaseChain, network: PodNetwork, { machine }: Node): Promise<readonly Finding[]> {
  const [link] = network.links
  // The first ADD puts its accept there.
  const isToCome = chain.hook === 'forward' && network.accepts && !network.isSetUp
  if (link === undefined || isToCome) return []
  const outside = uplinkName() ?? 'uplink'
  const isMarked = network.accepts
  const drops: Dropped[] = []
  const closed: Finding[] = []
  for (const subnet of network.subnets) {
    const pod = podOf(subnet)
    const family = subnet.includes(':') ? 6 : 4
    if (pod === undefined || !chain.families.includes(family)) continue
    const sent: Packet = { family, in: link, out: outside, from: pod, to: far[family], state: 'new', isMarked }
    const answer: Packet = { ...sent, in: outside, out: link, from: far[family], to: pod, state: 'established' }
    const toNode: Packet = { ...sent, out: '', to: subnet.replace(/\/.*/, '') }
    const isInput = chain.hook === 'input'
    const packets = isInput ? [{ ...toNode, state: 'established' as const }] : [sent, answer]
    const packet = packets.find((each) => dropOf(chain, each) !== undefined)
    const drop = packet === undefined ? undefined : dropOf(chain, packet)
    if (packet !== undefined && drop !== undefined) {
      const others = packetsOfOthers(packet, { subnet, pod, link })
      const isForOthers = others.some((each) => drop.rule?.matches(each) !== 'no')
      drops.push({ drop: await withText(drop, chain, machine), subnet, isForOthers })
    }
    const closing = isInput && drop === undefined ? dropOf(chain, toNode) : undefined
    if (closing === undefined) continue
    const { text } = await withText(closing, chain, machine)
    const message = `${chain.text} drops what pods of ${subnet} open to the node, by ${text}`
    closed.push(findingOf({ id: 'node-firewall', on: `network ${network.name}`, message }))
  }
  return drops.length > 0 ? [dropFinding(chain, network, drops)] : closed.slice(0, 1)
}

/** `isForOthers`: the rule is also for packets that are of no pod of this subnet. */
interface Dropped {
  readonly drop: Drop
  readonly subnet: string
  readonly isForOthers: boolean
}

/** The packet as the neighbours of the pods' subnet would have it, by another link. */
function packetsOfOthers(packet: Packet, { subnet, pod, link }: { subnet: string; pod: string; link: string }) {
  const range = toCidr(subnet)
  const { family } = range
  const neighbours = [firstOf(range).value - 1n, lastOf(range).value + 1n].map((value) => {
    return formatAddress({ family, value })
  })
  return neighbours.map((address): Packet => {
    const ends = { from: packet.from === pod ? address : packet.from, to: packet.to === pod ? address : packet.to }
    const links = { in: packet.in === link ? 'other0' : packet.in, out: packet.out === link ? 'other0' : packet.out }
    return { ...packet, ...ends, ...links }
  })
}

/** nft's JSON has no text of a rule. */
async function withText(drop: Drop, { table }: BaseChain, machine: Machine): Promise<Drop> {
  const { handle } = drop.rule ?? {}
  if (handle === undefined) return drop
  const { stdout } = await machine.ask({ file: 'nft', args: ['-a', 'list', 'chain', ...table, handle.chain] })
  const line = stdout.split('\n').find((each) => each.endsWith(` # handle ${handle.number}`))
  const text = line?.replace(/ # handle \d+$/, '').trim()
  return text === undefined ? drop : { ...drop, text: `\`${text}\` of chain ${handle.chain}` }
}

/** Docker calls it first; administrators write there what is to be dropped. */
const adminChain = 'DOCKER-USER'

function dropFinding(chain: BaseChain, network: PodNetwork, drops: readonly Dropped[]): Finding {
  const subnets = drops.map(({ subnet }) => subnet).join(' and ')
  const by = [...new Set(drops.map(({ drop }) => drop.text))].join(' and ')
  const message = `${chain.text} drops packets of pods of ${subnets}, by ${by}`
  const lines = drops.flatMap(({ drop: { rule }, subnet, isForOthers }) => {
    if (rule !== undefined && !isForOthers) return [rule.remove]
    return acceptsFor(chain, subnet).map((accept) => (rule === undefined ? chain.append(accept) : rule.insert(accept)))
  })
  const isOfAdmin = drops.some(({ drop }) => drop.text.includes(adminChain))
  const isSafe = !isOfAdmin && lines.every(isPlainCommand)
  const run = [...new Set(lines)].join('\n')
  return findingOf({ id: 'firewall-drops', on: `network ${network.name}`, message, ...(isSafe ? { run } : {}) })
}

/** What pods send, answers to it, and what comes by host ports; in the input hook answers to the node, and pings. */
function acceptsFor({ isOfIptables, hook }: BaseChain, subnet: string): readonly string[] {
  const family = subnet.includes(':') ? 'ip6' : 'ip'
  const icmp = family === 'ip' ? 'icmp' : 'ipv6-icmp'
  const states = isOfIptables ? '-m conntrack --ctstate RELATED,ESTABLISHED' : 'ct state established,related'
  const translated = isOfIptables ? '-m conntrack --ctstate DNAT' : 'ct status dnat'
  const rule = (end: 'saddr' | 'daddr', condition: string) => {
    if (!isOfIptables) return `${family} ${end} ${subnet} ${condition} accept`.replace('  ', ' ')
    return `${end === 'saddr' ? '-s' : '-d'} ${subnet} ${condition} -j ACCEPT`.replace('  ', ' ')
  }
  if (hook !== 'input') return [rule('saddr', ''), rule('daddr', states), rule('daddr', translated)]
  return [rule('saddr', states), rule('saddr', isOfIptables ? `-p ${icmp}` : `meta l4proto ${icmp}`)]
}
