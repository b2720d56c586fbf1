// SPDX-License-Identifier: Apache-2.0
// Finds drops of other firewalls on the pods' way through the node. A rule concerns pods if it names their ranges or
// links, or names nothing; a rule with other ranges or links is off their path.

import { adminChains, placeText } from '../../../src-before/features/accept-place.ts'
import type { PodPackets } from '../../../src-before/tools/nft.ts'
import { familyOf, includes, parseCidr } from '../../cni/addresses.ts'
import { isPodLinkName } from '../../drivers/names.ts'
import { type Finding, type Found, findingOf } from '../findings.ts'
import { overlapOf } from '../lint/semantics.ts'
import { acceptLine, ruleRemovalLine } from './accept-lines.ts'
import type { FirewallFacts, NodeFacts, PodNetwork, TailPlace } from './facts.ts'
import { isPlainCommand } from './judge-kernel.ts'
import type { RuleEnd } from './rule-matches.ts'

type Rule = FirewallFacts['rules'][number]

/**
 * Each network against each firewall, also before its first pod. A network with a `firewall` key has its accept before
 * the tail (accept-missing).
 */
export function judgeFirewalls({ firewalls = [], networks, state, kernel }: NodeFacts): readonly Finding[] {
  const areAcceptsMissing = (state?.accepts.length ?? 0) > 0
  const uplinks = (kernel?.uplinks ?? []).map(({ dev }) => dev)
  const onTheWay = firewalls.filter(({ hook }) => hook === 'forward')
  return onTheWay.flatMap((firewall) =>
    networks.flatMap((network) => {
      const { found, passed } = judgeRules(firewall, network, uplinks)
      const { tail } = firewall
      // The first ADD may put the accept there that is missing before it.
      const isTailMeant = network.accepts || areAcceptsMissing || !network.isSetUp
      if (tail === undefined || (isTailMeant && !tail.isUnmarked)) return found
      return [...found, ...forwardTail({ ...firewall, tail }, network, passed)]
    }),
  )
}

/** The shares of what pods send and get that the rules so far let pass. `answers`: of established connections. */
interface Passed {
  readonly from: Share
  readonly to: Share
  readonly answers: boolean
}

const nothing: Passed = { from: 'none', to: 'none', answers: false }

function judgeRules(firewall: FirewallFacts, network: PodNetwork, uplinks: readonly string[]) {
  const found: Finding[] = []
  let passed = nothing
  for (const [at, rule] of firewall.rules.entries()) {
    if (rule.isOurs) continue
    if (adminChains.includes(rule.chain) && rule.act === 'drop' && rule.isUnconditional) {
      const isChosen = isReturned(firewall, at)
      if (passed.from !== 'all')
        found.push(closedByAdmin(firewall, isChosen ? asNarrow(rule) : rule, { network, passed }))
      if (!isChosen) break
      continue
    }
    const meant = rule.jump !== undefined && isReturned(firewall, at) ? asNarrow(rule) : rule
    if (rule.act === 'drop') found.push(...droppedBy(meant, passed, { firewall, network }))
    else passed = withAccepted(passed, rule, { network, uplinks })
  }
  return { found, passed }
}

/** A drop behind an accept of all that it names is without effect, and is meant behind an accept of a part. */
function droppedBy(
  rule: Rule,
  { from, to, answers }: Passed,
  { firewall, network }: { readonly firewall: FirewallFacts; readonly network: PodNetwork },
): readonly Finding[] {
  const share = rule.isUnconditional || !names(rule.matches, network) ? 'none' : droppedShare(rule, network)
  if (share === 'none') return []
  const ofEnd = { from, to: answers && to === 'none' ? 'some' : to }
  const before = ends.filter((end) => isOfPods(rule.matches[end], network)).map((end) => ofEnd[end])
  if (before.every((passed) => passed === 'all')) return []
  const isWhole = share === 'all' && before.includes('none')
  return [dropFinding(firewall, isWhole ? rule : asNarrow(rule), network)]
}

const ends = ['from', 'to'] as const
type End = (typeof ends)[number]

