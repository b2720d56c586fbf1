// SPDX-License-Identifier: Apache-2.0
// Everything that is written to nft (nft(8)): operations as one `nft -f -` transaction, the expressions of our rules,
// and statements about rules of others. Everything written is add-only or deletes by key, so that a transaction says
// nothing about what others put there meanwhile.

import { familyOf } from '../cni/address.ts'
import { CniError, printable } from '../cni/error.ts'
import type { NftChain, ObservedTable } from '../model/observed.ts'
import { type Element, indexElements, type Op } from '../model/op.ts'
import {
  type AcceptRuleName,
  type ChainDeclaration,
  declarationsOf,
  type FieldKind,
  isSetName,
  type ListedBase,
  markText,
  type OwnRuleName,
  type RuleName,
  type SetName,
  setSpec,
  type TableFamily,
  tableName,
  translateChain,
} from '../model/tables.ts'

export type NftOp = Extract<Op, { kind: `nft.${string}` }>

/** The statement of one operation: a line, or for the base ruleset a few. `kernel`: its release, today's if not given. */
export function nftText(op: NftOp, kernel?: string): string {
  switch (op.kind) {
    case 'nft.base':
      return baseText(op, kernel)
    case 'nft.base.show':
      // The runner gives nft -t: sets are listed without their elements.
      return `list table ${op.table} ${tableName}`
    case 'nft.table.del':
      return `delete table ${op.table} ${tableName}`
    case 'nft.chain': {
      const expression = conditionText(`${op.conditions.join(' ')} goto ${translateChain}`)
      return [
        `add chain inet ${tableName} ${op.chain}`,
        `flush chain inet ${tableName} ${op.chain}`,
        `add rule inet ${tableName} ${op.chain} ${expression} comment "${op.comment}"`,
      ].join('\n')
    }
    case 'nft.chain.del':
      // As nft.del. A chain in use is a failure, EBUSY (nf_tables_api.c, nf_tables_delchain).
      return [`add chain inet ${tableName} ${op.chain}`, `delete chain inet ${tableName} ${op.chain}`].join('\n')
    case 'nft.flush':
      return `flush set ${setAt(op.set)}`
    case 'nft.add':
      return addText(op)
    case 'nft.del':
      // nft 1.0.6 has no `destroy`: adding first makes the deletion of what is gone already succeed, and
      // fail where the key is someone else's by now.
      return `${addText(op)}\ndelete element ${setAt(op.set)} { ${fieldsText(op.key, setSpec(op.set).key)} }`
    default:
      return op satisfies never
  }
}

/** What nft is asked to list, as its arguments. `ofChain` without the elements of sets; `ofRules` with handles. */
export const listArguments = {
  ofOurs: (table: TableFamily) => ['-j', 'list', 'table', table, tableName],
  ofTable: ({ family, table }: Omit<NftChain, 'chain'>) => ['-j', 'list', 'table', family, table],
  ofChain: ({ family, table, chain }: NftChain) => ['-j', '-t', 'list', 'chain', family, table, chain],
  ofChains: ['-j', 'list', 'chains'],
  /** As text: with -j the flags of a table are no words in nft 1.0.6. */
  ofFlags: ({ family, table }: Omit<NftChain, 'chain'>) => ['-t', 'list', 'table', family, table],
  ofEverything: ['list', 'ruleset'],
} as const

/** Shows a chain for people, each rule with its handle. By input: names of others may look like anything. */
export function showChainInput(chain: NftChain): { readonly args: readonly string[]; readonly stdin: string } {
  return { args: ['-a', '-t', '-f', '-'], stdin: `list chain ${chainAt(chain)}\n` }
}

/** Puts an accept of what has `mark` into a chain of others: before the rule of handle `before`, or behind all. */
export function acceptText(chain: NftChain, accept: { mark: number; comment: string }, before?: string): string {
  const bit = markText(accept.mark)
  const rule = `meta mark & ${bit} == ${bit} accept comment "${accept.comment}"`
  return `${placedText(chain, before)} ${rule}\n`
}

