// SPDX-License-Identifier: Apache-2.0
// Of the tools themselves: what `ip`, `tc`, `bridge` and iptables print where no other entry knows the case.

import { type KnownError, oneOf } from '../known/known-error.ts'

/** Errors of tools that are run by plugins and agents, and by hand. */
export const toolErrors: readonly KnownError[] = [
  {
    id: 'rtnetlink-refused',
    pattern: oneOf(
      /(?:failed \(\w+\): |\bcni\d?\b|\bveth[\da-f]{4,}|\bnetns\b|\bkube-\w+|flannel|docker0|weave|\bcali[\da-f]{3,}|\bpods?\b)[^\n]{0,200}RTNETLINK answers: [A-Z][a-z ]{2,60}/,
      /RTNETLINK answers: [A-Z][a-z ]{2,60}[^\n]{0,80}(?:\bcni\d\b|\bveth[\da-f]{4,}|\bnetns\b|flannel|docker0|\bcali[\da-f]{3,})/,
      /Error: (?:Invalid handle|Exclusivity flag on, cannot modify|Cannot find specified qdisc|Parent Qdisc doesn't exist|Specified qdisc not found)[^\n]{0,80}/,
      /Error: (?:ipv4: (?:Address already assigned|FIB table does not exist)|ipv6: address already assigned|Gateway can not be a local address|bridge: VLAN not found)[^\n]{0,60}/,
      /Error: (?:Invalid prefix for given prefix length|inet6? (?:prefix|address) is expected rather than|either "\w+" is duplicate, or)[^\n]{0,80}/,
      /Error: The interface netns is immutable|Cannot create namespace file "[^"\n]{1,80}": File exists/,
    ),
    who: 'ip, tc or bridge, run by a plugin, an agent or by hand',
    meaning: 'the kernel refused what the command asked for; its last words say why',
    causes: [
      'File exists, already assigned: the route, address, queue or namespace is there already',
      'No such process, No such file, table does not exist: what is to be removed or hung on is not there',
      'Network is down, Invalid argument: the interface is down, or the gateway is in none of its subnets',
      'netns is immutable: such a device (a bridge, a bond, a VRF, tunl0) cannot be moved into a pod',
    ],
    look: ['ip -d addr; ip route; ip rule', 'tc qdisc show', 'journalctl -k --since -10m | tail'],
    cure: 'run the same command with show in place of add, see what is there, and correct the value',
    wraps: true,
    needsNetwork: true,
  },
  {
    id: 'iptables-both-kinds',
    pattern: /# Warning: ip6?tables-legacy tables present, use ip6?tables-legacy(?:-save)? to see them/,
    who: 'iptables of the nft kind',
    meaning: 'the node has rules of both kinds, legacy and nft: the kernel runs both, and each tool shows its own',
    causes: [
      'an image with the other kind (kube-proxy, an agent, docker) wrote rules on this node',
      'the node was switched from one kind to the other (update-alternatives) and not restarted',
    ],
    look: ['iptables-legacy-save | head; iptables-nft-save | head', 'update-alternatives --display iptables'],
    cure:
      'harmless while no rule of one kind drops what the other lets through; let all programs use one kind, ' +
      'then drain the node and restart it, which forgets the rest',
  },
]