function withAccepted(
  { from, to, answers }: Passed,
  rule: Rule,
  { network, uplinks }: { readonly network: PodNetwork; readonly uplinks: readonly string[] },
): Passed {
  const more = (end: End, share: Share) => larger(share, acceptedShare(rule, end, { network, uplinks }))
  const isOfAnswers = acceptsEstablished(rule) && isOpenTo(rule.matches, network, uplinks)
  return { from: more('from', from), to: more('to', to), answers: answers || isOfAnswers }
}

function larger(a: Share, b: Share): Share {
  return a === 'all' || b === 'all' ? 'all' : a === 'none' ? b : a
}

/** `ct state vmap { established : accept, … }` is a verdict map. */
function acceptsEstablished({ act, matches: { isNegated, states }, text }: Rule): boolean {
  if (act !== 'accept') return /\bct state vmap \{[^}]*\bestablished : accept\b/.test(text)
  return !isNegated && states?.includes('established') === true
}

/** Whether a rule is about packets from anywhere, or from an uplink, to the pods. */
function isOpenTo({ from, to }: Rule['matches'], network: PodNetwork, uplinks: readonly string[]): boolean {
  return !isOfOthers(to, network) && isOpen(from, uplinks)
}

function isOpen({ addresses, links }: RuleEnd, uplinks: readonly string[] = []): boolean {
  return addresses.flatMap(sound).length === 0 && links.every((name) => uplinks.includes(name))
}

/**
 * The share of the packets that pods send (`from`) or get (`to`) that a rule of the forward hook accepts. A rule with
 * only a port, say, counts where it names the pods.
 */
function acceptedShare(
  { act, matches, text }: Rule,
  end: End,
  { network, uplinks }: { readonly network: PodNetwork; readonly uplinks: readonly string[] },
): Share {
  const [own, peer] = [matches[end], matches[end === 'from' ? 'to' : 'from']]
  const isMap = act === 'none' && /\bvmap\b/.test(text) && !/\bct state vmap\b/.test(text)
  if (act !== 'accept' && !isMap) return 'none'
  if (matches.isNegated) return isOfPods(own, network) && isOfPods(peer, network) ? 'some' : 'none'
  if (isOfOthers(own, network)) return 'none'
  const isNamed = isOfPods(own, network)
  const isOfStates = matches.states !== undefined
  if (matches.isNarrow && matches.states?.includes('new') !== true)
    return isMap || (isNamed && !isOfStates) ? 'some' : 'none'
  if (/@/.test(text) && !isNamed) return 'some'
  if (isNamed) return isOpen(peer, uplinks) ? 'all' : 'some'
  return isOpen(peer) ? 'all' : isOpen(peer, uplinks) ? 'some' : 'none'
}

/**
 * Connections need both directions; with an accept of established ones, one direction is enough to start them. Where
 * the accepts let some of the pods' packets pass, an administrator chose these.
 */
function forwardTail(firewall: Tailed, network: PodNetwork, passed: Passed): readonly Finding[] {
  const { from, to, answers } = passed
  if (from === 'all' && (answers || to === 'all')) return []
  const isCutFrom = from === 'none' && !(answers && to !== 'none')
  const isCutTo = to === 'none' && !answers
  const why = isCutFrom
    ? to === 'none'
      ? undefined
      : 'no accept of it matches packets from'
    : 'no accept of it matches answers to'
  if (isCutFrom || isCutTo) {
    const lacking = seenBy(firewall, network).flatMap((subnet) => lackingOf(subnet, passed))
    return aboutTail(firewall, network, { id: 'firewall-drops', run: acceptCommands(firewall, lacking), why })
  }
  return aboutTail(firewall, network, { id: 'firewall-drops-some', why: 'its accepts match only some packets of' })
}

/** The share of the pods' packets that a rule matches. `some`: packets with a further property. */
type Share = 'all' | 'some' | 'none'

/**
 * The share by both ends of a rule: a pod address that enters by another link is forged, and a single blocked address
 * (169.254.169.254) is deliberate.
 */
