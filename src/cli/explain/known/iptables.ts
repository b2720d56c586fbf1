// SPDX-License-Identifier: Apache-2.0
// Of iptables, which the upstream plugins, podman's and kube-proxy run.

import { type KnownError, oneOf } from './known-error.ts'

const who = 'iptables, run by a plugin'
const version = 'iptables --version; ls -l $(readlink -f $(which iptables))'
const withoutIptables = '`trestle convert` makes a list of it that needs no iptables'

/** Errors of packet filters, the telling ones first. */
export const iptablesErrors: readonly KnownError[] = [
  {
    id: 'iptables-missing',
    pattern: oneOf(
      /netavark: (?:\S+ )?No such file or directory \(os error 2\)/,
      /unable to (?:execute|run) "?(?:ip6?tables|nft)\b(?![^\n]{0,60}exit status)[^\n]{0,60}/,
      /(?<!bridge-nf-call-)\bip6?tables(?:-\w+)? (?:binary )?(?:was |is )?not (?:found|installed)/,
      /error creating chain "[\w-]+": executable file not found in \$PATH|failed to locate iptab\w*es/,
      /exec: "(?:ip6?tables(?:-\w+)?|nft)": executable file not found in \$PATH/,
      /Failed to find ip6?tables command|(?<!bridge-nf-call-)\b(?:ip6?tables|nft(?:ables)?)\b(?:(?!exec: )[^\n]){0,120}: executable file not found in \$PATH/,
      /iptables is not available on this host|neither iptables nor ip6tables is usable|\b(?:ip6?tables(?:-\w+)?|nft): (?:command )?not found/,
      /command ip6?tables not found|neither iptables nor ip6tables usable|iptables command not found/,
      /Unable to redirect iptables binaries|iptables is not present in either|get iptables version: exit status 127\b/,
    ),
    who: 'a plugin',
    meaning: 'iptables (or nft) is not on the node, or not in the PATH of the runtime',
    causes: ['distributions leave it out now', 'the runtime runs in a container or a minimal system'],
    look: ['which iptables ip6tables nft'],
    cure: `install the one that the message names (on current systems iptables is iptables-nft); ${withoutIptables}`,
  },
  {
    id: 'iptables-permission',
    pattern: oneOf(
      /Permission denied \(you must be root\)|get iptables version: exit status 12[56]\b|avc: +denied +\{[^}\n]{1,60}\} [^\n]{0,160}comm="(?:xtables|ip6?tables)[\w-]{0,20}"[^\n]{0,120}/,
      /unable to initialize table ['"]?\w+['"]? Permission denied/,
      /ip6?tables\S* v[\d.]+ \(\w+\): Cannot initialize: Permission denied/,
      /can't initialize ip6?tables table [`'"]?\w+['"]?: Permission denied/,
      /can't open lock file \S*xtables\.lock[^\n]{0,40}|getsockopt failed strangely: Operation not permitted/,
      /cache initialization failed: Operation not permitted|Could not process rule: Operation not permitted/,
      /(?:Could not open socket to kernel|Failed to initialize nft): (?:Permission denied|Operation not permitted)|\bip6?tables: (?:Permission denied|Operation not permitted)/,
    ),
    who,
    meaning: 'the process has no right to change the packet filter of this network namespace',
    causes: [
      'it runs in a container or as a user without CAP_NET_ADMIN (and CAP_NET_RAW for iptables-legacy, which CRI-O ' +
        'gives only to a pod that names it)',
      'the lock /run/xtables.lock cannot be written: /run of the container is read-only, or another user owns it',
      'SELinux forbids the container to load modules: the table is missing and may not be loaded from within',
      'OVN-Kubernetes: its iptables goes into /host first (chroot); exit status 125 means that it may not (SYS_CHROOT)',
    ],
    look: ['grep CapEff /proc/self/status', 'ausearch -m avc -ts recent', 'lsmod | grep -E "iptable|nf_tables"'],
    cure:
      'run it as root, privileged or with NET_ADMIN and NET_RAW; load the modules on the host: modprobe -a ' +
      'ip_tables iptable_nat iptable_filter',
  },
  {
    id: 'iptables-generation',
    pattern: oneOf(
      /Could not fetch rule set generation i'?d/,
      /cache initialization failed: (?!Operation not permitted)[A-Z][^\n]{1,60}/,
      /(?:Unable to initialize Netlink socket|Failed to initialize nft): Protocol not supported/,
    ),
    who: 'iptables of the nft kind',
    meaning: 'the kernel does not know nf_tables, which iptables-nft needs for everything',
    causes: [
      'the kernel is too old or built without CONFIG_NF_TABLES (WSL, NAS and hosting kernels)',
      'the module nf_tables cannot be loaded: the kernel was updated and the machine not restarted',
      'seccomp of a container forbids the socket',
    ],
    look: ['nft list tables', 'modprobe nf_tables; uname -r; ls /lib/modules'],
    cure:
      'modprobe nf_tables, or restart into the kernel whose modules are there; else update-alternatives --set ' +
      'iptables /usr/sbin/iptables-legacy',
  },
  {
    id: 'iptables-incompatible',
    pattern:
      /table [`'"]?(?:nat|filter|mangle|raw)['"]? is incompatible, use ['"]?nft['"]? tool|incompatible nft rules in the table|Error: cmp sreg undef/,
    who: 'iptables of the nft kind',
    meaning: 'a table of iptables holds rules that were written with nft and that iptables cannot show',
    causes: [
      'a script or nftables.service puts rules into "table ip nat" or "table ip filter", which belong to iptables-nft',
      'a newer iptables (of a container) wrote rules that the older one of the node does not understand',
    ],
    look: ['nft list table ip nat', 'nft list table ip filter'],
    cure:
      'write your own rules into a table with a name of your own (table inet my-rules) and remove them from ip nat ' +
      `and ip filter; ${withoutIptables}`,
  },
  {
    id: 'iptables-table',
    pattern: oneOf(
      /can't initialize ip6?tables table [`'"]?\w+['"]?|unable to initialize table ['"]?\w+['"]?(?! Permission)/,
      /kernel doesn't support the ebtables '\w+' table|Module ip6?_?tables\w* not found|Table does not exist \(do you need to insmod\?\)/,
      /'ip6?tables-(?:save|restore)'[^\n]{0,80}returned non-zero exit status \d|custom chain [\w-]+: exit status 3\b|Cilium ip6?tables chain" error="exit status 3"/,
      /\bip6?tables\b[^\n]{0,200}["\]] ?(?:error=|: )"?exit status 3"?(?= subsys=|[^\w: ]*$)/,
    ),
    who: 'iptables of the legacy kind',
    meaning: 'the kernel has no table of this name: its module is not loaded or not there',
    causes: [
      'the kernel was updated and the machine not restarted: /lib/modules has no directory of the running kernel',
      'a current kernel (RHEL 10, some cloud kernels) has no ip_tables any more: only iptables-nft works',
      'it runs in a container that cannot load modules',
    ],
    look: ['uname -r; ls /lib/modules', 'modprobe -a ip_tables iptable_nat iptable_filter', version],
    cure:
      'load the modules on the host (and name them in /etc/modules-load.d), restart after a kernel update, or ' +
      `change to iptables-nft; ${withoutIptables}`,
  },
  {
    id: 'iptables-chain-gone',
    pattern:
      /Index of deletion too big|RULE_DELETE failed \(No such file|tables-restore[^\n]{0,60}Bad rule \(does a matching rule exist|Couldn't load target [`'"]CNI-\S+|\blxc-net\b[^\n]{0,80}\bip6?tables: (?:Bad rule|No chain)[^\n]{0,400}|Chain ['"]CNI-\S+ does not exist|tables[^\n\]]{0,40} -[DXF] [A-Z][^\n]{0,300}(?:No chain\/target\/match by that name|does a matching rule exist|Couldn't load target [`'"](?:[A-Z]+[-_]|DOCKER['"]))/i,
    who,
    meaning: 'a rule or chain that a plugin wants to remove is gone already',
    causes: [
      'something flushed the rules since the ADD: a reload of firewalld or nftables, kubeadm reset, iptables -F',
      'the ADD before it failed half way, and this is its clean-up: then the error of the ADD counts, not this one',
      'iptables was changed between its legacy and nft kind: an agent (flannel) takes its rules for missing then',
      '"Index of deletion": an agent deletes rules by their numbers, and those changed in between (Kube-OVN 1.13.3)',
    ],
    look: ['iptables-save | grep -c CNI-', 'iptables-legacy-save 2>/dev/null | grep -c CNI-', version],
    cure:
      'nothing for this pod: the pod goes. Living pods lost their masquerade and host ports with the flush: ' +
      'recreate them',
  },
  {
    id: 'iptables-extension',
    pattern: oneOf(
      /Can't find library for (?:match|target) [`'"]\w+/,
      /Couldn't (?:load|find) (?:match [`'"]?[\w-]+|target [`'"]?[A-Za-z\d]+['"]?(?![\w-]))/,
      /unknown option "?--(?:set-x?mark|xor-mark|to-destination|to-source|ctstate|comment)/,
      /Extension \w+ revision \d+ not supported|unable to append rule '-j MARK/,
      /\bip6?tables[^\n]{0,200} unknown option "?--[\w-]+/,
    ),
    who,
    meaning: 'an extension of iptables, or the kernel module behind it, is missing on this node',
    causes: [
      'the module is not loaded or not built: xt_comment for `comment`, xt_mark for --set-xmark, xt_nat for ' +
        '--to-destination, xt_multiport, xt_conntrack',
      'the kernel was updated and the machine not restarted',
      'kernels 6.6.57 and 6.11.4 of October 2024 broke MARK for IPv6: an update mends it',
      "the extension's .so is not installed (Debian: iptables; OpenWrt, NAS: packages of their own)",
    ],
    look: [
      'modprobe -a xt_comment xt_mark xt_nat xt_multiport xt_conntrack xt_MASQUERADE',
      'uname -r; ls /lib/modules',
    ],
    cure:
      'load the module that modprobe can load (and name it in /etc/modules-load.d), restart after a kernel update, ' +
      `or use another kernel; ${withoutIptables}`,
  },
  {
    id: 'iptables-no-such',
    pattern: oneOf(
      /No chain\/target\/match by that name|Bad rule \(does a matching rule exist/,
      /\(nf_tables\): Chain ['"](?!CNI-)[\w-]+['"] does not exist|Chain ['"]KUBE-MARK-MASQ['"] does not exist/,
      /Couldn't (?:load|find) target [`'"](?!CNI-)(?:\w+-[\w-]+|[a-z]+_\w+)/,
    ),
    who,
    meaning: 'a rule names a chain, a target or a match that the kernel does not have',
    causes: [
      'the kernel module of the match or target is missing: xt_multiport and xt_mark for portmap, xt_comment, ' +
        'xt_MASQUERADE',
      'the chain (CNI-…, DOCKER, KUBE-…) was removed by a flush between two calls',
      'portmap jumps to KUBE-MARK-MASQ (externalSetMarkChain), and kube-proxy did not make it: it runs in nftables ' +
        'mode, was replaced, or starts still',
    ],
    look: [
      'modprobe -a xt_comment xt_mark xt_multiport xt_nat xt_MASQUERADE',
      'iptables -t nat -S | grep -e CNI -e KUBE | head',
    ],
    cure:
      'load what modprobe loads; after a flush restart what owns the chains (docker, kube-proxy) and recreate the ' +
      `pods; ${withoutIptables}`,
  },
  {
    id: 'xtables-lock',
    pattern: oneOf(
      /Multiple ebtables programs were executing simultaneously|Trying to obtain lock \S*ebtables/,
      /cannot (?:add|delete|flush|rename) custom chain [\w-]+: exit status (?!3\b)\d|ip6?tables: Chain already exists/,
      /Timed out (?:waiting for iptables 1\.\d|trying to acquire XTables) lock|Failed to acquire iptables lock/,
      /holding the xtables lock|CHAIN_(?:USER_)?(?:ADD|DEL) failed \((?:File exists|Device or resource busy)\)/,
      /(?:TABLE|CHAIN)_\w+ failed \(Resource temporarily unavailable\)/,
      /-N \S{1,40} --wait\][^\n]{0,40}Chain already exists|(?<!fork\/exec \S{1,40})tables: Resource temporarily unavailable/,
      /\bip6?tables: (?:Too many links|Directory not empty)/,
    ),
    who: 'iptables',
    meaning: 'two programs changed iptables at once, or wait for each other',
    causes: [
      'plugins that use iptables run in parallel with kube-proxy or with each other',
      'iptables has so many rules that each call takes seconds',
      '"Chain already exists" each time: the program does not see the chain that it made before, mostly since ' +
        'iptables was changed between its legacy and nft kind',
    ],
    look: ['iptables-save | wc -l', 'fuser -v /run/xtables.lock'],
    cure:
      'the next try mostly works; with many rules kube-proxy in nftables or ipvs mode helps. `trestle convert` ' +
      'makes a list without iptables of it. A chain that stays goes with a restart of the machine',
  },
  {
    id: 'iptables-refused',
    pattern: oneOf(
      /(?:RULE|CHAIN|TABLE)_(?:USER_)?(?:INSERT|APPEND|REPLACE|DELETE|DEL|ADD|FLUSH) failed \([^)\n]*\)?/,
      /unable to (?:append|insert) rule '[^']*' to table '\w+': code: 4/,
      /(?<!(?:invalid|unrecognized) option[^\n]{0,20}\s{0,3})ip6?tables-restore\b(?!: (?:invalid|unrecognized) option)[^\n]{0,60}: line \d+ failed/,
      /unable to run ip6?tables-(?:restore|save) \([^)\n]*\): exit status \d/,
      /\bip6?tables: (?:Invalid argument|Operation not supported|Incompatible with this kernel|Index of (?:insertion|replacement|counter) too big|Protocol wrong type for socket|Unknown error \d+)/,
    ),
    who: 'iptables, mostly of the nft kind',
    meaning: 'the kernel refused a rule or a chain',
    causes: [
      'Invalid argument, No such file: the kernel lacks a piece (nft_compat, nft_chain_nat, xt_comment, ' +
        'xt_MASQUERADE), or was updated and not restarted into',
      'legacy and nft kinds are mixed: the legacy nat table and the one of nft cannot both have their hooks on old ' +
        'kernels (before 4.18)',
      'in a container: the host has the module not loaded',
    ],
    look: [
      'modprobe -a nf_tables nft_compat nft_chain_nat xt_comment xt_MASQUERADE xt_mark xt_multiport',
      version,
      'iptables-legacy-save 2>/dev/null | head',
    ],
    cure:
      'load the modules, restart after a kernel update; on an old or small kernel update-alternatives --set ' +
      `iptables /usr/sbin/iptables-legacy (for everything on the node); ${withoutIptables}`,
    unless: /Extension \w+ revision \d+ not supported/,
  },
  {
    id: 'iptables-argument',
    pattern: oneOf(
      /iptables[^\n]{0,120}must be shorter than IFNAMSIZ/,
      /\bip6?tables(?:-\w+)? v[\d.]+(?: \(\w+\))?: {1,2}(?:invalid (?:mask|port\/service|(?:TCP|UDP) port)|host\/network [`'"]|Bad argument|unknown protocol|Invalid target name|chain name [`'"]|option "--?[\w-]+" requires|unknown arg)[^\n]{0,80}/,
      /ip6?tables-restore[^\n]{0,60}: exit status 2 ?\(Bad argument[^\n]{0,80}/,
      /Bad argument [`'"][^'"\n]{1,80}['"] Error occurred at line: \d+|ip6?tables-restore[^\n]{0,60}: COMMIT expected at line \d+/,
      /\bip6?tables(?:-\w+){0,2}(?: v[\d.]+(?: \(\w+\))?)?: unknown arguments found on commandline/,
      /\bip6?tables(?:-\w+)?(?: v[\d.]+(?: \(\w+\))?)?: (?:invalid|unrecognized) option[^\n]{0,40}|\bip6?tables[\s\S]{0,200}?ERROR: No valid subcommand given|ERROR: No valid subcommand given\.[\s\S]{0,200}?\bip6?tables\b/,
    ),
    who,
    meaning: 'iptables does not understand what the plugin gave it: an address, a port, a name',
    causes: [
      'an IPv6 address was given to iptables, or an IPv4 one to ip6tables: a result names a family twice or wrongly',
      'a name or value of the configuration is no such thing: an empty one, a chain of more than 28 characters',
      'a rule that kube-proxy took over from iptables-save was printed by another release of iptables, or cut short',
      'iptables is older than an option (iptables-restore -w: 1.6.2), or never had it (iptables-save -w: linkerd-cni)',
    ],
    look: ['trestle lint', 'cat /etc/cni/net.d/*'],
    cure: `the words in quotes are what it did not take: correct them, or update the plugin; ${withoutIptables}`,
  },
]
