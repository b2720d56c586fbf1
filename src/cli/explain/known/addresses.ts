// SPDX-License-Identifier: Apache-2.0
// Of addresses: none is left, one is taken, or a bridge has another.

import { type KnownError, oneOf } from './known-error.ts'

/**
 * Removes host-local's reservations whose pod the runtime does not list. It keeps those younger than 5 minutes: a
 * pod that is being made has its address before it is listed. Without an answer of the runtime it removes nothing.
 */
export const clearHostLocal = [
  'pods=$(crictl pods -q) && [ -n "$pods" ] &&',
  "find /var/lib/cni/networks -mindepth 2 -type f -mmin +5 ! -name lock ! -name 'last_reserved_ip.*' |",
  'while read -r f; do id=$(head -n1 "$f" | tr -d \'\\r \');',
  'printf \'%s\\n\' "$pods" | grep -qxF -e "$id" || rm -v "$f"; done',
].join(' ')

/** Errors of address management, of the upstream plugins and of others. */
export const addressErrors: readonly KnownError[] = [
  {
    id: 'host-local-full',
    pattern: /no IP addresses available in (?:range set(?:: [\da-f.:]+-[\da-f.:]+)?|network: \S+)/,
    who: 'host-local (of bridge, ptp, macvlan, flannel, kindnet and others)',
    meaning: 'every address of the range has a file in /var/lib/cni/networks, whether its pod lives or not',
    causes: [
      'files of dead pods: after a restart of the machine, a crash of the runtime, a change from docker to ' +
        'containerd or a DEL that never came, nobody removes them',
      'there really are as many pods as addresses: a /24 has 253',
    ],
    look: ['ls /var/lib/cni/networks/*/ | wc -l', 'crictl pods -q | wc -l'],
    cure:
      'where `ls /var/lib/cni/networks/*/ | wc -l` is much more than `crictl pods -q | wc -l`, clear the leaked ' +
      'files: the command below keeps what a pod holds that the runtime lists, and what is younger than 5 minutes; ' +
      'without crictl (nerdctl, podman) it removes nothing. After a move to trestle `trestle adopt --apply` does ' +
      'it; `ipam.type` trestle takes such addresses back by itself',
    run: clearHostLocal,
    alsoOurs: true,
  },
  {
    id: 'host-local-duplicate',
    pattern: /has been allocated to \S+, duplicate allocation is not allowed/,
    who: 'host-local',
    meaning: 'the container has a reservation from an ADD that did not finish',
    causes: ['a call was killed, and no DEL came', 'the runtime sent ADD twice for one container and interface'],
    look: ['grep -rl CONTAINER-ID /var/lib/cni/networks'],
    cure:
      "remove the file with the container's id below /var/lib/cni/networks; `trestle adopt --apply` clears such " +
      'leaks',
  },
  {
    id: 'host-local-requested',
    pattern: oneOf(
      /requested IP address \S+ is not available in network|requested IP must differ (?:from )?gateway IP/,
      /requested (?:IP )?address \S+ is not available in range|requested address '?\S+ is not available/,
      /requested ip \S+ is subnet's gateway/,
    ),
    who: 'host-local',
    meaning: 'the address that was asked for (--ip, an annotation) has a file in /var/lib/cni/networks already',
    causes: [
      'the file is of an earlier container that ended with the machine, without a DEL',
      'another container got that address from the pool while this one did not run',
    ],
    look: ['head -n2 /var/lib/cni/networks/*/ADDRESS'],
    cure:
      'remove that file when its container (the first line) is gone; for fixed addresses take a range for them out ' +
      'of the pool (rangeStart, rangeEnd)',
    alsoOurs: true,
  },
  {
    id: 'host-local-outside',
    pattern: oneOf(
      /failed to allocate all requested IPs: [^\n]{1,120}/,
      /no configured subnet (?:or ip-range )?contains? (?:the )?IP address [^\s"]+/,
      /Invalid address \S+ It does not belong to any of this network's subnets/,
      /requested static ip \S+ not in any subnet on network[^\n]{0,40}/,
      /(?:response from daemon|IPAM|failed to allocate)[^\n]{0,160}Requested address is out of range/,
      /Device IP address "[^"]*" not within network "[^"]*" subnet/,
      /static IP allocation failed, requested static IP:\S+ is (?:outside the network|not a valid IP)[^\n]{0,80}/,
    ),
    who: 'host-local, docker, podman, Incus, DANM',
    meaning: 'the address that was asked for (--ip, an annotation) is in none of the ranges of the network',
    causes: [
      'the wrong network: without its name the default one is taken',
      'rangeStart and rangeEnd leave the address out',
      'more addresses of one family are asked for than there are ranges of it',
    ],
    look: ['grep -r -A8 ipam /etc/cni/net.d', 'podman network inspect NETWORK; docker network inspect NETWORK'],
    cure: 'name the network that has the address, ask for one within its ranges, or widen them',
  },
  {
    id: 'host-local-range',
    pattern: oneOf(
      /not in network:? |outside of network \S+ with (?:start|end)|is in network \S+ but (?:after|before)/,
      /subnets \S+ and \S+ overlap|Network \S+ too small to allocate from|is not the same protocol as subnet/,
      /is not in network: |is the network address|invalid range set \d+: [^\n]{1,100}/,
      /(?:IP|address|gateway|RangeStart|RangeEnd) \S+ (?:is )?not in network/,
      /no ranges? (?:specified|configured)|no IP ranges specified|IPAM config missing 'ipam' key/,
      /Network has host bits set|range set[^\n]{0,80}overlaps with|mixed address families|empty range set/,
      /aux-address reservations leave no allocatable IPs|invalid subnet - (?:bits after network prefix are not all zero|smaller than minimum size \d+): \S+/,
      /IP \S+ not v4 nor v6|IPNet IP and Mask version mismatch|does not support more than 1 address per family/,
      /unexpected subnet "[^"]*", maybe you meant/,
      /(?:gateway|range (?:start|end) ip|static ip) \S+ not in (?:any )?subnet/,
      /no matching subnet (?:"[^"]*" )?for (?:gateway|ip-range|aux-address)/,
      /could not create gateway for subnet \S+|calculated ip address \S+ is not within given subnet/,
      /invalid (?:gateway|secondary) address (?:\S+ )?\(\S+\) does not belong to the pool|must belong to the master pool/,
      /container subnet must be a subset of bridge network|default gateway ip must be part of the network/,
      /no matching subnet for|invalid subnet \S+: it should be \S+|IP range "[^"]*" does not fall within/,
      /'[^']*' clashes with the Link-Local prefix|(?:overlapping|duplicate) subnets detected: \S+/,
      /invalid range (?:start|end) "[^"]*" for subnet|missing field "[^"]*" in IPAM configuration/,
      /Range \d+ overlaps with range \d+|more than 1 range per address family|Cannot understand range \d+/,
      /type="(?:static|host-local)"[^\n]{0,60}: invalid gateway address: \S+/,
    ),
    who: 'host-local, nerdctl, weave',
    meaning: 'the ranges of `ipam` are none, or contradict each other',
    causes: [
      'a subnet with host bits (10.1.2.3/24 in place of 10.1.2.0/24)',
      'rangeStart, rangeEnd or gateway lies outside of the subnet',
      'neither `subnet` nor `ranges` is given',
    ],
    look: ['trestle lint'],
    cure: 'correct the ranges in the configuration',
    alsoOurs: true,
    needsNetwork: true,
  },
  {
    id: 'address-in-use',
    pattern: oneOf(
      /has already been used by host with MAC|provided IP is already allocated|\bIP [\d.a-f:]{4,40} is (?:already allocated|reserved and not available)\b/,
      /Error response from daemon: (?:[\w ]{1,60}: )?Address already in use(?=\.?\s*(?:["'\\]|$))/,
      /IP address "?\S+"? (?:already defined on another NIC|in use on parent network|is assigned to parent managed network)/,
      /\bIP(?: address)? \S+ (?:is )?(?:already )?(?:allocated|in use|used|owned) by/,
      /address \S+ is already (?:owned|allocated)|with an? conflicting ip|is located at [\da-f:]{17}/,
      /failed to allocate secondary ip address \([^)\n]*\): Address already in use/,
      /AddressConflict|(?:requested )?(?:IP )?address:? ?\S+ is already in use/,
      /requested ip address is already allocated to \w+|duplicate (?:IP )?address(?: detected)?/,
      /IP address \S+ (?:conflicts|is in use by)|(?:address|IP) conflict|DAD failed|IPv6 DAD of address \S+ on interface \S+ failed|dadfailed/,
      /static IP allocation failed[^\n]{0,80}already in use/,
    ),
    who: 'an IPAM plugin, a check for duplicates, or the kernel',
    meaning: 'the address that the pod should have is in use by another machine or pod on the same network',
    causes: [
      'a range of the network (macvlan, ipvlan, a bridge with a port into the LAN) overlaps the DHCP pool or fixed ' +
        'addresses of the LAN',
      'two nodes give from the same range: host-local knows only its own node',
      'the pod of before still lives, on another node',
    ],
    look: ['arping -D -I INTERFACE ADDRESS', 'ip neigh show ADDRESS'],
    cure:
      'give each node a range of its own (rangeStart, rangeEnd), or use an IPAM that knows the cluster ' +
      '(whereabouts, dhcp); take the range out of the DHCP pool',
    needsNetwork: true,
    alsoOurs: true,
    // Of an address for a service of Cilium, which gets another one.
    unless: /deferring to regular allocation logic/,
  },
  {
    id: 'subnet-used',
    pattern: oneOf(
      /(?:Network|Address|network) \S+ would overlap with (?:existing )?route/,
      /overlaps with (?:other|another|an existing|the) (?:network|subnet|one)|subnet \S+ overlaps/,
      /(?:subnet|network) \S+ is (?:already )?(?:used|being used) [^\n]{0,80}/,
      /ServiceCidrOverlap\w*|service CIDR \S+ is conflicted with|Invalid IPCidrRange: \S+ conflicts with existing/,
      /Pool overlaps with other one on this address space|could not find an available, non-overlapping/,
      /(?:Network|Address|-{1,2}ip(?:alloc-)?range \S+|range \S+) overlaps with existing route|(?:Network|Address) \S+ overlaps with existing route|subnet overlap error/,
      /(?:cluster|node|service) IP:? \S+ conflicts with (?:host|cluster|service) network|Local networks conflict with SDN/,
      /is conflict with (?:subnet \S+ )?cidr \S+|cidr \S+ (?:(?:is )?conflict with|conflicts with k8s apiserver)/,
      /list bridge addresses failed: [^\n]{0,400}no available network|networks have overlapping IPv[46]/,
      /cannot program address \S+ in sandbox interface because it conflicts with existing route[^\n]{0,160}/,
      /no free private network subnets found|failed to find free subnet for \w+ network/,
      /Network is already in use by interface \S+|host-only cidr conflicts with the network address/,
      /could not find free subnet\b|no more subnets left|exhausted attempts trying to find a non-overlapping subnet/,
      /predefined address pools have been fully subnetted|could not find free subnet from subnet pools/,
      /Failed to automatically find an unused IPv[46] subnet[^\n]{0,60}|overlaps with another (?:OVN )?network or NIC/,
      /network with name \S+ already exists|network \S+ already (?:exists|used): network already exists/,
      /(?:network|bridge) name \S+ (?:is )?already (?:in use|used)|overlay subnet \S+ has conflicts in the host/,
      /illegal network configuration: [^\n]{1,80} overlaps[^\n]{1,80}|GlobalCIDR \S+ of local cluster|as subnets are overlapping/,
    ),
    who: 'podman, nerdctl, docker, minikube, weave',
    meaning:
      'the range (or the name) of a new network is in use: by another network, an interface or a route of the host',
    causes: [
      'a network of that range is left from before',
      'a VPN or the LAN has the same range',
      '"in sandbox interface": the container shares the network of the host (a pod of Kata with docker), and is to ' +
        'get an address as well',
      'two ranges of the settings overlap: of pods, of services, of another cluster that is joined',
    ],
    look: ['ip route', 'podman network ls; nerdctl network ls; docker network ls'],
    cure: 'choose another range (--subnet; weave: IPALLOC_RANGE), or remove the network that is left (network prune)',
    needsNetwork: true,
  },
  {
    id: 'bridge-other-address',
    pattern:
      /"[^"]+" already has an IP address(?: different from \S+)?|failed to set bridge addr: "?[\w.-]+"? already has an (?:IP )?address|bridge IPv[46] (?:\(\S+\) does|addresses do) not match (?:the expected|requested)/,
    who: 'the bridge plugin (mostly below flannel)',
    meaning: 'the bridge has the gateway of another range than the node has now',
    causes: [
      'the node was reset, joined anew or got another podCIDR, and the bridge was left',
      'two networks use one bridge name with different ranges',
    ],
    look: ['ip -4 addr show cni0', 'cat /run/flannel/subnet.env', 'ls /sys/class/net/cni0/brif'],
    cure:
      'when no living pod is on it: ip link delete cni0 (with the name of the message); the next pod makes it ' +
      'anew. Else drain the node first; two networks: give one another `bridge`',
    alsoOurs: true,
  },
  {
    id: 'bridge-address-race',
    pattern: /could not add IP address (?:\S+ )?to "[^"]*": file exists/,
    who: 'the bridge plugin',
    meaning: 'the bridge has just got this address from another call',
    causes: [
      'two first pods at once: a fault of the plugins before v0.7.5',
      'the gateway is an address of another interface of the node as well',
    ],
    look: ['ip addr | grep GATEWAY'],
    cure: 'nothing: the next try works. Newer plugins do not have it',
  },
]
