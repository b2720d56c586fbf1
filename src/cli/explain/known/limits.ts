// SPDX-License-Identifier: Apache-2.0
// Of limits and sysctls: the kernel or a disk has no more room for something, a sysctl cannot be set or is wrong.

import { type KnownError, oneOf } from './known-error.ts'

/** Errors whose cause is a sysctl, or a limit that is reached. */
export const limitErrors: readonly KnownError[] = [
  {
    id: 'br-netfilter',
    pattern: oneOf(
      /Failed to enable (?:netfilter|ip6?tables) for bridge[^\n]{0,120}/,
      /filtering via arp\/ip\/ip6tables is no longer available by default/,
      /Cannot detect bridge-nf support/,
      /Failed to load br_netfilter|br_netfilter[^\n]{0,60}(?:not (?:found|loaded|available)|missing|could not be loaded|FATAL)/,
      /modprobe[^\n]{0,20} br_netfilter[^\n]{0,80}(?:fail|exit status|error)/,
      /\/proc\/sys\/net\/bridge\/bridge-nf-call-ip6?tables[^\n]{0,60}/,
      /ensure (?:that )?(?:the )?br_netfilter kernel module is loaded|cannot restrict inter-?(?: ?)container communication[^\n]{0,120}/,
      /bridge-nf-call-ip6?tables (?:contents are not|does not exist|is disabled|sysctl not set)/,
      /net[./]bridge[./]bridge-nf-call-(?:ip6?|arp)tables['"]?(?:: No such file or directory| is an unknown key|, ignoring: No such file or directory)/,
    ),
    who: 'flannel, kubeadm, docker',
    meaning:
      'the module br_netfilter is not loaded, or switched off, so that iptables does not see what a bridge passes',
    causes: [
      'nothing loads it at boot ("does not exist", "no such file")',
      'a file of /etc/sysctl.d, or a program that started later, sets bridge-nf-call-iptables 0 ("not set to 1")',
    ],
    look: ['lsmod | grep br_netfilter', 'sysctl net.bridge; grep -rn bridge-nf /etc/sysctl.conf /etc/sysctl.d'],
    cure: 'load it, now and at boot, and keep the setting in a file of /etc/sysctl.d',
    run:
      'modprobe br_netfilter; echo br_netfilter >/etc/modules-load.d/br_netfilter.conf; sysctl -w ' +
      'net.bridge.bridge-nf-call-iptables=1',
  },
  {
    id: 'sysctl-refused',
    pattern: oneOf(
      /sysctl: cannot stat \/proc\/sys\/net\/(?:netfilter\/nf_conntrack|ipv4\/conf\/(?:cali|cni|flannel|veth))\S+: No such file/,
      /Could not enable ipv[46] forwarding|cannot enable IP Forwarding via sysctl/,
      /(?:error|failed|could not|unable)[^\n]{0,40}(?:set|config|writ)[^\n]{0,40}\bsysctls?\b[^\n]{0,200}(?<!ipv6\S{0,80})(?:: no such file or directory|: invalid argument|: permission denied|read-only file system|: operation not permitted)/,
      /(?:open|write) \/proc\/sys\/net\/(?!ipv6|bridge)\S+: (?:no such file or directory|invalid argument|permission denied|read-only file system)/,
      /(?:open|read|write) \/proc\/sys\/net\/\S+: input\/output error/,
      /(?:opening|writ(?:e|ing)|open)(?: file| to)? [`'"]?\/proc\/sys\/net\/(?!ipv6|bridge)[^\s`'"]+[`'"]?: (?:no such file or directory|invalid argument|permission denied|read-only file system)/,
      /sysctl [`'"]?net\.[^\s`'"]+[`'"]? is not namespaced|sysctl: permission denied on key ['"]net\.[^\n]{1,80}/,
      /\/sys\/module\/nf_conntrack\/parameters\/hashsize: [a-z -]+|Sysctl \S+ is not allowed\. Only/,
      /invalid net sysctl key: \S+|can't set sysctl \S+ kernel version must be at least [\d.]+/,
      /Sysctl error: [^\n]{0,100}(?:Read-only file system|No such file or directory|Permission denied|Operation not permitted)/,
      /sysctl: (?:(?:error )?setting key|permission denied on key) ['"]net\.(?!ipv6|bridge)[^\n]{0,120}/,
      /set sysctl \S+: [^\n]{0,60}Read-only file system|accept_dad: read-only file system/,
      /open sysctl \S+ file: [^\n]{0,80}(?:permission denied|read-only file system|no such file or directory|operation not permitted|unsafe procfs)/,
      /sysctl "?net\.\S+ (?:is )?(?:not allowed in host network namespace|not in a separate kernel namespace)/,
      /sysctl net\.\S+ can't be set since Network Namespace set to host/,
      /Error (?:reading|setting) net sysctl \S+: [^\n]{1,80}/,
    ),
    who: 'the tuning plugin and others',
    meaning: 'a sysctl cannot be set (or read) in the pod',
    causes: [
      'no such file: the module behind it is not loaded (nf_conntrack), or it is one that only the node has',
      'invalid argument: a value out of its bounds; "kernel version must be": the kernel has it not yet',
      'read-only, permission denied: it runs in a container that is not privileged, or a new runc inside of an old ' +
        'LXC or AppArmor profile ("reopen fd", "unsafe procfs")',
      'with --network=host a container has no network of its own whose sysctls it could set',
      'input/output error: a program serves /proc/sys there (sysbox-fs) and fails',
    ],
    look: ['sysctl -a --pattern NAME', 'nsenter --net=NETNS sysctl -a --pattern NAME'],
    cure: 'take it out of `sysctl`, correct its value, or load the module on the node',
  },
  {
    id: 'martian-source',
    pattern: /martian (?:source|destination)/i,
    who: 'the kernel',
    meaning: 'a packet was dropped because its source address is not to be expected on its interface',
    causes: [
      'rp_filter is 1 and the route to the source leads elsewhere',
      'an address of the pods is also outside: overlapping subnets',
    ],
    look: ['sysctl -a --pattern "\\.rp_filter"', 'ip route get SOURCE'],
    cure: 'sysctl -w net.ipv4.conf.all.rp_filter=2, and of the interface in the message; check for overlapping subnets',
    checks: ['subnets-overlap'],
  },
  {
    id: 'bridge-full',
    pattern: /exchange full|Xchange full/i,
    who: 'the kernel',
    meaning: 'the bridge has no port left',
    causes: ['a Linux bridge has 1023 ports', 'veths of dead pods still are its ports'],
    look: ['ls /sys/class/net/cni0/brif | wc -l'],
    cure: 'give new pods a network with another `bridge`, or `mode: ptp`, which has no bridge',
  },
  {
    id: 'inotify-limit',
    pattern:
      /(?:fsnotify|inotify|initialize libovsdb|kube-proxy won't start|create (?:new )?watcher|watcher create|add(?:ing)? watch (?:on|for))[^\n]{0,80}(?:too many open files|no space left on device)|Maximum number of inotify user (?:instances|watches) is less than/i,
    who: 'containerd, CRI-O, podman and what watches files',
    meaning:
      'the user (root) has no inotify instance or watch left; with containerd the whole CRI part stays away, and ' +
      'the node is not ready',
    causes: [
      'fs.inotify.max_user_instances is 128 by default; each shim of a cgroup v2 system takes one or more',
      '"no space left on device" means the watches: fs.inotify.max_user_watches',
    ],
    look: [
      'sysctl fs.inotify',
      'find /proc/*/fd -lname anon_inode:inotify 2>/dev/null | cut -d/ -f3 | sort | uniq -c | sort -nr | head',
    ],
    cure: 'raise both, keep them in /etc/sysctl.d, then restart the runtime',
    run: 'sysctl -w fs.inotify.max_user_instances=8192 fs.inotify.max_user_watches=524288',
  },
  {
    id: 'file-limit',
    pattern: /too many open files/i,
    who: 'the kernel',
    meaning: 'a process (or the machine) has no file descriptor left',
    causes: ['the limit of the service (LimitNOFILE) is low, or it leaks descriptors', 'fs.file-max is reached'],
    look: [
      'ls /proc/$(pidof -s containerd crio)/fd | wc -l; grep files /proc/$(pidof -s containerd crio)/limits',
      'cat /proc/sys/fs/file-nr',
    ],
    cure: 'raise LimitNOFILE in the unit of the runtime and restart it; one that leaks has to be updated',
    needsNetwork: true,
  },
  {
    id: 'process-limit',
    pattern: oneOf(
      /(?:fork\/exec \/(?:opt|usr)\/\S*cni\S*|pthread_create failed|failed to create new OS thread)[^\n]{0,80}(?:resource temporarily unavailable|have \d+ already|cannot allocate memory)/,
      /fork\/exec \/\S*cni\S*: (?:resource temporarily unavailable|cannot allocate memory)/,
      /fork\/exec \/\S*(?:ip6?tables|docker-proxy|nft|modprobe|ipset|conntrack|slirp4netns|pasta|netavark|\/ip)\S*: resource temporarily unavailable/,
    ),
    who: 'the kernel',
    meaning: 'no further process or thread can be started',
    causes: [
      'TasksMax of the service, pids.max of its cgroup or kernel.pid_max is reached; zombies and leaked shims count',
      '"cannot allocate memory": the memory limit of the cgroup, or the machine is out of memory',
    ],
    look: [
      'systemctl show containerd crio kubelet -p TasksCurrent -p TasksMax',
      'sysctl kernel.pid_max kernel.threads-max; ps -eLf | wc -l',
    ],
    cure:
      'raise TasksMax (TasksMax=infinity in the unit of the runtime) or kernel.pid_max, and find what takes the ' +
      'processes',
  },
  {
    id: 'disk-full',
    pattern:
      /write failed \(No space left on device\)|(?<!watch (?:on|for) \S{0,9})\/(?:var\/lib\/cni|run\/netns|var\/run\/netns|etc\/cni|var\/lib\/cilium|run\/trestle|run\/cni|run\/aws-node)\S*: (?:no space left on device|disk quota exceeded|read-only file system|structure needs cleaning|input\/output error)/i,
    who: 'the kernel',
    meaning: 'a file of the network cannot be written',
    causes: ['the disk is full, of bytes or of inodes', 'the file system turned read-only after an error of the disk'],
    look: ['df -h /var/lib/cni /run; df -i /var/lib/cni /run', 'dmesg | grep -i -e remount -e "i/o error" | tail'],
    cure:
      'make room; a read-only file system needs its disk looked at. Files that were cut short then show up as ' +
      'other errors: see cache-damaged',
  },
  {
    id: 'neighbours-full',
    pattern: /neighbou?r(?:ing)? table overflow|arp_cache: [^\n]{0,20}overflow|ndisc_cache: [^\n]{0,20}overflow/i,
    who: 'the kernel',
    meaning: 'the table of neighbours (ARP) is full: new pods and peers cannot be reached',
    causes: ['more pods and nodes on one layer 2 than net.ipv4.neigh.default.gc_thresh3 (1024)'],
    look: ['ip neigh | wc -l; sysctl -a --pattern "neigh.default.gc_thresh"'],
    cure: 'raise the limits, and keep them in /etc/sysctl.d (for IPv6 the same below net.ipv6)',
    run:
      'sysctl -w net.ipv4.neigh.default.gc_thresh1=4096 net.ipv4.neigh.default.gc_thresh2=8192 ' +
      'net.ipv4.neigh.default.gc_thresh3=16384',
  },
  {
    id: 'conntrack-full',
    pattern: /nf_conntrack: (?:nf_conntrack: )?table full, dropping packet/,
    who: 'the kernel',
    meaning: 'the table of connections is full: new connections are dropped, for the whole node',
    causes: [
      'much traffic of short connections',
      'a limit made for a small machine',
      'timeouts of days for idle connections',
    ],
    look: ['sysctl net.netfilter.nf_conntrack_count net.netfilter.nf_conntrack_max'],
    cure:
      'sysctl -w net.netfilter.nf_conntrack_max=1048576 (kube-proxy sets it by --conntrack-max-per-core, and sets ' +
      'it back)',
  },
  {
    id: 'netdev-leak',
    pattern: /unregister_netdevice: waiting for \S+ to become free/,
    who: 'the kernel',
    meaning: 'something still holds an interface of a namespace that ended; other calls wait for it, and for one lock',
    causes: [
      'a defect of the kernel: a socket, a route cache or a BPF program keeps a reference',
      'the interface of a pod is still held by a process: one that hangs on a network file system (NFS, CIFS)',
    ],
    look: ['uname -r', 'dmesg | grep -c unregister_netdevice', 'lsns -t net'],
    cure: 'end what holds the namespace; update the kernel. Until the machine restarts the interface stays',
  },
]
