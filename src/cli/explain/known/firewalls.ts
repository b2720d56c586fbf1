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
      /failed to run nft: (?:< )?(?!Error: Could not process rule: Operation not permitted)Error: [A-Z][a-z ]+/,
      /nftables: couldn't (?:initialise table|setup (?:masq|forward) rules)(?![^\n]{0,200}Operation not permitted)[^\n]{0,160}/,
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
    id: 'nft-without-json',
    pattern: oneOf(
      /JSON support not compiled-in/,
      /\bnft\b[^\n]{0,120}(?:unknown|unrecognized|invalid) option[^\n]{0,20}(?:-j\b|json)/,
      /could not parse nft output|could not find supported json_schema_version/,
    ),
    who: 'nft, run by kube-proxy or a plugin',
    meaning: 'the nft that was run cannot print JSON, in which the caller wants its lists',
    causes: [
      'it was built without JSON: a small image or distribution, an nft of before 0.9',
      'a program brings an nft of its own, and another one comes first in its PATH',
    ],
    look: ['nft --version -V', 'nft -j list tables'],
    cure:
      'install an nft with JSON (`nft -V` says json: yes), or the image of the caller that has it; until then let ' +
      'kube-proxy run in iptables mode',
  },
  {
    id: 'conntrack-refused',
    pattern: oneOf(
      /conntrack v[\d.]+ \(conntrack-tools\): (?!0 flow|\d+ flow)[^\n]{1,100}/,
      /Failed to delete conntrack (?:state|entries)\b[^\n]{0,40}/,
      /error deleting connection tracking state for (?:\w+ service IP|protocol|port)\b[^\n]{0,60}/,
      /Failed to (?:clear udp conntrack|delete stale (?:service |endpoint )?[^\n]{0,40}connections)[^\n]{0,60}/,
    ),
    who: 'conntrack, or what removes such entries itself (docker, kube-proxy, CRI-O)',
    meaning: 'entries of old connections could not be removed, so UDP to a host port may go to a pod that is gone',
    causes: [
      'the module nf_conntrack_netlink is missing',
      'the process has no CAP_NET_ADMIN',
      '"invalid argument", "such conntrack entry doesn\'t exist": the entry went meanwhile, or a newer kernel asks ' +
        'for more than an older docker tells: harmless',
    ],
    look: ['modprobe nf_conntrack_netlink; conntrack -C'],
    cure:
      'load nf_conntrack_netlink; give the process the right; update docker where the words come with each ' +
      'container',
    unless: /executable file not found/,
  },
]
