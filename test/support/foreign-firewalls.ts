// SPDX-License-Identifier: Apache-2.0
// Firewalls of others that drop what is forwarded, as hostAccept meets them (docs/host.md).

/** A firewall of somebody else that drops what is forwarded. `make`: command lines. */
export interface Firewall {
  readonly what: string
  readonly make: readonly string[]
  /** Lists the foreign rules. */
  readonly list: readonly string[]
}

/** FORWARD with policy DROP and a rule, by an iptables variant. */
export const policyDrop = (program: string) => [
  `${program} -A FORWARD -s 10.66.0.0/16 -j ACCEPT -m comment --comment foreign`,
  `${program} -P FORWARD DROP`,
]
/** What dockerd makes, as far as forwarding goes (Docker 28). */
const docker = (program: string) => [
  `${program} -N DOCKER-USER`,
  `${program} -N DOCKER-FORWARD`,
  `${program} -A FORWARD -j DOCKER-USER`,
  `${program} -A FORWARD -j DOCKER-FORWARD`,
  `${program} -A DOCKER-FORWARD -i docker0 -j ACCEPT`,
  `${program} -A DOCKER-FORWARD -j DROP`,
]
/** An nft table whose chain of the forward hook drops. */
export const foreignTable = [
  'nft add table inet fw',
  'nft add chain inet fw forwarded { type filter hook forward priority 10 ; policy drop ; }',
  'nft add rule inet fw forwarded ip saddr 10.66.0.0/16 counter accept comment foreign',
]

const both = ['iptables-nft -S', 'ip6tables-nft -S']

/** Several firewalls on one node. */
export const together: Firewall = {
  what: 'several of them',
  make: [...docker('iptables-nft'), ...policyDrop('ip6tables-nft').slice(1), ...foreignTable],
  list: [...both, 'nft list table inet fw'],
}

/** Every kind that is known, and several at once. */
export const firewalls: readonly Firewall[] = [
  {
    what: 'iptables-nft with policy DROP',
    make: [...policyDrop('iptables-nft'), ...policyDrop('ip6tables-nft').slice(1)],
    list: both,
  },
  {
    what: "Docker's chains",
    make: [...docker('iptables-nft'), ...docker('ip6tables-nft')],
    list: both,
  },
  { what: 'an nft table with policy drop', make: foreignTable, list: ['nft list table inet fw'] },
  together,
]
