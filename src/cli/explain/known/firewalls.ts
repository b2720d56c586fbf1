// SPDX-License-Identifier: Apache-2.0
// Of firewalld and nft, which plugins ask or run.

import { type KnownError, oneOf } from './known-error.ts'

/** What a rule that logs writes before the packet: filter_FWD_public_REJECT, FINAL_DROP, [UFW BLOCK], your own. */
const refusedAs = /(?:REJECT|DROP|BLOCK|DENY|DENIED)\w{0,6}[\]:"' ]{0,4}/
/** An interface that pods or containers have behind it. */
const podLink =
  /(?:(?:cni|cbr)\d|flannel[\w.-]{0,8}|cali[\da-f]{6,11}|tunl0|vxlan(?:-v6)?\.calico|cilium_\w{3,8}|lxc[\da-f]{6,12}|veth[\da-z]{4,11}|weave|kube-bridge|antrea-gw0|ovn-k8s-mp0|ovn0|docker0|br-[\da-f]{12}|podman\d{1,3})\b/

/** Errors of firewalld and nft. */
export const firewallErrors: readonly KnownError[] = [
  {
    id: 'firewalld-unreachable',
    pattern: oneOf(
      /Error retrieving dbus connection for requested firewall backend[^\n]{0,160}/,
      /DBus error: (?:I\/O error|Connection refused|Failed to connect)[^\n]{0,80}|\bFirewallD is not running\b/,
      /ServiceUnknown: The name "?org\.fedoraproject\.FirewallD1"? was not provided by any \.service files/,
      /firewalld[^\n]{0,60}Failed to connect to D-?Bus system bus[^\n]{0,80}|Failed to connect to D-Bus system bus: dial unix[^\n]{0,80}/,
    ),
    who: 'netavark, docker, firewall-cmd',
    meaning: 'rules are to be made by firewalld, and it does not answer: no D-Bus, or firewalld does not run',
    causes: [
      'firewalld is not installed or not started, and the settings want it (firewall_driver = "firewalld")',
      'there is no D-Bus: a container, a chroot or a minimal system without /run/dbus/system_bus_socket',
    ],
    look: ['systemctl status firewalld dbus', 'ls -l /run/dbus/system_bus_socket', 'podman info | grep -i firewall'],
    cure:
      'start firewalld (and dbus); or let netavark make its rules by itself: firewall_driver = "nftables" below ' +
      '[network] in containers.conf',
  },
  {
    id: 'firewalld-refused',
    pattern: oneOf(
      /INVALID_ZONE|ZONE_(?:ALREADY_SET|CONFLICT)|firewalld?: COMMAND_FAILED|org\.fedoraproject\.FirewallD1/,
      /(?:to|from|in) \S+ zone: [A-Z]+_[A-Z_]+/,
      /NAME_CONFLICT: new_policy_object\(\)[^\n]{0,60}|Failed to update firewalld policy \S+[^\n]{0,80}/,
      /Error (?:creating (?:policy|zone) (?!\S+ on router)\S+|adding source subnets to zone \S+)(?:: [^\n]{1,80})?/,
      /firewalld: (?:interface "[^"]*" not found|unable to find interface \S+) in \S+ zone/,
    ),
    who: 'firewalld, asked by the firewall plugin, netavark or docker',
    meaning: 'firewalld refused what was asked of it: mostly to put an address or interface into a zone',
    causes: [
      'the zone (trusted, docker, netavark_zone, or firewalldZone) does not exist',
      'the address or interface is in another zone, from an earlier pod or by hand',
      'firewalld was just restarted, or its files contradict each other (firewall-cmd --check-config)',
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
      /Error: Set member cannot be range|Error: syntax error, unexpected [^\n]{1,160}\b(?:table|chain|rule|element|set) (?:inet|ip6?|bridge|netdev)\b/,
      /Error: Could not process rule: (?:Operation not supported|No such file or directory|Invalid argument|Device or resource busy)/,
      /conn\.Receive: netlink receive: [a-z ]+|\bnft\W{0,2} did not return successfully while applying ruleset/,
      /Error: Could not process rule: (?!Operation not permitted)[A-Z][a-z ]+/,
      /failed to run nft: (?:< )?(?!Error: Could not process rule: Operation not permitted)Error: [A-Z][a-z ]+/,
      /nftables: couldn't (?:initialise table|setup (?:masq|forward) rules)(?![^\n]{0,200}Operation not permitted)[^\n]{0,160}/,
      /failed to (?:ensure nftables chains|clean up nftables hostport maps): (?![^\n]{0,160}(?:executable file not found|not permitted))[^\n]{1,120}/,
      /nftables mode requires kernel [\d.]+ or later/,
      /\bnft\b[^\n]{0,200}Error: syntax error, unexpected|internal:0:0-0: Error: [^\n]{1,80}/,
      /nftables error: (?!unable to (?:execute|run))[^\n]{1,160}|libnftables: failed to apply commands[^\n]{0,160}/,
      /(?:\/dev\/stdin|<cmdline>|\bnft\b[^\n]{0,80}):\d+:\d+-\d+: Error: [^\n]{1,80}/,
      /Error: (?:No such file or directory|conflicting intervals specified|interval overlaps with an existing one)[^\n]{0,60} (?:list|delete|add|flush|create) (?:table|chain|set|element|rule) (?:inet|ip6?|bridge|netdev|arp) /,
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
      /could not parse nft output|could not find (?:supported json_schema_version|result|metadata) in nft output/,
      /nft version must be v?[\d.]+ or later|nftables mode requires nft[^\n]{1,60}or later|[`"]nft destroy[`"] is not available/,
      /nft binary built without libjansson/,
    ),
    who: 'nft, run by kube-proxy or a plugin',
    meaning: 'the nft that was run is too old, or cannot print JSON, in which the caller wants its lists',
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
    id: 'nft-crash',
    pattern: oneOf(
      /\bnft\b(?:[^\n]{0,120}Assertion [`'][^'\n]{1,120}' failed|[^\n]{0,60}signal: (?:aborted|segmentation fault))[^\n]{0,40}/,
      /\b(?:evaluate|expression|netlink(?:_delinearize)?|datatype|mnl|rule|segtree)\.c:\d+: \w+: Assertion [`'][^'\n]{1,120}' failed/,
    ),
    who: 'nft, run by kube-proxy or a plugin',
    meaning: 'nft itself crashed over a rule set that it read from the kernel',
    causes: [
      'the nft of the image is older (1.0.4 to 1.0.6) than the one that wrote another table of this node, and does ' +
        'not understand it',
      'a fault of this release of nft',
    ],
    look: ['nft --version; nft list tables', 'kubectl -n kube-system get ds kube-proxy -o yaml | grep image:'],
    cure: 'update the image (kube-proxy: one with nft 1.0.6.1), or remove the table that only the newer nft can write',
  },
  {
    id: 'iptables-crash',
    pattern: oneOf(
      /\bip(?:6|\(6\))?tables\b(?![^\n]{0,240}\bnft list)[^\n]{0,240}?(?:signal: (?:aborted|segmentation fault)(?! \(core dumped\) \(\))|(?<!signal: )Segmentation fault|exit (?:status|code):? 13[49]\b|double free|corrupted (?:size|double|top)|stack smashing)[^\n]{0,60}/,
      /\b(?:ip6?tables|xtables)[\w-]{0,20}\[\d{1,9}\]: segfault at[^\n]{0,120}/,
    ),
    who: 'iptables, run by an agent or plugin',
    meaning: 'the program iptables (or ip6tables) itself crashed, so rules were neither listed nor written',
    causes: [
      'the iptables of the image (or of the node) is older than the one that wrote rules of this node, and does not ' +
        'understand them',
      'a fault of this release of iptables, or its library (libnftnl) is of another one',
    ],
    look: [
      'iptables -V; iptables-save | wc -l; ip6tables-save | wc -l',
      'nft list tables; journalctl -k --grep "segfault|iptables" | tail',
    ],
    cure:
      'update the image of the agent (or iptables on the node); until then switch off the family whose tool ' +
      'crashes, where nobody uses it, or let all agents of the node, kube-proxy too, use the other kind ' +
      '(iptables-legacy) after a drain and a restart: rules of the kind of before stay in force otherwise',
  },
  {
    id: 'forward-policy',
    pattern: oneOf(
      /IP ?tables FORWARD policy is DROP|FORWARD (?:chain )?policy is (?:set to )?["']?DROP/,
      /Firewall is enabled\. Consider allowing pod traffic/,
      /:FORWARD (?:DROP|REJECT) \[\d+:\d+\]|Chain FORWARD \(policy (?:DROP|REJECT)|-P FORWARD (?:DROP|REJECT)\b/,
      /chain FORWARD \{[^}]{0,80}hook forward priority [^;\n]{1,20}; policy drop\b/,
    ),
    who: 'microk8s inspect and other checks, or a list of the rules',
    meaning:
      'the FORWARD chain of iptables drops what no rule lets through, so pods may not reach other nodes or the world',
    causes: ['docker sets this policy when it starts', 'ufw, or a hardening script, sets it'],
    look: ['iptables -S FORWARD | head', 'nft list chain ip filter FORWARD'],
    cure:
      'let the range of the pods through (a network add-on mostly has rules for it), or, where nothing relies on the ' +
      'policy, iptables -P FORWARD ACCEPT; docker leaves it so with "ip-forward-no-drop": true',
    // Lists of rules are pasted beside errors that tell more.
    needsNetwork: true,
  },
  {
    id: 'firewall-rejects-pods',
    pattern: new RegExp(`${refusedAs.source}(?:IN=${podLink.source} OUT=\\S*|IN=\\S* OUT=${podLink.source})`),
    who: 'the kernel, for firewalld, ufw or rules that log what they refuse',
    meaning:
      'the firewall of the node refused a packet of a pod: IN and OUT name the interfaces, SRC and DST who spoke',
    causes: [
      'firewalld: the interface of the pods (cni0, flannel.1) is in no zone that lets them through; that flannel or ' +
        'kube-proxy accept the packet in iptables is no help: firewalld refuses in a table of its own',
      'ufw, other rules: what goes from interface to interface is dropped (DEFAULT_FORWARD_POLICY), or, where OUT is ' +
        'empty, what pods send to the node itself',
      'the firewall was loaded anew after the network had written its rules',
    ],
    look: [
      'firewall-cmd --get-active-zones; ufw status verbose',
      'kubectl cluster-info dump | grep -m1 -e cluster-cidr',
      'journalctl -k --grep "IN=.* OUT=" | tail',
    ],
    cure:
      'firewalld: firewall-cmd --zone=trusted --add-source=10.244.0.0/16 (the range of the pods), once more with ' +
      '--permanent, on every node; no reload is needed. ufw: ufw allow in on cni0; ufw route allow in on cni0; ufw ' +
      'route allow out on cni0',
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
  {
    id: 'portmap-zero-address',
    pattern: /-d 0\.0\.0\.0\/32 [^\n]{0,120}-j (?:DNAT|CNI-)\S*/,
    who: 'iptables, of the rules that portmap made',
    meaning:
      'the rule of a host port wants packets to the address 0.0.0.0, and there are none: the port answers nobody',
    causes: [
      'the runtime passes 0.0.0.0 as the host address (nerdctl run -p), and this release of portmap takes it for an ' +
        'address instead of "any"',
    ],
    look: ['iptables -t nat -S CNI-HOSTPORT-DNAT', '/opt/cni/bin/portmap --version'],
    cure: 'update the upstream plugins and the runtime, then make the container anew: its rules are written then',
  },
]
