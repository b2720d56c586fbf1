// SPDX-License-Identifier: Apache-2.0
// trestle's nftables tables: every set, chain and rule, in this file only. `inet trestle` has everything but
// macspoofchk, which is in `bridge trestle`. Networks and pods only add elements to sets, so the number of rules does not
// grow with them. Each rule's comment has the version: a flushed, older or foreign table is noticed without comparing
// expressions. Raise the version when anything here changes.

export const tableName = 'trestle'
export const rulesetVersion = 101

export type TableFamily = 'inet' | 'bridge'

/** What a field of a key or of a map's value holds. A set of prefixes refuses those that overlap. */
type FieldKind = 'address4' | 'address6' | 'prefix4' | 'prefix6' | 'protocol' | 'port' | 'link' | 'mac'

interface SetSpec {
  readonly key: readonly FieldKind[]
  readonly value?: readonly FieldKind[]
  readonly table?: 'bridge'
}

/** In the order in which they are made. */
export const sets = {
  /** Sources that are masqueraded, and pairs (source, destination) between which the pod's address is kept. */
  masq4: { key: ['prefix4'] },
  masq6: { key: ['prefix6'] },
  keep4: { key: ['prefix4', 'prefix4'] },
  keep6: { key: ['prefix6', 'prefix6'] },
  /** The same for a chained pod's address that has no subnet. */
  masqhost4: { key: ['address4'] },
  masqhost6: { key: ['address6'] },
  keephost4: { key: ['address4', 'prefix4'] },
  keephost6: { key: ['address6', 'prefix6'] },
  /** Source and destination of one network, and the link by which a translated packet goes back where it came from. */
  hairpin4: { key: ['prefix4', 'prefix4'] },
  hairpin6: { key: ['prefix6', 'prefix6'] },
  hairpinlink: { key: ['link', 'link'] },
  /** A pod's address twice: it may reach itself through a translation. */
  self4: { key: ['address4', 'address4'] },
  self6: { key: ['address6', 'address6'] },
  /** Host ports on one address of the node, and on any. */
  ports4: { key: ['address4', 'protocol', 'port'], value: ['address4', 'port'] },
  ports6: { key: ['address6', 'protocol', 'port'], value: ['address6', 'port'] },
  anyports4: { key: ['protocol', 'port'], value: ['address4', 'port'] },
  anyports6: { key: ['protocol', 'port'], value: ['address6', 'port'] },
  /** Ports of pods whose clients are all masqueraded (masqAll). */
  masqall4: { key: ['address4', 'protocol', 'port'] },
  masqall6: { key: ['address6', 'protocol', 'port'] },
  /** Links by which 127.0.0.1 of the node reaches host ports. */
  loopback: { key: ['link'] },
  /** ingressPolicy: links that do not reach each other, and pairs of them that do. */
  fenced: { key: ['link'] },
  fencedpair: { key: ['link', 'link'] },
  /** hostAccept: whose packets are accepted, and new connections to them, destination first. */
  acceptlinks: { key: ['link'] },
  acceptnet4: { key: ['prefix4'] },
  acceptnet6: { key: ['prefix6'] },
  acceptnew4: { key: ['prefix4', 'prefix4'] },
  acceptnew6: { key: ['prefix6', 'prefix6'] },
  /** The cluster: this node's pod ranges, those of other nodes, and other nodes' addresses. */
  podnet4: { key: ['prefix4'] },
  podnet6: { key: ['prefix6'] },
  peernet4: { key: ['prefix4'] },
  peernet6: { key: ['prefix6'] },
  peeraddr4: { key: ['address4'] },
  peeraddr6: { key: ['address6'] },
  /** The overlay's UDP port, which other nodes alone reach, and its device. */
  overlayport: { key: ['port'] },
  overlaylink: { key: ['link'] },
  /** macspoofchk: ports whose frames are checked, and the MAC that each may have. */
  guarded: { key: ['link'], table: 'bridge' },
  guardedmac: { key: ['link', 'mac'], table: 'bridge' },
} as const satisfies Readonly<Record<string, SetSpec>>

export type SetName = keyof typeof sets

/** An entry of a set, or of a map where it has a value. `comment`: whose it is (drivers/names.ts). */
export interface Element {
  readonly set: SetName
  readonly key: readonly string[]
  readonly value?: readonly string[]
  readonly comment: string
}

/** A key to compare elements by: no field has a space in it. */
export function elementKey({ set, key }: Pick<Element, 'set' | 'key'>): string {
  return `${set} ${key.join(' ')}`
}

export function setSpec(set: SetName): SetSpec {
  return sets[set]
}

export function tableOf(set: SetName): TableFamily {
  return setSpec(set).table ?? 'inet'
}

export function setsIn(table: TableFamily): readonly SetName[] {
  return (Object.keys(sets) as SetName[]).filter((name) => tableOf(name) === table)
}