function droppedShare({ matches: { from, to } }: Rule, network: PodNetwork): Share {
  const isFrom = isOfPods(from, network) && !isOfOthers(from, network)
  const isTo = isOfPods(to, network) && !isOfOthers(to, network)
  if (!isFrom && !isTo) return 'none'
  const peer = isFrom ? to : from
  return isOfOthers({ ...peer, links: [] }, network) ? 'some' : 'all'
}

function asNarrow(rule: Rule): Rule {
  return { ...rule, matches: { ...rule.matches, isNarrow: true } }
}

/** The finding about a dropping rule that names the pods, or that a jump names them for. */
function dropFinding(firewall: FirewallFacts, rule: Rule, network: PodNetwork): Finding {
  const by = rule.jump === undefined ? '' : `, behind \`${rule.jump}\``
  const message = `${placeText({ ...firewall.base, chain: rule.chain })}: ${rule.text}${by}`
  const about = { on: `network ${network.name}`, message }
  if (rule.matches.isNarrow) return findingOf({ id: 'firewall-drops-some', ...about })
  return findingOf({ id: 'firewall-drops', ...about, ...dropCure(firewall, rule, network) })
}

interface ForPods {
  readonly network: PodNetwork
  readonly passed: Passed
}

/** trestle puts no accept of its mark into a chain of the administrator (accept-place.ts). */
function closedByAdmin(firewall: FirewallFacts, rule: Rule, { network, passed }: ForPods): Finding {
  const { chain, id: before, text, matches } = rule
  const about = { on: `network ${network.name}`, message: `${placeText({ ...firewall.base, chain })}: ${text}` }
  if (matches.isNarrow) return findingOf({ id: 'firewall-drops-some', ...about })
  const lacking = seenBy(firewall, network).flatMap((subnet) => lackingOf(subnet, passed))
  const run = acceptCommands({ ...firewall, tail: { chain, before } }, lacking)
  return findingOf({ id: 'firewall-drops', ...about, cure: `let the pods pass in ${chain} before that rule`, run })
}

function dropCure(firewall: FirewallFacts, rule: Rule, network: PodNetwork): Pick<Found, 'cure' | 'run'> {
  const { base, rules, tail } = firewall
  const place = { ...base, chain: rule.chain }
  // Others may lead packets to that chain to have them dropped: no accept of all that pods send is safe in it.
  if (rule.jump !== undefined) return { cure: 'let the jump spare the pods, or accept in its chain what they need' }
  if (!isWider(rule, network)) {
    const run = plainCommands([ruleRemovalLine(place, rule)])
    return { cure: 'remove the rule, or let it spare the pods', run }
  }
  // An accept ends the chain: drops behind it would match no pod any more.
  const isLast = tail === undefined && rules.slice(rules.indexOf(rule) + 1).every(({ act }) => act !== 'drop')
  const named = ends.filter((end) => isOfPods(rule.matches[end], network))
  const spared = seenBy(firewall, network).flatMap((of) => named.map((end) => acceptLine(place, rule.id, { end, of })))
  return { cure: sparingCure, run: isLast ? plainCommands(spared) : undefined }
}

const sparingCure =
  'let the rule spare the pods, in the file that loads it, too; after a load that flushes all tables: trestle restore'

/** Whether a rule is also about other addresses than the pods': whoever wrote it wants it for these. */
function isWider({ matches: { from, to } }: Rule, { subnets }: PodNetwork): boolean {
  const own = subnets.flatMap((subnet) => parseCidr(subnet) ?? [])
  const named = [...from.addresses, ...to.addresses].flatMap((text) => parseCidr(text) ?? [])
  return named.some((cidr) => own.some((subnet) => includes(cidr, subnet) && subnet.prefixLength > cidr.prefixLength))
}

/** The pods' packets, their answers, and packets that the node translated for them, as far as nothing accepts them. */
function lackingOf(subnet: string, { from, to, answers }: Passed): readonly PodPackets[] {
  return [
    ...(answers || to === 'all' ? [] : [{ end: 'to', of: subnet, only: 'answers' } as const]),
    ...(to === 'none' ? [{ end: 'to', of: subnet, only: 'translated' } as const] : []),
    ...(from === 'none' ? [{ end: 'from', of: subnet } as const] : []),
  ]
}

