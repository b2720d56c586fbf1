// SPDX-License-Identifier: Apache-2.0
// Of limits: the kernel or a disk has no more room for something.

import { type KnownError, oneOf } from './known-error.ts'

/** Errors whose cause is a limit that is reached. */
export const limitErrors: readonly KnownError[] = [
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
      /(?:fsnotify|inotify|create (?:new )?watcher|add(?:ing)? watch (?:on|for))[^\n]{0,80}(?:too many open files|no space left on device)/i,
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
      /(?<!watch (?:on|for) \S{0,9})\/(?:var\/lib\/cni|run\/netns|var\/run\/netns|etc\/cni|var\/lib\/cilium|run\/trestle)\S*: (?:no space left on device|disk quota exceeded|read-only file system)/i,
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
