// SPDX-License-Identifier: Apache-2.0
// Of what the kernel answers to any program that changes the network: no room, no such link, an answer cut short.

import { type KnownError, oneOf } from './known-error.ts'

const common = { needsNetwork: true } as const

/** Answers of netlink, ipset and BPF. */
export const netlinkErrors: readonly KnownError[] = [
  {
    id: 'netlink-interrupted',
    pattern: /results may be incomplete or inconsistent|NLM_F_DUMP_INTR|dump (?:was )?interrupted/i,
    who: 'the netlink library of Go, in a plugin or agent',
    meaning: 'the list of interfaces, addresses or routes changed while the kernel was listing it',
    causes: [
      'many pods start or end on this node at once; releases of the library since 1.3 (of late 2024) report it, and ' +
        'programs that do not ask again take it for an error',
    ],
    look: ['ip -br link | wc -l; ip route show table all | wc -l'],
    cure: 'nothing for this pod: the next try goes through. Update the plugin: newer releases ask again by themselves',
    ...common,
  },
  {
    id: 'no-memory',
    pattern: oneOf(
      /RTNETLINK answers: (?:Cannot allocate memory|No buffer space available)/,
      /(?:failed to|could not|unable to|cannot|error)[^\n]{0,200}: (?:cannot allocate memory|no buffer space available)/,
      /Add(?:V6)?(?:FDB|ARP) failed: (?:no buffer space available|cannot allocate memory)/,
      /fork\/exec \S+: cannot allocate memory|signal: killed[^\n]{0,60}out of memory/,
      /\b(?:cilium|calico|flannel|multus|kube-router|antrea|kube-ovn|ovn-?kube|weave|amazon-k8s-cni|aws-node)\b[^\n]{0,160}\bOOMKilled\b|Image:\s{1,12}\S{0,80}(?:cilium|calico|flannel|multus|kube-router|antrea|kube-ovn|ovn|weave|amazon-k8s-cni|aws-node)(?:(?!Image:)[\s\S]){0,600}?Reason:\s{1,12}OOMKilled\b|\bOOMKilled\b[^\n]{0,200}\b(?:cilium|calico|flannel|multus|kube-router|antrea|kube-ovn|ovn-?kube|weave|amazon-k8s-cni|aws-node)\b/,
      /\bip6?tables: Memory allocation problem|page allocation failure: order:\d/,
      /out of memory: Kill(?:ed)? process \d+ \((?:multus|calico|cilium|flannel|kube-?router|aws-k8s|antrea|ovn|ovs|kube-?ovn|weave)[\w-]{0,20}\)/,
    ),
    who: 'the kernel',
    meaning: 'the kernel had no memory for what was asked for',
    causes: [
      "the memory limit of the program's cgroup is reached (a Multus or agent pod with a small limit)",
      'the machine is out of memory, or in pieces too small',
      'old kernels (CentOS 7): namespaces and cgroups that were never freed',
    ],
    look: [
      'free -m; cat /proc/buddyinfo',
      'journalctl -k --since "1 hour ago" | grep -i -e oom -e "allocation failure"',
    ],
    cure:
      'raise the limit of that pod (Multus: 50 to 150 Mi are too small when all pods of a node start at once, 512 Mi ' +
      'are not); free memory, or restart the node; update an old kernel',
    ...common,
  },
  {
    id: 'bpf-refused',
    pattern: oneOf(
      /Failed to (?:mount BPF filesystem|create bpf maps)\b/,
      /(?:load|creat|attach|pin|open|mount|replac)[^\n]{0,120}\b(?:e?BPF|bpffs|tcx|clsact|cls_bpf|XDP)\b[^\n]{0,200}(?:operation not permitted|permission denied|invalid argument|operation not supported|no such file or directory|cannot allocate memory|argument list too long|file exists|device or resource busy|MEMLOCK|bad file descriptor)/,
      /failed to attach connect-time load balancer|Failed to (?:initialize BPF network|mount cgroup2 filesystem|prepare mount point: )/,
      /BPF program load failed permanently|kernel BPF verifier rejected|error creating bpf maps|Failed to create \w[\w ]{0,30} BPF map/,
      /unable to mount BPF filesystem[^\n]{0,120}/,
      /bpftool -j feature probe\]?[^\n]{0,40}exit status \d+/,
      /\bmap\b[^\n]{0,30}unable to update map: [a-z ]{1,40}|\bProg section '[^']*' rejected: [^\n]{1,60}|Verifier analysis:/,
      /tail call maps in the program have JITed owner|Error fetching program\/map!|Unable to load program" subsys=/,
      /failed to create map (?:\(calico_|aws_)[^\n]{0,160}|\bmap create failed: [A-Z][a-z ]{1,40}|failed to (?:load|remove) XDP program from \S+/,
      /loading eBPF collection into the kernel: [^\n]{1,160}|load program: (?:permission denied|invalid argument|bad address)[^\n]{0,120}/,
      /\b(?:needs|requires)(?: a)?(?: Linux)? kernel (?:version )?[>= ]{0,3}\d+\.\d+[^\n]{0,120} subsys=|BPF system config check: NOT OK/,
      /Unable to (?:update|create|lookup|delete) element (?:for|from|in)(?: \w+)? map with file descriptor[^\n]{0,80}/,
      /cmd="\[tc filter replace dev \S+ [^\]\n]{0,160}\bbpf\b[^\]\n]{0,120}\]" error="exit status \d|bpf da obj \S+ sec \S+[^\n]{0,120}(?:exit status \d|rejected)/,
      /libbpf: (?:failed|Error|prog|map|load)[^\n]{0,120}|Kernel version[^\n]{0,60}doesn't support (?:e?BPF|XDP)/,
      /unable to (?:create\/update|delete|get|get next) map entry and ret -1 and err [a-z ]{3,40}/,
      /Unable to create map and ret -1 and err [a-z ]{3,40}|error checking BPF FS, please make sure/,
      /Failed to Attach (?:In|E)gress TC probe[^\n]{0,200}|Unable to load events binary[^\n]{0,200}/,
      /(?:failed to (?:load progs|Load the prog)|unable to create map:)[^\n]{0,120}|cannot add clsact qdisc: [^\n]{1,80}/,
      /attach(?:ing)? (?:XDP )?program \w+ (?:to \S+ )?using (?:bpf_link|tcx|netlink|legacy tc)\b: [^\n]{1,100}/,
      /(?:PROG_ATTACH for|pin(?:ning)? link at \S+ for|updat(?:e|ing) link \S+ for) program \w+ ?: [^\n]{1,100}/,
      /\/sys\/fs\/bpf\S*: (?:operation not permitted|permission denied|no such file or directory|not a BPF file ?system)/,
      /(?:error while )?opening\/creating BPF maps[^\n]{0,160}|initializing [\w ]{1,30} maps?: [^\n]{1,120}|unable to set memory resource limits[^\n]{0,80}/,
      /BPF Verifier: NOT OK|(?:clang|llc|kernel)(?: \([^)\n]{1,40}\)[^\n]{0,40})?(?: version)?: NOT OK\b(?!: minimal supported kernel)|linking environment: NOT OK/,
      /Require support for (?:bpf_?\w*|the (?:clsact|eBPF)|TCP EDT|dead code|large programs|tcx|outer source)[^\n]{0,100}|CONFIG_\w+ kernel parameter[^\n]{0,20} is required/,
      /netkit devices need kernel[^\n]{0,60}|kernel does not support attaching bpf programs[^\n]{0,120}|Unable to initialize service maps\b[^\n]{0,120}/,
      /BPF template (?:object creation|compilation) (?:failed|unsuccessful)[^\n]{0,120}|JoinEP: Failed to[^\n]{0,120}|Failed to (?:compile XDP program|enable Sockm(?:ap|sg))\b[^\n]{0,80}/,
      /failed to (?:compile|load) (?:template|overlay|encryption|wireguard) programs?[^\n]{0,120}|Load overlay network failed|recompil(?:e|ing) base programs[^\n]{0,120}/,
      /has a different filesystem than (?:BPFFS|cgroup2)|Could not find BPF map root|Failed to mount cgroupv2[^\n]{0,80}|structs? alignment check failed/,
      /attaching (?:tcx|netkit|cilium_host|bpf tc filter|legacy tc)\b[^\n]{0,160}|the map is full, please consider resizing|failed to probe (?:large instruction|helper|V[23] ISA|bounded loops)/,
      /BPFFS is not mounted on the host|BPF filesystem is not mounted\b|policy map max entries limit exceeded|policymap synchronization failed|synchronizing desired PolicyMap state failed/,
      /avc: +denied +\{ [^}\n]{1,60}\} for [^\n]{0,40}comm="?(?:bpftool|cilium|calico|felix|aws-eks-na|flanneld|antrea)[^\n]{0,300}tclass=bpf\b/,
      /bpftool cgroup attach \S+[^\n]{0,80}|Error: failed to attach program/,
    ),
    who: 'an agent that uses BPF (Cilium, Calico eBPF, aws-cni policies)',
    meaning: 'the kernel refused a BPF program or map, or has no place to keep it',
    causes: [
      'the kernel is older than what the agent needs, or was built without a piece of it',
      '/sys/fs/bpf is not mounted, or not into the pod of the agent',
      'the agent is not privileged (CAP_BPF, CAP_SYS_ADMIN), lockdown is on, or RLIMIT_MEMLOCK is low',
      'SELinux forbids it to containers (avc: denied, tclass=bpf): its policy is older than the agent or the kernel',
      '"map is full", "argument list too long": more entries than its size (Cilium: bpf.mapDynamicSizeRatio, ' +
        'bpf.policyMapMax)',
    ],
    look: ['uname -r; findmnt /sys/fs/bpf; cat /sys/kernel/security/lockdown', 'bpftool feature probe | head -40'],
    cure:
      'mount -t bpf bpf /sys/fs/bpf (and at boot), run the agent privileged, or use a kernel that its page names; ' +
      'update selinux-policy and container-selinux',
    ...common,
  },
  {
    id: 'ipset-refused',
    pattern: oneOf(
      /\bSet (?:KUBE|cali|felix|weave)[\w-]{1,40} doesn't exist/,
      /ipset v[\d.]+: [^\n]{1,120}|ipset utility not found|\bip6?tables[^\n]{0,60}: Set \S+ doesn't exist/,
      /(?:Aborting sync|Failed to run ip6?tables-restore)[^\n]{0,200}: Set \S+ doesn't exist/,
      /error getting ipset version, error: exit status \d/,
      /(?:error|failed)[^\n]{0,40}\b(?:creating ipset|adding entry|deleting entry|(?:flushing|destroying|listing) set)\b[^\n]{0,120}, error: exit status \d/,
      /(?:error|failed)[^\n]{0,60}\bipset\b[^\n]{0,160}(?:exit status \d|Kernel error|Hash is full|no such file|: exist\b)/,
    ),
    who: 'ipset, run by an agent or plugin',
    meaning: 'a set of addresses could not be made, changed or removed, or is not there for a rule that names it',
    causes: [
      '"Set … doesn\'t exist": another program destroyed the set, or the agent could not make it just before',
      'the module ip_set (ip_set_hash_net, ip_set_hash_ip) is missing on the node',
      'the kernel and the ipset of the image or the node are of different ages ("Kernel and userspace incompatible", ' +
        '"not supported by userspace", "protocol"): mostly the kernel is the newer one',
      'a rule still uses the set, or another program made one of that name and another type',
    ],
    look: ['modprobe -a ip_set ip_set_hash_net ip_set_hash_ip xt_set', 'ipset list -n | head', 'uname -r'],
    cure:
      "load the modules and name them in /etc/modules-load.d; restart the agent's pod, which makes its sets anew; " +
      'where the ages differ update the agent (its image has ipset), or boot the kernel of before',
    // fail2ban keeps sets of its own.
    unless: /\bf2b-|fail2ban/,
    ...common,
  },
  {
    id: 'link-gone',
    pattern: oneOf(
      /\bip: can't find device '|(?<!(?:output|status)[^\n]{0,60})Device "[\w.-]{1,15}" does not exist\./,
      /(?:failed|unable|could not|cannot|error)[^\n]{0,60}(?:look ?up|find|get|fetch|refetch|retrieve|delete|set)\b[^\n]{0,100}(?:Link not found|no such device|no such network interface|Cannot find device)/,
      /Cannot find device "[^"]*"|\bLink not found\b|missing link #\d+ in the container network namespace/,
      /container interface name \S+ does not exist/,
      /(?:failed \((?:add|del\w*|check|cmd\w+)\): |[Dd]elegate \w+ - "[^"]*": |network for sandbox "[^"]*": |sandbox add: |endpoint \S+ on network )[^\n]{0,300}(?:Link (?:\S+ )?not found|: no such device(?! \(os)|no such network interface)/,
      /(?:host-device\b|DelNetwork\b|failed \((?:add|del\w*)\):)[^\n]{0,160}?failed to find "[\w.@-]{1,15}"(?! (?:in|at)\b)(?:: [A-Z][^\n]{1,40})?/,
      /could not find bridge \S+: route|could not open network device \S+ \(No such device\)|error=interface not present\b/,
      /\binterface (?:lxc|cali|veth|eni|gre_sys|cilium_)\S* could not be found|can't locate created \w+ device vxlan\.calico/,
      /can't locate created tunnel device \S+/,
      /could not find an appropriate master "[^"]*" for "[^"]*"|in unmanaged mode, the bridge must already exist on the host/,
      /bridge device with non default name \S+ must be created manually/,
      /failed to attach ['"]\S+['"] to (?:the )?bridge ['"]\S+['"](?:: No such device|, bridge interface doesn't exist)/,
      /No such device - Failed to (?:attach|move network device)|failed to get link by name[^\n]{0,120}Link \S+ not found|Failed to retrieve ifindex for "[^"]*"/,
      /(?:namespace|failed): route ip\+net: no such network interface/,
      /Hairpin setup failed for pod[^\n]{0,200}(?:no such (?:file or directory|device)|Link not found)/,
    ),
    who: 'a plugin',
    meaning: 'an interface that the plugin has to work on is not there',
    causes: [
      'somebody removed it between two steps: another agent, udev or NetworkManager, or the end of the pod',
      'the plugin before it in the list made none, or gave it another name',
      'a bridge or device of the node that the configuration names was never made',
      'host-device, on DEL: a program of the pod renamed the device, or moved it, so the name it was given is gone',
    ],
    look: ['ip -br link', 'ip -n NETNS -br link', 'trestle lint'],
    cure:
      'the next try works when it was a moment; else make the device that the message names, or correct its name in ' +
      'the configuration',
    // A DEL that finds nothing left (azure-vnet), and links of a bond: these tell more.
    unless:
      /Failed to delete (?:veth pair|endpoint)[^\n]{0,120}(?:no such network interface|Link not found)|\(\[?[\w ]+\]?\)[^\n]{0,60}, error: failed to (?:look ?up|confirm)/i,
    ...common,
  },
]
