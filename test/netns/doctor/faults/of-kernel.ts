// SPDX-License-Identifier: Apache-2.0
// Settings and limits of the kernel.

import type { Fault } from './fault.ts'

const node = 'sysctl -qw'

/** A setting of the whole machine: a file of its own is laid over it, in the mount namespace of the test. */
const laidOver = (path: string, value: number) =>
  `echo ${value} >$SCRATCH/${path.replaceAll('/', '.')} && mount --bind $SCRATCH/${path.replaceAll('/', '.')} /proc/sys/${path}`
const takenOff = (...paths: readonly string[]) => paths.map((path) => `umount /proc/sys/${path}`).join('; ')

export const kernelFaults: readonly Fault[] = [
  {
    what: 'forwarding off',
    source: 'redhat-performance/tuned#816',
    make: `${node} net.ipv4.ip_forward=0`,
    doctor: ['forwarding-off'],
    names: 'net.ipv4.ip_forward',
    explain: ['attachment-differs', 'forwarding-off'],
  },
  {
    what: 'IPv6 forwarding off',
    source: 'systemd/systemd#21550',
    make: `${node} net.ipv6.conf.all.forwarding=0`,
    doctor: ['forwarding-off'],
    names: 'net.ipv6.conf.all.forwarding',
    explain: ['attachment-differs', 'forwarding-off'],
  },
  {
    what: 'forwarding off after the next start',
    source:
      'https://kubernetes.io/docs/setup/production-environment/container-runtimes/#prerequisite-ipv4-forwarding-optional',
    make: 'mkdir -p /run/sysctl.d && echo net.ipv4.ip_forward = 0 >/run/sysctl.d/50-hardening.conf',
    doctor: ['forwarding-reverts'],
    names: '/run/sysctl.d/50-hardening.conf',
    tidy: 'rm -f /run/sysctl.d/50-hardening.conf /etc/sysctl.d/99-zz-pod-network.conf',
  },
  {
    what: 'IPv6 off on the bridge',
    source: 'containernetworking/cni#531',
    make: `${node} net.ipv6.conf.cni0.disable_ipv6=1`,
    doctor: ['ipv6-disabled'],
    names: 'net.ipv6.conf.cni0.disable_ipv6 is 1',
    explain: ['attachment-differs'],
  },
  {
    what: 'strict rp_filter on a second uplink',
    source: 'containers/podman#26044',
    make: [
      'ip link add up1 type veth peer name up1x',
      'ip addr add 198.18.9.2/24 dev up1',
      'ip link set up1 up',
      'ip link set up1x up',
      'ip route add default via 198.18.9.1 metric 500',
      `${node} net.ipv4.conf.up1.rp_filter=1`,
    ].join(' && '),
    doctor: ['rp-filter'],
    names: 'up1',
    tidy: 'ip link del up1',
  },
  {
    what: 'bridged packets past kube-proxy',
    source: 'kelseyhightower/kubernetes-the-hard-way#561',
    make: `nft add table ip kube-proxy && ${node} net.bridge.bridge-nf-call-iptables=0`,
    doctor: ['bridge-nf-off'],
    names: 'net.bridge.bridge-nf-call-iptables is 0',
    tidy: `nft delete table ip kube-proxy; ${node} net.bridge.bridge-nf-call-iptables=0 net.bridge.bridge-nf-call-ip6tables=0`,
  },
  {
    what: 'the table of connections full',
    source: 'kubernetes/kubernetes#71261',
    make: `ip netns exec $NS ping -nqc1 10.240.0.1 >/dev/null; ping -nqc1 10.240.0.2 >/dev/null; ${laidOver('net/netfilter/nf_conntrack_max', 1)}`,
    doctor: ['conntrack-full'],
    names: 'conntrack',
    tidy: takenOff('net/netfilter/nf_conntrack_max'),
  },
  {
    what: 'no inotify instance left',
    source: 'containerd/containerd#10468',
    make: `${laidOver('fs/inotify/max_user_instances', 1)} && ${laidOver('fs/inotify/max_user_watches', 500_000)} && (setsid tail -f $SCRATCH/fs.inotify.max_user_instances >/dev/null 2>&1 & echo $! >$SCRATCH/tail) && timeout 20 sh -c "until ls -l /proc/$(cat $SCRATCH/tail)/fd | grep -q inotify; do sleep 0.05; done"`,
    doctor: ['inotify-limit'],
    names: 'instances of root',
    tidy: `kill $(cat $SCRATCH/tail); ${takenOff('fs/inotify/max_user_instances', 'fs/inotify/max_user_watches')}`,
  },
  {
    what: 'no thread left',
    source: 'kubernetes/kubernetes#79466',
    make: `${laidOver('kernel/threads-max', 2)} && ${laidOver('kernel/pid_max', 4_194_304)}`,
    doctor: ['process-limit'],
    names: 'processes',
    tidy: takenOff('kernel/threads-max', 'kernel/pid_max'),
  },
  {
    what: 'no open file left on the node',
    source: 'berops/claudie#1694',
    make: laidOver('fs/file-max', 16),
    doctor: ['file-limit'],
    names: 'files',
    tidy: takenOff('fs/file-max'),
  },
  {
    what: 'an uplink with a smaller MTU than the pods',
    source: 'kubernetes-sigs/kind#1690',
    make: 'ip link set up0 mtu 1400',
    doctor: ['mtu-larger'],
    names: '1400',
    cure: 'ip link set up0 mtu 1500',
  },
]
