// SPDX-License-Identifier: Apache-2.0
// Of the kernel: what it does not have, does not allow, or has switched off.

import { type KnownError, oneOf } from './known-error.ts'

/** Errors whose cause is a setting, a right or a module of the kernel. */
export const kernelErrors: readonly KnownError[] = [
  {
    id: 'ipv6-disabled',
    pattern: oneOf(
      /add(?:ing)? (?:default |host )?route[^\n]{0,120}::[^\n]{0,200}(?:permission denied|operation not supported)/,
      /(?<!must be IPv4, )IPv6 (?:is|was) (?:disabled|not (?:enabled|supported|available))|geneve requires ipv6, please add ipv6\.disable=0/,
      /failed to enable IPv6 (?:for|on|in) [^\n]{0,120}/,
      /disable_ipv6[^\n]{0,40}: (?:no such file or directory|read-only file system|permission denied)/,
      /(?:add(?:ing)? (?:IPv?6? )?addr(?:ess)?)\b[^\n]{0,400}?(?<!netlink: )permission denied/,
      /\/proc\/sys\/net\/ipv6(?!\S*accept_dad: read-only)\S*: (?:no such file or directory|read-only file system)/,
      /add(?:ing)? (?:IPv?6? )?addr(?:ess)?\b[^\n]{0,120}?[\da-f]*:[\da-f]*:[^\n]{0,200}?(?:operation not supported|not supported \(os error 95\))/,
      /set ip address to \S+: Permission denied \(os error 13\)/,
      /ip6tables[^\n]{0,80}(?:Address family not supported|Protocol not supported)/,
      /(?:userland proxy|external connectivity|rootlessport|PortManager\.AddPort|docker-proxy|host ?port)[^\n]{0,200}(?:tcp6|udp6|\[::\d?\])[^\n]{0,60}address family not supported by protocol/,
      /L4 socket: Address family not supported|to bind port \d+ \(Address family not supported by protocol\)[^\n]{0,40}/,
      /error setting interface "[^"\n]{1,20}" (?:IPv6 to|routes to)\b[^\n]{0,60}[\da-f]{0,4}:[\da-f]{0,4}:[^\n]{0,160}: permission denied/,
      /(?:Permission denied|Operation not supported) - Failed to setup ipv6 (?:address|gateway|route)/,
      /Couldn't set IPv6 (?:routes?|address)(?:\(e?s\))? in (?:guest|namespace): (?:Operation not supported|Permission denied|Invalid argument)/,
      /\bip (?:-6 )?a(?:ddr(?:ess)?)? (?:add|replace) [\da-f]*:[\da-f:]*(?:\/\d+)? dev \S+[^\n]{0,80}RTNETLINK answers: (?:Permission denied|Operation not supported)/,
      /could not add network device \S{1,40} to ofproto \(Address family not supported[^)\n]{0,20}\)/,
      /Failed to add address [\da-f]{0,4}:[\da-f:]{0,40}: (?:rtnetlink::)?[\w(]{0,20}ErrorMessage \{ code: (?:Some\()?-(?:13|95)\b/,
      /add IP v6 route \([^\n]{0,200}?(?:code: (?:Some\()?-(?:13|95)\b|(?:Permission denied|Operation not supported) \(os error (?:13|95)\))/,
      /no such sysctl: net[./]ipv6[./]\S{1,60}|sysctl:? net[./]ipv6[./][^\s:]{1,60}: (?:IO error: )?No such file or directory/,
      /ipv6 is enabled in agent but ipv6 is either disabled|IPv6 is enabled but IPv6 kernel support (?:probing failed|could not be probed)/,
    ),
    who: 'a plugin',
    meaning:
      'an IPv6 address cannot be set: IPv6 is switched off where it should go ("permission denied" on an address ' +
      'means that)',
    causes: [
      'net.ipv6.conf.all.disable_ipv6 or that of default or of the interface is 1, on the node (bridge) or in the ' +
        'pod (eth0); Docker sets it in its containers, so kind and minikube inherit it, and GKE in pods',
      'the kernel was started with ipv6.disable=1: then there is no /proc/sys/net/ipv6 at all',
      'the configuration brings an IPv6 range that nobody wanted: 100-crio-bridge and 87-podman do',
    ],
    look: ['sysctl -a --pattern "ipv6.*disable_ipv6"', 'cat /proc/cmdline'],
    cure: 'switch IPv6 on (and keep it in /etc/sysctl.d), or take the IPv6 range out of the configuration',
    run: 'sysctl -w net.ipv6.conf.all.disable_ipv6=0 net.ipv6.conf.default.disable_ipv6=0',
  },
  {
    id: 'netlink-permission',
    pattern: oneOf(
      /(?:failed to|could not|unable to|cannot|error)[^\n]{0,160}(?<!\bconnect): operation not permitted/,
      /Operation not permitted - Failed to (?:create|attach|move|setup|set) (?:veth|macvlan|ipvlan|vlan|network|ip|")/,
      /(?:Netlink error|RTNETLINK answers|setns: IO error|nsenter: \S+): Operation not permitted/,
      /kube-router needs to be run with privileges to execute/,
      /(?:open netns|Statfs) "[^"]*(?:netns|\/ns\/net)[^"]*"[^\n]{0,200}(?:permission denied|operation not permitted)/,
    ),
    who: 'a plugin',
    meaning: 'the process may not change the network',
    causes: [
      'the plugin runs without CAP_NET_ADMIN or CAP_SYS_ADMIN: rootless, in a container without privilege (a ' +
        'Multus daemon), or under seccomp',
      'a user namespace owns the network namespace',
    ],
    look: ['grep -e CapEff -e Seccomp /proc/$(pidof -s containerd crio)/status'],
    cure:
      'run the runtime, or the Multus daemon, as root and privileged; rootless needs rootlesskit or pasta, not CNI ' +
      'alone',
    needsNetwork: true,
    unless: /kill network process|newuidmap|newgidmap|namespace creation reexec/,
  },
  {
    id: 'namespace-refused',
    pattern: oneOf(
      /mount of \/sys failed: (?:Operation not permitted|Permission denied)|nsenter: (?:cannot open \/proc\/\d+\/ns\/net: Permission denied|(?:setns\(\): )?(?:can't )?reassociate to namespace(?:s failed| 'net'): Operation not permitted)/,
      /(?:failed to (?:create|setup) (?:new )?(?:network namespace|netns|namespace)|(?:error creating|(?:could not|unable to) create) (?:new )?(?:network namespace|netns))[^\n]{0,240}?(?:permission denied|operation not permitted|no space left on device|no such file or directory|invalid argument|device or resource busy)/,
      /failed to create network for alloc: (?:open|mkdir|l?stat) \S*netns\S*: [a-z ]+|failed to pin namespaces[^\n]{0,200}/,
      /mount --(?:make-r?shared|rbind) \S*netns[^\n]{0,60} failed: [^\n]{0,60}/,
      /error from unshare: (?:operation not permitted|no space left on device|invalid argument)/,
      /failed to mount netns from pid \d+[^\n]{0,80}|failed to bind mount ns at \S+: [a-z ]+/,
      /namespace creation reexec command failed: (?![^\n]{0,80}cannot allocate memory)[^\n]{1,80}|bind-mount \/proc\/\S+\/ns\/net -> \S+ [a-z ]+/,
      /setting the network namespace "[^"]*" failed: (?:Operation not permitted|Permission denied)/,
      /(?:setns\([^)\n]*CLONE_NEW(?:NET|USER)[^)\n]*\)|reassociate to namespace 'ns\/net' failed): (?:operation not permitted|permission denied|invalid argument)/,
      /Couldn't (?:open|create|enter) (?:network|user) namespace(?: (?!\S*rootless-netns)\S+)?: (?!No such)[A-Z][^\n]{1,40}/,
      /Couldn't switch to pasta namespaces: [^\n]{1,40}|Failed to (?:clone process with detached|detach isolating) namespaces[^\n]{0,60}/,
      /apparmor="DENIED"[^\n]{0,80}profile="(?:passt|pasta|slirp4netns)\b[^\n]{0,120}(?:netns|\/ns\/(?:net|user))[^\n]{0,80}/,
      /avc: {1,2}denied[^\n]{0,120}comm="(?:pasta|passt)\S*"[^\n]{0,200}/,
      /rootlesskit[^\n]{0,80}failed to start the child: fork\/exec \S+: [a-z ]+/,
      /\/proc\/sys\/(?:user\/max_user_namespaces|kernel\/unprivileged_userns_clone) needs to be set to [^\n]{1,20}/,
      /might have happened because \/proc\/sys\/kernel\/apparmor_restrict_unprivileged_userns is set to 1/,
    ),
    who: 'containerd, CRI-O, podman, pasta, rootlesskit',
    meaning: "the pod's network namespace could not be made or entered: no plugin was called yet",
    causes: [
      'permission denied, operation not permitted: AppArmor, SELinux, seccomp or a missing privilege of the ' +
        'runtime itself',
      'no space left: user.max_net_namespaces or fs.mount-max is reached, mostly by namespaces that leaked',
      'without root: the kernel lets users make no user namespace (kernel.apparmor_restrict_unprivileged_userns of ' +
        'Ubuntu, user.max_user_namespaces 0), or the profile of passt is older than what podman does',
      'no such file, invalid argument: /run/netns is no shared mount, or an old kernel',
    ],
    look: [
      'ls /run/netns | wc -l; sysctl user.max_net_namespaces fs.mount-max',
      'findmnt -o TARGET,PROPAGATION /run/netns',
      'journalctl -k --grep "apparmor|avc" | tail',
    ],
    cure:
      'raise the limit that is reached and remove leaked namespaces (those that no process and no pod has); allow ' +
      'it in the profile of the runtime',
  },
  {
    id: 'state-permission',
    pattern:
      /Unable to (?:create directory|chown) \/var\/(?:lib|run|log)\/calico|\/(?:var\/lib|(?:var\/)?run)\/(?:cni|calico|flannel|cilium|multus|antrea)\b\S*: permission denied|(?:open|l?stat|mkdir|read) \/etc\/cni\b\S*: permission denied/,
    who: 'host-local, libcni',
    meaning: 'the state of the network belongs to root, and the caller is not root or may not write there',
    causes: ['it runs rootless, or without sudo', 'SELinux: files were copied or restored with another label'],
    look: ['ls -ldZ /var/lib/cni /var/lib/cni/*', 'id'],
    cure: 'run it as root; restorecon -R /var/lib/cni; rootless needs a directory of its own',
  },
  {
    id: 'kernel-module',
    pattern: oneOf(
      /path=\/lib\/modules\/\S+\.ko\S* error=[A-Z][^\n]{1,60}/,
      /calicoctl[^\n]{0,80}module \w{1,30} isn't loaded|kernel does not have Open vSwitch VXLAN support|"xt_set" does not exist/,
      /\b(?:vxlan|ipip|wireguard|gre|geneve|fou|ip6?tnl)\b[^\n]{0,60}: operation not supported/,
      /Failed to open TUN device|(?:Operation not supported|No such device) - Failed to create (?:veth|macvlan|ipvlan|vlan)\b/,
      /(?:network|bridge|veth|vxlan|netlink)\b[^\n]{0,80}: package not installed/,
      /failed to create \S+ vlan link: (?:operation not supported|no such device)|minimum \w+ kernel requirement of [\d.]+/,
      /could not insert module (?:\S*\/)?(?:vxlan|veth|bridge|br_netfilter|macvlan|ipvlan|wireguard|openvswitch|nf_|ip6?_?t|x_?t)\w*\.ko/,
      /(?<!must already exist on the host: |(?:delete|remove) [^\n]{0,80})(?:Netlink error: (?:Operation not supported|Not supported|No such device \(os error 19\))|Received a netlink error message (?:Operation )?not supported)/,
      /(?:netlink|socket|handle|network (?:endpoints?|interfaces?|links?|devices?))\b[^\n]{0,60}protocol not supported/,
      /(?:unable to|failed to|error|could not)[^\n]{0,60}\b(?:veth|bridge|vxlan|ipip|dummy|tunnel|wireguard|netkit|ifb|macvlan|ipvlan)\b[^\n]{0,160}: operation not supported/,
      /(?:(?:could not|unable to|failed to|error) (?:add|creat\w+|make|set ?up|adding)(?: the)?(?: \w+)? ?"?(?:bridge|macvlan|ipvlan|vlan|ifb|veth|dummy|vxlan|wireguard|ipip|tunnel|vrf|tap|netkit|host(?! side|port)|cni|link)|could not add)[^\n]{0,160}(?:operation not supported|unknown device type|no such device)/,
      /(?:network for sandbox "[^"]*"|failed \((?:add|cmdAdd)\)): operation not supported/,
      /create ifb qdisc: no such file|Error registering network: operation not supported/,
      /flannel exited: operation not supported/,
      /add filter for index \d+ ?: (?:no such file or directory|operation not supported)/,
      /ensure there are no \w+ networks using the same [^\n]{0,20}: operation not supported/,
      /\badding link: (?:invalid argument|operation not supported)/,
      /RTNETLINK answers: (?:Operation not supported|Unknown device type)|Error: Unknown device type/,
      /modprobe: FATAL: Module (?:ip|nf|xt|x_tables|eb|arp|br|veth|vxlan|geneve|gre|tun|tap|vhost|macv|8021q|bond|dummy|ifb|sch_|cls_|act_|em_|wireguard|vrf|sctp|openvswitch|sit|mlx|rdma)\S* not found/,
      /failed to (?:set ?up|set|remove) (?:hairpin mode|isolated on|default (?:native )?vlan|vlan tag)[^\n]{0,100}: operation not supported/,
      /(?:create|add|replace) (?:ingress |ifb )?(?:qdisc|filter): (?:operation not supported|no such file or directory)/,
      /Specified qdisc kind is unknown|Unknown qdisc "/,
      /modprobe: ERROR: could not insert '(?:ip|nf|xt|x_tables|eb|arp|br|veth|vxlan|geneve|gre|tun|tap|vhost|macv|8021q|bond|dummy|ifb|sch_|cls_|act_|em_|wireguard|vrf|sctp|openvswitch|sit|mlx|rdma)[\w-]*'/,
      /Running modprobe [^\n]{1,60} failed with message: (?![^\n]{0,80}executable file not found)[^\n]{1,160}/,
      /insmod: (?:ERROR: )?could not insert module \S*\/net\/\S+/,
      /modprobe: can't load module (?:ip|nf|xt|x_tables|eb|arp|br|veth|vxlan|geneve|gre|tun|tap|vhost|macv|8021q|bond|dummy|ifb|sch_|cls_|act_|em_|wireguard|vrf|sctp|openvswitch|sit|mlx|rdma)[^\n]{0,100}/,
      /add qdisc for network index \d+ ?: (?:no such file or directory|operation not supported)/,
      /wireguard (?:is )?not supported (?:by|in) (?:the |this )?kernel/,
      /failed to (?:enumerate system datapaths|create datapath \S+): (?:No such (?:file|device)|(?:Operation|Protocol) not supported)[a-z ]*/,
      /Unable to detect the \w+ module\b[^\n]{0,60}|one of more kernel modules missing/,
      /required kernel modules are not loaded: \[[^\]\n]*\]|module \S+ not in \/lib\/modules/,
      /Failed to load kernel module (?!overlay|configfs)\S+ with modprobe/,
      /failed \(\w+\): (?:[\w :]{0,60}: )?(?:failed to )?(?:add|list|delete)\w* (?:all )?rules?\b[^\n]{0,80}: (?:operation|address family) not supported/,
      /failed to detect bridge kernel module|modinfo: ERROR: Module (?:openvswitch|geneve|vxlan|ip_\w+|nf_\w+|xt_\w+) not found/,
      /Error while (?:creating|initializing) daemon" error="protocol not supported|requires support for xfrm state[^\n]{0,120}(?:not supported|not implemented)/,
      /(?:Open vSwitch|OVS) kernel module (?:is (?:probably )?not loaded|from the container)|family 'ovs_\w+' does not exist/,
      /\b(?:ip6?tables|xt_socket|xt_set|ipset) (?:kernel )?modules? could not be (?:initialized|loaded)[^\n]{0,120}/,
      /could not load (?:kernel )?module (?:ip6?_|ip6?table|nf_|xt_|x_tables|vxlan|geneve|wireguard|openvswitch)\w*/,
      /ipvs is not enabled in your kernel|unable to create ipvs handle|Failed to load kernel module ip_vs|Can't initialize ipvs: [^\n]{1,40}/,
      /\b(?:ip tunnel|add tunnel "[^"]*" failed): (?:No such device|Operation not supported|No buffer space available)/,
      /\bxfrm (?:state|policy|interface)s?\b[^\n]{0,120}(?:protocol not supported|operation not supported|function not implemented)/,
      /wgctrl is not available on this system/,
      /iptables table is not available on this system|iptables match socket is not available|Policy routing: ?NOT OK|maybe kernel module for \S+ is not available/,
      /wireguard not supported by the Linux kernel/,
      /iptables[^\n]{0,200}modprobe: can't change directory to '\/lib\/modules'/,
      /Failed to load the WireGuard kernel module/,
    ),
    who: 'the kernel',
    meaning: 'the kernel cannot make such a link, queue or filter: the module is not there, or cannot be loaded',
    causes: [
      'the kernel was updated and the machine not restarted: the modules of the running one are gone',
      'the module is in a package of its own (linux-modules-extra on Ubuntu, kernel-modules on RHEL), or not built ' +
        '(own, NAS and WSL kernels)',
      '"Exec format error", "Invalid module format": modprobe in a container (kube-proxy, an agent) cannot read ' +
        'compressed modules (.ko.xz), or has those of another kernel',
      '"adding link: invalid argument" of bandwidth: the kernel has no ifb of the kind that it makes, or is too old',
      'a bridge that fails while `ip link add type bridge` works: the kernel has no CONFIG_BRIDGE_VLAN_FILTERING',
    ],
    look: [
      'uname -r; ls /lib/modules',
      'modprobe -a veth bridge br_netfilter macvlan ipvlan 8021q ifb vxlan sch_ingress cls_u32 act_mirred',
    ],
    cure:
      'restart after a kernel update; install the package with the modules; load those that are needed on the node ' +
      'itself, and name them in /etc/modules-load.d',
  },
  {
    id: 'mount-not-shared',
    pattern: oneOf(
      /path "?\/\S{1,120} is mounted on \S{1,120} but it is not a shared(?: or slave)? mount/,
      /mount-bpf-fs\b[^\n]{0,160}\bnot a shared(?: or slave)? mount\b/,
    ),
    who: 'the runtime, of a volume of an agent',
    meaning:
      'the agent wants mounts of the node to appear in its container, and the mount that they are in is not shared',
    causes: [
      'the system does not make its mounts shared at boot: no systemd (Alpine), a container as a node, WSL, k3d',
      'the runtime runs in a mount namespace of its own (MountFlags of its unit, a snap)',
    ],
    look: ['findmnt -o TARGET,PROPAGATION / /sys /sys/fs/bpf', 'systemctl show containerd crio docker -p MountFlags'],
    cure:
      'make the mount of the message shared at each boot, before the runtime starts: mount --make-rshared / (Cilium: ' +
      'mount bpffs at /sys/fs/bpf, and make that shared too)',
    needsNetwork: true,
  },
]