type Tailed = FirewallFacts & { readonly tail: TailPlace }

/** Commands that accept packets of pods behind every rule of the administrator, before the drop of the rest. */
function acceptCommands({ base, tail }: Tailed, packets: readonly PodPackets[]): string | undefined {
  return plainCommands(packets.map((each) => acceptLine({ ...base, chain: tail.chain }, tail.before, each)))
}

/** The ranges whose packets the firewall sees. */
function seenBy({ base }: FirewallFacts, { subnets }: PodNetwork): readonly string[] {
  return subnets.filter((subnet) => familiesOf(base).includes(familyOf(subnet)))
}

function familiesOf(base: FirewallFacts['base']): readonly (4 | 6)[] {
  if (base.kind === 'iptables') return [base.program.startsWith('ip6') ? 6 : 4]
  return base.family === 'ip' ? [4] : base.family === 'ip6' ? [6] : [4, 6]
}

/** Whether a rule names these pods. A negated rule names all others, and is ignored. */
function names(matches: Rule['matches'], network: PodNetwork): boolean {
  return !matches.isNegated && isOfPods(matches, network)
}

/** Whether an address or a link of a rule belongs to the pods. */
function isOfPods({ addresses, links }: RuleEnd, network: PodNetwork): boolean {
  const hasAddress = overlapOf(network.subnets, addresses.flatMap(sound)) !== undefined
  return hasAddress || links.some((name) => network.links.some(isMeant(name)))
}

/** Whether a rule names addresses or links, and none belongs to the pods. A set of links may contain any link. */
function isOfOthers({ addresses, links }: RuleEnd, network: PodNetwork): boolean {
  const named = addresses.flatMap(sound)
  if (named.length > 0 && !isOfPods({ addresses: named, links: [] }, network)) return true
  const isKnown = links.length > 0 && links.every((name) => !name.startsWith('@'))
  return isKnown && !isOfPods({ addresses: [], links }, network)
}

/** An invalid address, or a range of all addresses, names no pod. */
function sound(cidr: string): readonly string[] {
  return parseCidr(cidr) === undefined || cidr.endsWith('/0') ? [] : [cidr]
}

/** `cni*` is a prefix. */
function isMeant(pattern: string): (name: string) => boolean {
  return (name) => (pattern.endsWith('*') ? name.startsWith(pattern.slice(0, -1)) : name === pattern)
}

// Finds drops of packets that pods send to the node, before routing or behind it. A firewall on the node is normal: it
// is an error only if it names the pods, or accepts none of their packets.

export function judgeEntries({ firewalls = [], networks }: NodeFacts): readonly Finding[] {
  const entries = firewalls.filter(({ hook }) => hook !== 'forward')
  const there = networks.filter(({ isSetUp }) => isSetUp)
  return entries.flatMap((firewall) => there.flatMap((network) => judgeEntry(firewall, network)))
}

function judgeEntry(firewall: FirewallFacts, network: PodNetwork): readonly Finding[] {
  const found: Finding[] = []
  // An administrator chose the accepted packets: pods may be among them.
  let isChosen = false
  for (const [at, rule] of firewall.rules.entries()) {
    const share = shareOf(rule, network)
    if (rule.isUnconditional && rule.act === 'drop') {
      if (isReturned(firewall, at)) isChosen = true
      else
        return [...found, ...unaccepted(firewall, network, { isChosen, tail: { chain: rule.chain, before: rule.id } })]
    } else if (share !== 'none' && decides(rule, 'end')) {
      return found
    } else if (share !== 'none' && decides(rule, 'accept')) {
      if (share === 'all') return found
      isChosen = true
    } else if (rule.act === 'drop' && isNamed(rule, network)) {
      found.push(dropFinding(firewall, isChosen || share === 'some' ? asNarrow(rule) : rule, network))
    } else if (share !== 'none' && isChoice(rule)) {
      isChosen = true
    }
  }
  const { tail } = firewall
  return tail === undefined ? found : [...found, ...unaccepted(firewall, network, { isChosen, tail })]
}

function decides({ act, isUnconditional }: Rule, how: 'accept' | 'end'): boolean {
  return act === how && (how === 'accept' || isUnconditional)
}