/** Packets that pods send (`from`) or get (`to`). `of`: a CIDR, or a link of the node; `only`: a part of them. */
export interface PodPackets {
  readonly end: 'from' | 'to'
  readonly of: string
  readonly only?: 'answers' | 'translated' | 'icmp' | 'ipv6-icmp'
}

/** Accepts packets of pods in a chain of others, in the place that `acceptText` has. */
export function podAcceptText(chain: NftChain, { end, of, only }: PodPackets, before?: string): string {
  const isFrom = end === 'from'
  const address = `${familyOf(of) === 6 ? 'ip6' : 'ip'} ${isFrom ? 's' : 'd'}addr ${of}`
  const match = of.includes('/') ? address : `${isFrom ? 'i' : 'o'}ifname ${of}`
  return [placedText(chain, before), match, ...(only === undefined ? [] : [partTexts[only]]), 'accept'].join(' ')
}

const partTexts = {
  answers: 'ct state established,related',
  translated: 'ct status dnat',
  icmp: 'meta l4proto icmp',
  'ipv6-icmp': 'meta l4proto ipv6-icmp',
} as const

function placedText(chain: NftChain, before: string | undefined): string {
  return before === undefined ? `add rule ${chainAt(chain)}` : `insert rule ${chainAt(chain)} handle ${before}`
}

export function ruleRemovalText(chain: NftChain, handle: string | number): string {
  return `delete rule ${chainAt(chain)} handle ${handle}\n`
}

/** Takes chains away with their rules; all are emptied first, since a rule may lead from one to another. */
export function chainRemovalText(chains: readonly NftChain[]): string {
  const each = (verb: string) => chains.map((chain) => `${verb} chain ${chainAt(chain)}\n`)
  return [...each('flush'), ...each('delete')].join('')
}

function chainAt({ family, table, chain }: NftChain): string {
  return `${family} ${table} ${chain}`
}

/** The table with its sets and chains, rules anew. No elements: an ADD may have added some since records were read. */
function baseText({ table: family, acceptMark }: Extract<NftOp, { kind: 'nft.base' }>, kernel = ''): string {
  const table = `${family} ${tableName}`
  const { sets, chains } = declarationsOf(family, acceptMark)
  const expressions: Readonly<Record<RuleName, string>> = { ...ownRules, ...acceptRules(acceptMark ?? 0, kernel) }
  return [
    `add table ${table}`,
    ...sets.map(setText),
    ...chains.map((chain) => `add chain ${table} ${chain.name} ${hookText(chain)}`),
    ...chains.map((chain) => `flush chain ${table} ${chain.name}`),
    ...chains.flatMap((chain) =>
      chain.rules.map(
        ({ name, comment }) => `add rule ${table} ${chain.name} ${expressions[name]} comment "${comment}"`,
      ),
    ),
  ].join('\n')
}

function hookText({ hook }: ChainDeclaration): string {
  return hook === undefined ? '' : `{ type ${hook.type} hook ${hook.at} priority ${hook.priority}; policy accept; }`
}

const typeNames: Readonly<Record<FieldKind, string>> = {
  address4: 'ipv4_addr',
  address6: 'ipv6_addr',
  prefix4: 'ipv4_addr',
  prefix6: 'ipv6_addr',
  protocol: 'inet_proto',
  port: 'inet_service',
  link: 'ifname',
  mac: 'ether_addr',
  chain: 'verdict',
}

function setText(set: SetName): string {
  const { key, value } = setSpec(set)
  const typeOf = (kinds: readonly FieldKind[]) => kinds.map((kind) => typeNames[kind]).join(' . ')
  if (value !== undefined) return `add map ${setAt(set)} { type ${typeOf(key)} : ${typeOf(value)}; }`
  const isInterval = key.some((kind) => kind === 'prefix4' || kind === 'prefix6')
  return `add set ${setAt(set)} { type ${typeOf(key)}; ${isInterval ? 'flags interval; ' : ''}}`
}

function setAt(set: SetName): string {
  return `${setSpec(set).table} ${tableName} ${set}`
}

