// SPDX-License-Identifier: Apache-2.0
// Of plugins and runtimes that say at which step of a pod's network something failed, and quote the kernel or a tool.

import { type KnownError, oneOf } from '../known/known-error.ts'

/** Steps of making an interface, and of writing rules; what they quote counts where it is known. */
export const podStepErrors: readonly KnownError[] = [
  {
    id: 'pod-interface',
    pattern: oneOf(
      /failed to add IP addr\b[^\n]{0,400}? to (?:"[^"\n]{1,20}"|veth): (?!exchange full|permission denied|operation not |Link not found|no such (?:device|network)|cannot allocate|no buffer)[a-z][^\n]{1,60}/,
      /could not (?:add|remove) IP address [^\n]{0,80}?"[^"\n]{1,20}": (?!exchange full|permission denied|operation not |Link not found|no such (?:device|network)|cannot allocate|no buffer)[a-z][^\n]{1,60}/,
      /failed (?:to|too) (?:set|up) "[^"\n]{1,20}" ?(?:up|down)?: (?!exchange full|permission denied|operation not |Link not found|no such (?:device|network)|cannot allocate|no buffer)[a-z][^\n]{1,60}/,
      /failed to (?:move|rename|refetch|restore|connect) (?:link|veth|vlan|tap|(?:mac|ip)vlan|(?:host )?device|"[^"\n]{1,20}")[^\n]{0,200}?: network is down/,
      /(?:failed to|could not) (?:set|get)? ?(?:vrf|tap|macvlan|link)\b[^\n]{0,40} (?:as (?:a port|master) of|up for|by name)\b[^\n]{0,60}/,
      /fail(?:e)?d (?:to )?(?:create|add|set)(?: an?| the)? (?:tap|dummy|vlan gateway|vlan interface|socket label)\b[^\n]{0,80}/,
      /failed to (?:set ?up|set|remove) (?:hairpin mode|(?:default )?(?:native )?vlan(?: tag)?|proxy_arp|isolated on)\b[^\n]{0,80}/,
      /failed to (?:set "[\da-f:]{17}" address to|configure "\w{1,15}" mac address to|find a unique veth name)[^\n]{0,60}|cmdAdd failed: could not \w+ (?:vrf|link)[^\n]{0,80}/,
      /create (?:ifb )?qdisc: [a-z][^\n]{1,60}|create htb \w+ (?:in|e)gress qos rules: [^\n]{1,80}/,
      /failed \(\w+\): (?:Failed to (?:add|delete|readd|list)(?: all)? (?:rules?|routes?)\b|Cannot find network interface)[^\n]{0,80}/,
      /failed \((?:add|cmdAdd)\): (?:[^\n]{0,100}: )?(?:failed to|could not|error|unable to) (?:re-?)?(?:move|rename|set|configure|create|bring up|add) (?:[\w"'.-]{1,20} ){0,4}?(?:interface|veth|VF|netdevice|link|MTU|MAC address|IP address|gateway route|pod route|alias|devices?)\b[^\n]{0,160}: (?!exchange full|permission denied|operation not |Link not found|no such (?:device|network)|cannot allocate|no buffer)[a-z][^\n]{1,60}/,
      /unable to query interface \S+ of container|failed to (?:add pod to shaper|setup traffic shaping)[^\n]{0,80}|(?:error setting|failed to set) promisc\w* mode on \S+[^\n]{0,60}/,
    ),
    who: 'a plugin (bridge, macvlan, host-device, bandwidth, vrf; sriov, ovn, antrea and others), kubenet',
    meaning:
      "the kernel refused one step of making the pod's interface, or of giving it back; the words behind say why",
    causes: [
      'file exists: the address or name is in this namespace from an ADD without a DEL, or two networks of the pod ' +
        'want the same',
      'invalid argument: the kernel does not take this value (an address of no host, a VLAN, a rate), or the ' +
        'namespace of the pod ended meanwhile',
      'network is down: the master, the bridge or its port is down',
      'no such file or directory, no such device: the interface is gone, or the kernel lacks a module (sch_htb, vrf)',
    ],
    look: ['ip -n NETNS -d addr; ip -d -br link', 'journalctl -k --since "10 minutes ago" | tail', 'trestle lint'],
    cure: 'do what the last words mean; a pod that was half made is best deleted: the next sandbox has a new namespace',
    wraps: true,
    needsNetwork: true,
  },
  {
    id: 'pod-rules',
    pattern: oneOf(
      /(?:failed to create top-level|unable to (?:create|ensure)(?: ip6?tables)?) (?:[DS]NAT )?chain\b[^\n]{0,160}/,
      /unable to (?:set ?up|teardown) (?:[DS]NAT|masquerade|nftables rules for)[^\n]{0,160}|unable to enable route_localnet[^\n]{0,120}/,
      /could not (?:teardown|check) ipv[46] [ds]nat: [^\n]{1,160}|error deleting nftables rules: [^\n]{1,120}/,
      /failed to (?:add|remove) hostport(?: mapping)? for [^\n]{1,200}|failed to execute iptables-(?:restore|save): [^\n]{1,160}/,
      /failed to ensure that \w+ chain \S+ (?:exists|jumps to)[^\n]{0,160}|Failed to ensure (?:marked )?MASQ rule[^\n]{0,160}/,
      /Failed to (?:flush dedup chain|ensure (?:filter table|packets from))[^\n]{0,200}/,
      /failed to (?:set ?up|tear ?down) spoof-check[^\n]{0,200}|failed to (?:set ?up|tear ?down) ip ?masq(?:uerade)?\b[^\n]{0,160}/,
      /failed to list (?:iptables )?chains: (?![^\n]{0,120}exit status \d+:?\s*(?:["'\\]|$))[^\n]{1,160}|could not initialize iptables protocol \d[^\n]{0,120}/,
      /(?:update|delete) (?:nftables|iptables) hostports? rules[^\n]{0,160}/,
    ),
    who: 'portmap, bridge, ptp or firewall, CRI-O or kubelet (host ports)',
    meaning: 'the rules for the pod (host ports, masquerade, its policy) could not be written or removed',
    causes: [
      'iptables or nft failed: the words behind it, or the log of the runtime, have its answer',
      'another program changed the same rules in that moment, or holds the lock',
      'a module of the kernel is missing, or the node has rules of both kinds (iptables-legacy and nft)',
    ],
    look: ['iptables -V; iptables-save | head -20; nft list tables', 'lsmod | grep -e ip_tables -e nf_tables'],
    cure: 'do what the words of iptables or nft name; the next try of the runtime writes the rules anew',
    wraps: true,
    needsNetwork: true,
  },
]
