// SPDX-License-Identifier: Apache-2.0
// Settings of the kernel.

import type { Fault } from './fault.ts'

const node = 'sysctl -qw'

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
    tidy: 'rm -f /run/sysctl.d/50-hardening.conf /etc/sysctl.d/zz-pod-network.conf',
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
    what: 'an uplink with a smaller MTU than the pods',
    source: 'kubernetes-sigs/kind#1690',
    make: 'ip link set up0 mtu 1400',
    doctor: ['mtu-larger'],
    names: '1400',
    cure: 'ip link set up0 mtu 1500',
  },
]