interface Chain {
  readonly name: string
  readonly hook?: string
  /** Name and expression of each rule, in order. */
  readonly rules: readonly (readonly [name: string, expression: string])[]
}

/** Both families of a rule whose text differs by them alone: `ip?` and `@name?` stand for the words of each family. */
function families(name: string, expression: string): readonly (readonly [string, string])[] {
  const text = (family: 4 | 6) =>
    expression
      .replace(/\bip\?/g, family === 4 ? 'ip' : 'ip6')
      .replace(/(@\w+)\?/g, `$1${family}`)
      .replace('multicast', family === 4 ? '224.0.0.0/4' : 'ff00::/8')
  return [
    [`${name}4`, text(4)],
    [`${name}6`, text(6)],
  ]
}

const chains: readonly Chain[] = [
  {
    // What route_localnet opens for host ports on 127.0.0.1 is closed here, before conntrack: a loopback address on the
    // link of a pod is never right (the CVE-2020-8558 class).
    name: 'guard',
    hook: 'type filter hook prerouting priority raw',
    rules: [
      ['loopback-to', 'iifname @loopback ip daddr 127.0.0.0/8 drop'],
      ['loopback-from', 'iifname @loopback ip saddr 127.0.0.0/8 drop'],
    ],
  },
  {
    name: 'hostports',
    rules: [
      // There is no route_localnet for IPv6: what goes from ::1 to ::1 is for a service of the node.
      ['loopback6', 'ip6 saddr ::1 ip6 daddr ::1 return'],
      ...families('port', 'dnat ip? to ip? daddr . meta l4proto . th dport map @ports?'),
      ...families('anyport', 'dnat ip? to meta l4proto . th dport map @anyports?'),
    ],
  },
  {
    // After dstnat (-100), where kube-proxy translates: the first translation of a connection stands, so a NodePort or
    // Service wins. Only packets to the node's own addresses are looked up (GHSA-jv3w-x3r3-g6rm).
    name: 'prerouting',
    hook: 'type nat hook prerouting priority -90',
    rules: [
      // From another machine it would be translated before the kernel's check for martians could drop it
      // (net/ipv4/route.c, ip_route_input_slow).
      ['loopback4', 'iifname != "lo" ip daddr 127.0.0.0/8 return'],
      ['local', 'fib daddr type local jump hostports'],
    ],
  },
  {
    name: 'output',
    hook: 'type nat hook output priority -90',
    rules: [['local-out', 'fib daddr type local jump hostports']],
  },
  {
    name: 'overlay',
    hook: 'type filter hook input priority filter',
    rules: families('stranger', 'ip? saddr != @peeraddr? udp dport @overlayport counter drop'),
  },
  {
    name: 'forward',
    hook: 'type filter hook forward priority filter',
    rules: [
      // A pod's packet to another node's overlay would come there with this node's address, masqueraded.
      ...families('outer', 'ip? daddr @peeraddr? udp dport @overlayport drop'),
      // On an isolated bridge, too, a pod reaches itself through a translation.
      ...families('itself', 'ip? saddr . ip? daddr @self? ct status dnat return'),
      ['fence', 'iifname @fenced oifname @fenced iifname . oifname != @fencedpair drop'],
    ],
  },
  {
    // At srcnat (100), where kube-proxy masquerades too: these rules speak only for sources of our own networks.
    name: 'postrouting',
    hook: 'type nat hook postrouting priority srcnat',
    rules: [
      // Translated and routed back to its bridge: the answer would go straight to the client, untranslated. With
      // br_netfilter the packet never leaves the bridge and has no input interface here; a routed one has one since
      // Linux 5.7 (net/bridge/br_netfilter_hooks.c, br_nf_post_routing; commit 28f8bfd1ac94).
      ...families(
        'hairpin',
        'ip? saddr . ip? daddr @hairpin? iifname . oifname @hairpinlink ct status dnat masquerade',
      ),
      ...families('self', 'ip? saddr . ip? daddr @self? ct status dnat masquerade'),
      ['from-loopback', 'oifname @loopback ip saddr 127.0.0.0/8 ct status dnat masquerade'],
      ...families('all', 'ip? daddr . meta l4proto . th dport @masqall? ct status dnat masquerade'),
      // Pods of other nodes see the pod's own address: one element for a node's range, not one for each range here.
      ...families('peer', 'ip? saddr @podnet? ip? daddr @peernet? return'),
      ...families('masquerade', 'ip? saddr @masq? ip? daddr != multicast ip? saddr . ip? daddr != @keep? masquerade'),
      ...families(
        'masqhost',
        'ip? saddr @masqhost? ip? daddr != multicast ip? daddr != @masqhost? ip? saddr . ip? daddr != @keephost? masquerade',
      ),
    ],
  },
  {
    // Behind kube-proxy's masquerade, at srcnat: the packet around it would be masqueraded once more (flannel#1282).
    name: 'encapsulated',
    hook: 'type filter hook postrouting priority 101',
    rules: [['unmark-overlay', 'oifname @overlaylink meta mark & 0x4000 != 0 meta mark set meta mark & 0xffffbfff']],
  },
]

