// SPDX-License-Identifier: Apache-2.0
// Findings about the node itself: kernel, runtime, configuration, firewalls.

import type { DoctorCheck } from './check.ts'

export const nodeChecks = {
  'state-damaged': {
    group: 'host',
    severity: 'note',
    meaning:
      'files of the state could not be read and were set aside; what they said was found out otherwise, or is lost',
    cause: 'a disk that was full, a power cut, or somebody who wrote there',
    cure: 'look at them, then remove them',
  },
  'forwarding-reverts': {
    group: 'kernel',
    severity: 'warning',
    meaning: 'forwarding is on, and the next `sysctl --system` or restart of systemd-sysctl switches it off',
    cause: 'a file of sysctl.d says 0, and nothing later says 1',
    cure: 'correct the file, or write one that is read later',
  },
  'rp-filter': {
    group: 'kernel',
    severity: 'warning',
    meaning:
      'what comes in by this interface from beyond its subnet is dropped: host ports, NodePorts and health checks',
    cause: 'rp_filter is strict (1), and the route back to such senders leads out by another interface',
    cure: 'make it loose (2), and keep it in /etc/sysctl.d; or route by source',
  },
  'rule-refuses': {
    group: 'kernel',
    severity: 'error',
    meaning: 'the kernel refuses to pass on what pods send, or what is for them',
    cause:
      'a policy rule (`ip rule`) of somebody says prohibit, blackhole or unreachable, and no route before it matches',
    cure: 'remove the rule, or put one that leads the pods to a routing table before it',
  },
  'bridge-nf-off': {
    group: 'kernel',
    severity: 'warning',
    meaning:
      'a pod that calls a service whose endpoint is on the same bridge gets no answer, where kube-proxy translates',
    cause:
      'br_netfilter is not loaded, or net.bridge.bridge-nf-call-iptables is 0: the answer goes past the translation',
    cure: 'load it and switch it on, now and at boot',
    run: 'modprobe br_netfilter; sysctl -w net.bridge.bridge-nf-call-iptables=1 net.bridge.bridge-nf-call-ip6tables=1',
  },
  'runtime-silent': {
    group: 'runtime',
    severity: 'error',
    meaning: 'no pod starts or stops: the runtime does not answer on its socket',
    cause: 'it is stopped, hangs, or its CRI plugin failed to load',
    cure: 'look at its log, then restart it',
  },
  'runtime-not-ready': {
    group: 'runtime',
    severity: 'error',
    meaning: 'the node is NotReady: the runtime says that the network of pods is not',
    cause: 'it found no configuration that it takes, or a plugin says by STATUS that it cannot serve',
    cure: 'see its reason; a containerd whose directory was made again has to be restarted',
  },
  'config-shadowed': {
    group: 'configuration',
    severity: 'warning',
    meaning: 'new pods get another network than the one that is meant',
    cause: 'another file of the directory comes first in the order of names',
    cure: 'rename the file that is not meant, so that it ends in .disabled',
  },
  'firewall-drops': {
    group: 'firewall',
    severity: 'error',
    meaning: 'packets of pods are dropped on their way to the node or through it',
    cause: 'a rule or a policy of another firewall drops them, and no accept comes before it',
    cure:
      'let the pods pass there, or give the network of trestle a `firewall` key, which puts one accept before the ' +
      'tail',
  },
  'firewall-drops-some': {
    group: 'firewall',
    severity: 'note',
    meaning: 'some packets of pods are dropped on their way to the node or through it',
    cause:
      'a rule of another firewall names pods with a port, a protocol, a state or one peer, or stands behind an accept',
    cure: 'nothing, where that is meant',
  },
  'node-firewall': {
    group: 'firewall',
    severity: 'note',
    meaning:
      'what pods send to the node itself may be dropped: to their gateway, to a DNS cache or a service of the node',
    cause: 'a firewall of the node drops what it does not accept, and no accept of it names the pods',
    cure: 'nothing, where pods need nothing of the node; `trestle doctor --probe` tells what they reach',
  },
} as const satisfies Readonly<Record<string, DoctorCheck>>
