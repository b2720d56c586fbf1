// SPDX-License-Identifier: Apache-2.0
// Of firewalld and nft, which plugins ask or run.

import { type KnownError, oneOf } from './known-error.ts'

/** Errors of firewalld and nft. */
export const firewallErrors: readonly KnownError[] = [
  {
    id: 'firewalld-refused',
    pattern:
      /INVALID_ZONE|ZONE_(?:ALREADY_SET|CONFLICT)|firewalld?: COMMAND_FAILED|org\.fedoraproject\.FirewallD1|(?:to|from|in) \S+ zone: [A-Z]+_[A-Z_]+/,
    who: 'firewalld, asked by the firewall plugin',
    meaning: 'firewalld refused to put the address of the pod into a zone',
    causes: [
      'the zone (trusted, or firewalldZone) does not exist',
      'the address is in another zone, from an earlier pod or by hand',
      'firewalld was just restarted',
    ],
    look: [
      'firewall-cmd --get-zones',
      'firewall-cmd --zone=trusted --list-sources',
      'firewall-cmd --get-zone-of-source=ADDRESS',
    ],
    cure: 'firewall-cmd --zone=ZONE --remove-source=ADDRESS for one that is left; use a zone that exists',
  },
  {
    id: 'nft-refused',
    pattern: oneOf(
      /Error: Could not process rule: (?:Operation not supported|No such file or directory|Invalid argument|Device or resource busy)/,
      /conn\.Receive: netlink receive: [a-z ]+|\bnft\W{0,2} did not return successfully while applying ruleset/,
      /Error: Could not process rule: (?!Operation not permitted)[A-Z][a-z ]+/,
      /\bnft\b[^\n]{0,200}Error: syntax error, unexpected/,
    ),
    who: 'nft, run by a plugin',
    meaning: 'the kernel refused a rule of nftables',
    causes: [
      'Operation not supported: the kernel is older than the rule, or the hook does not allow it (dnat in an input ' +
        'chain before 6.x)',
      'No such file: a table, chain or module (nft_nat, nft_masq, nft_fib) is missing; a flush removed the table',
    ],
    look: ['uname -r; nft --version', 'modprobe -a nft_nat nft_masq nft_fib nft_fib_inet nft_ct', 'nft list tables'],
    cure: 'load the modules; take the newest release of the plugin, or its iptables backend',
    needsNetwork: true,
  },
  {
    id: 'conntrack-refused',
    pattern: /conntrack v[\d.]+ \(conntrack-tools\): (?!0 flow|\d+ flow)[^\n]{1,100}/i,
    who: 'conntrack, run by a plugin or the runtime',
    meaning: 'entries of old connections could not be removed, so UDP to a host port may go to a pod that is gone',
    causes: ['the module nf_conntrack_netlink is missing', 'the process has no CAP_NET_ADMIN'],
    look: ['modprobe nf_conntrack_netlink; conntrack -C'],
    cure: 'load nf_conntrack_netlink; give the process the right',
  },
]