const bridgeChains: readonly Chain[] = [
  {
    name: 'prerouting',
    hook: 'type filter hook prerouting priority -300',
    rules: [['spoof', 'iifname @guarded iifname . ether saddr != @guardedmac drop']],
  },
]

/**
 * The bit of the packet mark that says to other firewalls "let this pass", so that a chain of theirs needs one constant
 * accept. Taken by others are 0x2000 (portmap, podman), 0x4000 and 0x8000 (kube-proxy, kubelet), 0xf00 (cilium), 0x100
 * (docker swarm), 0xff0000 (tailscale), 0xffff0000 (calico), 0x20000 (weave, kube-router), 0x80000000 and 0xff (antrea),
 * 0x80 (AWS); see https://github.com/fwmark/registry.
 */
export const acceptMark = 0x1000
export const acceptMarkText = '0x1000'

/** Where packets are marked: a base chain that runs before it cannot be helped by the mark. */
export const acceptPriority = -149

/**
 * hostAccept's chains; without rules where no network asks for it, so that nobody's marks are touched. They come right
 * after mangle (-150), where others save whole marks; the bit is cleared again right before mangle's postrouting, so
 * that no CONNMARK saves it. `kernel`: its release.
 */
function acceptChains(hasAccept: boolean, kernel: string): readonly Chain[] {
  const clear = `meta mark & ${acceptMarkText} != 0 meta mark set meta mark & 0xffffefff`
  const accept = `meta mark set meta mark | ${acceptMarkText} accept`
  // A source can be forged: by address it has to come by a veth, from where the answer would go. A forward chain can
  // look that up since Linux 5.19 (net/netfilter/nft_fib.c, nft_fib_validate).
  const [major = 0, minor = 0] = kernel.split(/[.-]/).map(Number)
  const wayBack = major > 5 || (major === 5 && minor >= 19) ? 'fib saddr . iif oif exists ' : ''
  const admitted: Chain = {
    name: 'admitted',
    rules: [
      ['answer', `ct state established,related ${accept}`],
      ['translated', `ct status dnat ${accept}`],
      ...families('new', `ip? daddr . ip? saddr @acceptnew? ${accept}`),
      ...families('peer-new', `ip? daddr @podnet? ip? saddr @peernet? ${accept}`),
      ...families('node-new', `ip? daddr @podnet? ip? saddr @peeraddr? ${accept}`),
    ],
  }
  const admit: Chain = {
    name: 'admit',
    hook: `type filter hook forward priority ${acceptPriority}`,
    rules: [
      ['admit-clear', clear],
      ['admit-from', `iifname @acceptlinks ${accept}`],
      ...families('admit-from', `meta iifkind "veth" ip? saddr @acceptnet? ${wayBack}${accept}`),
      ['admit-to', 'oifname @acceptlinks jump admitted'],
      ...families('admit-to', 'ip? daddr @acceptnet? jump admitted'),
    ],
  }
  const unmark: Chain = {
    name: 'unmark',
    hook: 'type filter hook postrouting priority -151',
    rules: [['unmark', clear]],
  }
  return [admitted, admit, unmark].map((chain) => (hasAccept ? chain : { ...chain, rules: [] }))
}

export function chainsOf(table: TableFamily, hasAccept: boolean, kernel = ''): readonly Chain[] {
  return table === 'bridge' ? bridgeChains : [...chains, ...acceptChains(hasAccept, kernel)]
}

/** The comment of a rule, by which its version is recognised. */
export function ruleComment(name: string): string {
  return `trestle ${rulesetVersion} ${name}`
}

/** The comments of every rule of the table. */
export function ruleComments(table: TableFamily, hasAccept: boolean): readonly string[] {
  return chainsOf(table, hasAccept).flatMap(({ rules }) => rules.map(([name]) => ruleComment(name)))
}

/** The version of the ruleset that comments are of; undefined where none is ours. Of two versions the newer one stays. */
export function versionOf(comments: Iterable<string>): number | undefined {
  for (const comment of comments) {
    const version = /^trestle (\d+) /.exec(comment)?.[1]
    if (version !== undefined) return Number(version)
  }
  return undefined
}

/** A comment of rules of another version of trestle. */
export function otherVersionIn(comments: readonly string[]): string | undefined {
  return comments.find((comment) => /^trestle \d+ /.test(comment) && !comment.startsWith(ruleComment('')))
}

export function isNewerVersion(version: number | undefined): boolean {
  return version !== undefined && version > rulesetVersion
}