function addText({ set, key, value }: Element): string {
  const kinds = setSpec(set)
  const to = fieldsText(value ?? [], kinds.value ?? [])
  return `add element ${setAt(set)} { ${fieldsText(key, kinds.key)}${to && ` : ${to}`} }`
}

function fieldsText(fields: readonly string[], kinds: readonly FieldKind[]): string {
  if (fields.length !== kinds.length) throw refusedElement(fields)
  return fields.map((field, at) => fieldText(field, kinds[at], fields)).join(' . ')
}

/** A link's name: nft takes what is between quotes as it is (src/scanner.l, quotedstring), but a star at the end. */
const linkPattern = /^[\w!$&(-.:-@[\]^{|}~]*[\w!$&()+,.:-@[\]^{|}~-]$/

const plainPattern = /^[\w.:/-]+$/

function fieldText(field: string, kind: FieldKind | undefined, fields: readonly string[]): string {
  if (!(kind === 'link' ? linkPattern : plainPattern).test(field)) throw refusedElement(fields)
  if (kind === 'link') return `"${field}"`
  return kind === 'chain' ? `goto ${field}` : field
}

function refusedElement(fields: readonly string[]): CniError {
  return new CniError('element-unsafe', `"${printable(fields.join(' '))}" cannot be an nftables set element`, {
    details: 'link names in rules have no quotes, backslash, % or #, and no * at the end',
  })
}

/** Conditions come from the edge or from a record; in neither is a second statement. */
function conditionText(expression: string): string {
  if (/^[\w .:/@"{},!=+-]+$/.test(expression)) return expression
  throw new CniError('element-unsafe', `"${printable(expression)}" cannot be a rule of host ports`, {
    details: 'conditions are matches of addresses, interfaces, marks and states',
  })
}

/** The texts of our rules. A change of one raises the version in model/tables.ts. */
const ownRules: Readonly<Record<OwnRuleName, string>> = {
  'loopback-to': 'iifname @loopback ip daddr 127.0.0.0/8 drop',
  'loopback-from': 'iifname @loopback ip saddr 127.0.0.0/8 drop',
  // From ::1 to ::1 is the node's: IPv6 has no route_localnet, and a packet from ::1 is dropped where it arrives
  // (net/ipv6/ip6_input.c, ip6_rcv_core). From another address of the node it can be sent on.
  loopback6: 'ip6 saddr ::1 ip6 daddr ::1 return',
  gate4: 'ip daddr . meta l4proto . th dport vmap @gates4',
  anygate4: 'meta nfproto ipv4 meta l4proto . th dport vmap @anygates4',
  gate6: 'ip6 daddr . meta l4proto . th dport vmap @gates6',
  anygate6: 'meta nfproto ipv6 meta l4proto . th dport vmap @anygates6',
  ungated: `goto ${translateChain}`,
  port4: 'dnat ip to ip daddr . meta l4proto . th dport map @ports4',
  anyport4: 'dnat ip to meta l4proto . th dport map @anyports4',
  port6: 'dnat ip6 to ip6 daddr . meta l4proto . th dport map @ports6',
  anyport6: 'dnat ip6 to meta l4proto . th dport map @anyports6',
  local: 'fib daddr type local jump hostports',
  'local-out': 'fib daddr type local jump hostports',
  // On an isolated bridge, too, a pod reaches itself through a translation: its link has no pair there.
  itself4: 'ip saddr . ip daddr @self4 ct status dnat return',
  itself6: 'ip6 saddr . ip6 daddr @self6 ct status dnat return',
  fence: 'iifname @fenced oifname @fenced iifname . oifname != @fencedpair drop',
  // Translated, and routed back to the bridge it came from: the answer would go straight to the client,
  // untranslated. With bridge-nf-call-iptables the packet never leaves the bridge, the answer is translated
  // there, and the client's address stays: such a packet has no input interface here
  // (net/bridge/br_netfilter_hooks.c, br_nf_post_routing), a routed one has since Linux 5.7 (28f8bfd1ac94).
  hairpin4: 'ip saddr . ip daddr @hairpin4 iifname . oifname @hairpinlink ct status dnat masquerade',
  hairpin6: 'ip6 saddr . ip6 daddr @hairpin6 iifname . oifname @hairpinlink ct status dnat masquerade',
  // A pod takes no packet from its own address: to itself there is no way but this.
  self4: 'ip saddr . ip daddr @self4 ct status dnat masquerade',
  self6: 'ip6 saddr . ip6 daddr @self6 ct status dnat masquerade',
  'from-loopback': 'oifname @loopback ip saddr 127.0.0.0/8 ct status dnat masquerade',
  all4: 'ip daddr . meta l4proto . th dport @masqall4 ct status dnat masquerade',
  all6: 'ip6 daddr . meta l4proto . th dport @masqall6 ct status dnat masquerade',
  // Pods of other nodes see the pod's own address.
  peer4: 'ip saddr @podnet4 ip daddr @peernet4 return',
  peer6: 'ip6 saddr @podnet6 ip6 daddr @peernet6 return',
  masquerade4: 'ip saddr @masq4 ip daddr != 224.0.0.0/4 ip saddr . ip daddr != @keep4 masquerade',
  masquerade6: 'ip6 saddr @masq6 ip6 daddr != ff00::/8 ip6 saddr . ip6 daddr != @keep6 masquerade',
  masqhost4:
    'ip saddr @masqhost4 ip daddr != 224.0.0.0/4 ip daddr != @masqhost4 ip saddr . ip daddr != @keephost4 masquerade',
  masqhost6:
    'ip6 saddr @masqhost6 ip6 daddr != ff00::/8 ip6 daddr != @masqhost6 ip6 saddr . ip6 daddr != @keephost6 masquerade',
  spoof: 'iifname @guarded iifname . ether saddr != @guardedmac drop',
}

/** Before Linux 5.19 a forward chain cannot look up the way back (net/netfilter/nft_fib.c, nft_fib_validate). */
function looksUpWayBack(kernel: string): boolean {
  const [major, minor] = kernel.split(/[.-]/).map(Number)
  return major === undefined || minor === undefined || major > 5 || (major === 5 && minor >= 19)
}

function acceptRules(mark: number, kernel: string): Readonly<Record<AcceptRuleName, string>> {
  const bit = markText(mark)
  const wayBack = looksUpWayBack(kernel) ? 'fib saddr . iif oif exists ' : ''
  const clear = `meta mark & ${bit} != 0 meta mark set meta mark & ${markText(0xffff_ffff - mark)}`
  const set = `meta mark set meta mark | ${bit} accept`
  return {
    'admit-clear': clear,
    'admit-from': `iifname @acceptlinks ${set}`,
    // A source can be forged: by address it has to come by a veth, from where the answer would go, and
    // by a veth alone where the kernel cannot tell.
    'admit-from4': `meta iifkind "veth" ip saddr @acceptnet4 ${wayBack}${set}`,
    'admit-from6': `meta iifkind "veth" ip6 saddr @acceptnet6 ${wayBack}${set}`,
    'admit-to': 'oifname @acceptlinks jump admitted',
    'admit-to4': 'ip daddr @acceptnet4 jump admitted',
    'admit-to6': 'ip6 daddr @acceptnet6 jump admitted',
    answer: `ct state established,related ${set}`,
    translated: `ct status dnat ${set}`,
    new4: `ip daddr . ip saddr @acceptnew4 ${set}`,
    new6: `ip6 daddr . ip6 saddr @acceptnew6 ${set}`,
    'peer-new4': `ip daddr @podnet4 ip saddr @peernet4 ${set}`,
    'peer-new6': `ip6 daddr @podnet6 ip6 saddr @peernet6 ${set}`,
    'node-new4': `ip daddr @podnet4 ip saddr @peeraddr4 ${set}`,
    'node-new6': `ip6 daddr @podnet6 ip6 saddr @peeraddr6 ${set}`,
    unmark: clear,
  }
}

// What nft prints of our tables: as JSON with elements (libnftables-json(5)), and as text without them.

interface NftObject {
  readonly table?: { readonly flags?: unknown }
  readonly chain?: { readonly name: string; readonly policy?: string }
  readonly rule?: { readonly chain: string; readonly comment?: string }
  readonly set?: NftSet
  readonly map?: NftSet
}

interface NftSet {
  readonly name: string
  readonly elem?: readonly unknown[]
}

/** The table from the JSON of `nft -j list table`. Throws SyntaxError when the text is not JSON. */
export function readTable(stdout: string): ObservedTable {
  const objects = (JSON.parse(stdout) as { nftables: readonly NftObject[] }).nftables
  const rules = new Map<string, string[]>()
  for (const { chain, rule } of objects) {
    if (chain) rules.set(chain.name, rules.get(chain.name) ?? [])
    if (rule) rules.set(rule.chain, [...(rules.get(rule.chain) ?? []), rule.comment ?? ''])
  }
  const elements = indexElements(objects.flatMap(({ set, map }) => elementsOf(set ?? map)))
  const dropping = objects.flatMap(({ chain }) => (chain?.policy === 'drop' ? [chain.name] : []))
  const hasFlags = objects.some(({ table }) => table?.flags !== undefined)
  return { rules, elements, ...(hasFlags ? { hasFlags } : {}), ...(dropping.length > 0 ? { dropping } : {}) }
}

/** The comments of rules in what `nft -t list table` printed, of one table or of several. */
export function readBase(listing: string): ListedBase {
  const comments = [...listing.matchAll(/\bcomment "([^"]*)"/g)].map(([, comment = '']) => comment)
  return { isDormant: listing.includes('flags dormant'), comments: new Set(comments) }
}

/** A set that is none of ours has none. */
function elementsOf(listed: NftSet | undefined): readonly Element[] {
  const set = listed?.name ?? ''
  if (!isSetName(set)) return []
  const isMap = setSpec(set).value !== undefined
  return (listed?.elem ?? []).map((element) => {
    if (!isMap || !Array.isArray(element)) return { set, key: keyOf(set, element) }
    return { set, key: keyOf(set, element[0]), value: fieldsOf(element[1]) }
  })
}

/** nft names protocols by /etc/protocols, which a small image may lack: then there are numbers (getprotobynumber(3)). */
const protocols: Readonly<Record<string, string>> = { 6: 'tcp', 17: 'udp', 132: 'sctp' }

function keyOf(set: SetName, value: unknown): readonly string[] {
  const { key } = setSpec(set)
  return fieldsOf(value).map((field, at) => (key[at] === 'protocol' ? (protocols[field] ?? field) : field))
}

function fieldsOf(value: unknown): readonly string[] {
  const bare = unwrapped(value)
  const parts = typeof bare === 'object' ? (bare as { concat?: readonly unknown[] } | null)?.concat : undefined
  return parts === undefined ? [readField(bare)] : parts.map((part) => readField(unwrapped(part)))
}

/** An element with a comment, a counter or a time-out is wrapped. */
function unwrapped(value: unknown): unknown {
  return (value as { elem?: { val: unknown } } | null)?.elem?.val ?? value
}

/** As our own elements have it: an address, `address/length`, a name or a number, the chain of a verdict. */
function readField(value: unknown): string {
  if (typeof value !== 'object' || value === null) return String(value)
  const entry = value as Readonly<Record<string, unknown>>
  if ('prefix' in entry) {
    const prefix = entry['prefix'] as { addr: string; len: number }
    return `${prefix.addr}/${prefix.len}`
  }
  if ('goto' in entry) return (entry['goto'] as { target: string }).target
  if ('range' in entry) return (entry['range'] as unknown[]).map(readField).join('-')
  return JSON.stringify(value)
}

/**
 * Whether nft has told of its commit, to the end of the line (nft 1.0.6, src/monitor.c, netlink_events_newgen_cb): what
 * is printed before that is no answer yet.
 */
export function isCommitted(stdout: string): boolean {
  return /^# new generation \d+ by process \d+ \(.*\)\n/m.test(stdout)
}