/** Rules that may accept some of the pods' packets: a verdict map, or a return before a drop. */
function isChoice({ act, isUnconditional, text }: Rule): boolean {
  return (act === 'return' && !isUnconditional) || act === 'end' || /\bvmap\b/.test(text)
}

/** Whether packets may have left a rule's chain before they reach the rule. */
function isReturned({ base, rules }: FirewallFacts, at: number): boolean {
  const chain = rules[at]?.chain
  return chain !== base.chain && rules.slice(0, at).some((each) => each.chain === chain && each.act === 'return')
}

function shareOf({ matches, text }: Rule, network: PodNetwork): Share {
  const { from, to, isNegated, isNarrow, states } = matches
  if (isNegated) return isOfPods(matches, network) ? 'none' : isNarrow ? 'some' : 'all'
  if (isOfOthers(from, network)) return 'none'
  if (isOfOthers(to, network)) return 'some'
  // A firewall with connection tracking lets pods start connections.
  if (isNarrow) return states?.includes('new') === true ? 'all' : 'some'
  return /@/.test(text) && !isOfPods(from, network) ? 'some' : 'all'
}

/** Whether a rule names the pods as senders or receivers. A negated rule is ignored. */
function isNamed({ matches }: Rule, network: PodNetwork): boolean {
  const { from, to, isNegated } = matches
  if (isNegated || isOfOthers(from, network)) return false
  return isOfPods(from, network) || isOfPods(to, network)
}

function aboutTail(
  firewall: FirewallFacts,
  network: PodNetwork,
  { why = 'no rule of it names', ...about }: Pick<Found, 'id' | 'run'> & { readonly why?: string | undefined },
): readonly Finding[] {
  // The pods as far as the chain sees them: their ranges, else their links.
  const pods = network.subnets.length > 0 ? seenBy(firewall, network) : network.links
  if (network.subnets.length > 0 && pods.length === 0) return []
  const what = pods.join(' and ')
  const message = `${placeText(firewall.base)} drops unmatched packets, and ${why} ${what}`
  return [findingOf({ on: `network ${network.name}`, message, ...about })]
}

function unaccepted(
  firewall: FirewallFacts,
  network: PodNetwork,
  { isChosen, tail }: { readonly isChosen: boolean; readonly tail: TailPlace },
): readonly Finding[] {
  if (isChosen) return aboutTail(firewall, network, { id: 'node-firewall' })
  const packets = neededOf(firewall, network)
  // Other rules may lead packets to a chain that is not the hook's own.
  const isAlone = tail.chain === firewall.base.chain
  const run = isAlone ? acceptCommands({ ...firewall, tail }, packets) : undefined
  return aboutTail(firewall, network, { id: 'firewall-drops', run })
}

/** Commands to paste; undefined if a name in them means more to a shell. */
function plainCommands(lines: readonly string[]): string | undefined {
  return lines.length > 0 && lines.every(isPlainCommand) ? lines.join('\n') : undefined
}

/**
 * What pods need of a chain that accepts nothing of them. The node itself is closed to them but for answers, ICMP and
 * neighbour discovery. A bridge is accepted by name, so that this passes; routed pods have a link each, so their range
 * is.
 */
function neededOf(firewall: FirewallFacts, network: PodNetwork): readonly PodPackets[] {
  const subnets = seenBy(firewall, network)
  if (firewall.hook === 'postrouting') return subnets.flatMap((subnet) => lackingOf(subnet, nothing))
  const shared = network.links.filter((name) => !isPodLinkName(name))
  const from = shared.length > 0 ? shared : subnets
  if (firewall.hook === 'prerouting') return from.map((of) => ({ end: 'from', of }))
  const families = network.subnets.length > 0 ? subnets.map(familyOf) : familiesOf(firewall.base)
  return from.flatMap((of) => {
    const those = new Set(of.includes('/') ? [familyOf(of)] : families)
    const parts = ['answers', ...[...those].map((family) => (family === 4 ? 'icmp' : 'ipv6-icmp'))] as const
    return parts.map((only) => ({ end: 'from', of, only }) as const)
  })
}
