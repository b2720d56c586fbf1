// SPDX-License-Identifier: Apache-2.0
// Whether another firewall drops what pods send or get. A rule concerns pods when it names one of their ranges or links,
// or names nobody; one that names others is off their way.

import { overlapOf } from '../../lint/rules/overlaps.ts'
import { type Finding, findingOf } from '../checks/finding.ts'
import type { FirewallFacts, NodeFacts, PodNetwork } from '../look/facts.ts'
import { isPlainCommand } from './shell-word.ts'

type Rule = FirewallFacts['rules'][number]

/** Each network against each firewall. A network with a `firewall` key has its accept before the tail (accept-missing). */
export function judgeFirewalls({ firewalls = [], networks, state }: NodeFacts): readonly Finding[] {
  const areAcceptsMissing = (state?.accepts.length ?? 0) > 0
  return firewalls.flatMap((firewall) =>
    networks.filter(({ isSetUp }) => isSetUp).flatMap((network) => judgeOne(firewall, network, areAcceptsMissing)),
  )
}

function judgeOne(firewall: FirewallFacts, network: PodNetwork, areAcceptsMissing: boolean): readonly Finding[] {
  const found: Finding[] = []
  for (const rule of firewall.rules) {
    const isOfPods = concerns(rule.text, network)
    // Whatever names the pods and lets them pass: what comes behind it is not on their way.
    if (rule.act === 'accept' && !rule.isOurs && isOfPods === 'named' && !isNarrow(rule.text)) return found
    if (rule.act === 'drop' && !rule.isUnconditional && isOfPods === 'named')
      found.push(dropFinding(firewall, rule, network))
  }
  const isTailOpen = network.accepts || !firewall.endsInDrop
  if (isTailOpen || areAcceptsMissing || !isOfFamily(firewall, network)) return found
  const seen = `${firewall.place} drops what no rule of it accepts, and none names ${whatOf(network)}`
  const run = acceptCommands(firewall, network)
  const more = run === undefined ? {} : { run }
  return [...found, findingOf({ id: 'firewall-drops', on: `network ${network.name}`, seen, ...more })]
}

function dropFinding({ place }: FirewallFacts, rule: Rule, { name }: PodNetwork): Finding {
  const [on, seen] = [`network ${name}`, `${place}: ${rule.text}`]
  if (isNarrow(rule.text)) return findingOf({ id: 'firewall-drops-some', on, seen })
  const run = isPlainCommand(rule.remove) ? { run: rule.remove } : {}
  return findingOf({ id: 'firewall-drops', on, seen, cure: 'remove the rule, or let it spare the pods', ...run })
}

/** What lets the pods' packets in, and the answers and what the node translated for them. */
function acceptCommands({ families, insert }: FirewallFacts, { subnets }: PodNetwork): string | undefined {
  const ofFamily = subnets.filter((subnet) => families.includes(subnet.includes(':') ? 6 : 4))
  const lines = ofFamily.flatMap((subnet) => {
    const nft = `${insert} ${subnet.includes(':') ? 'ip6' : 'ip'}`
    return insert.startsWith('nft ')
      ? [
          `${nft} daddr ${subnet} ct state established,related accept`,
          `${nft} daddr ${subnet} ct status dnat accept`,
          `${nft} saddr ${subnet} accept`,
        ]
      : [
          `${insert} -d ${subnet} -m conntrack --ctstate RELATED,ESTABLISHED,DNAT -j ACCEPT`,
          `${insert} -s ${subnet} -j ACCEPT`,
        ]
  })
  return lines.length > 0 && lines.every(isPlainCommand) ? lines.join('\n') : undefined
}

function isOfFamily({ families }: FirewallFacts, { subnets }: PodNetwork): boolean {
  return subnets.length === 0 || subnets.some((subnet) => families.includes(subnet.includes(':') ? 6 : 4))
}

function whatOf({ subnets, links }: PodNetwork): string {
  return subnets.length > 0 ? subnets.join(' and ') : links.join(' and ')
}

/** Words of a match on something else than where a packet comes from or goes to. */
const narrowing =
  /(?:^|\s)-p\s|--dport|--sport|--ctstate|--state|--mark|\bdport\b|\bsport\b|\bct state\b|\bmeta mark\b|\bmark\b|\bl4proto\b|\btcp\b|\budp\b|\bicmp|--limit|\blimit\b|--match-set|@\w/

function isNarrow(text: string): boolean {
  return narrowing.test(text.replace(/-m comment --comment (?:"[^"]*"|\S+)/, ''))
}

/** Whether a rule names the pods: `others` where it names somebody else only. */
function concerns(text: string, { subnets, links }: PodNetwork): 'named' | 'others' | 'nobody' {
  const addresses = [...text.matchAll(/(?<![\w.:])(?:\d+(?:\.\d+){3}|[0-9a-f]*:[0-9a-f:]+)(?:\/\d+)?(?![\w.:])/gi)].map(
    ([found]) => (found.includes('/') ? found : `${found}/${found.includes(':') ? 128 : 32}`),
  )
  const named = [...text.matchAll(/(?:-[io]|\b[io]if(?:name)?) (?:!= )?"?([\w.@+*-]+)"?/g)].map(([, name = '']) => name)
  if (/(?:^|\s)! |!=/.test(text)) return 'nobody'
  const isNamed =
    overlapOf(subnets, addresses.flatMap(sound)) !== undefined || named.some((name) => links.some(matches(name)))
  if (isNamed) return 'named'
  return addresses.length + named.length > 0 ? 'others' : 'nobody'
}

function sound(cidr: string): readonly string[] {
  try {
    overlapOf([cidr], [cidr])
    return cidr.endsWith('/0') ? [] : [cidr]
  } catch {
    return []
  }
}

/** `cni+` of iptables and `cni*` of nft are beginnings. */
function matches(pattern: string): (name: string) => boolean {
  const beginning = /^(.+)[+*]$/.exec(pattern)?.[1]
  return (name) => (beginning === undefined ? name === pattern : name.startsWith(beginning))
}
