// SPDX-License-Identifier: Apache-2.0
// Settings that keep packets from arriving though every call went well. Their words are those in which `trestle try`
// tells what it sees.

import type { KnownError } from './known-error.ts'

/** What is seen of the node and the network, and what to make of it. */
export const reachErrors = [
  {
    id: 'hairpin-off',
    pattern:
      /hairpin_mode of \S{1,15} is 0|\/hairpin_mode:? ?0\b|Hairpin mode (?:is )?set\b[^\n]{0,60}\bbut [^\n]{0,80}(?:falling back to|ignoring)[^\n]{0,30}/i,
    who: 'the bridge, or kubelet with docker',
    meaning:
      'the bridge sends no frame back out of the port it came in by: a pod does not reach itself by host port or ' +
      'service',
    causes: [
      'hairpinMode is not set in the configuration of bridge (flannel: in its delegate), and promiscMode neither',
      'kubelet (up to 1.23) "falls back": promiscuous-bridge goes with kubenet alone; some releases only say so, and ' +
        'set nothing: give it --hairpin-mode=hairpin-veth',
    ],
    look: ['bridge -d link show'],
    cure:
      'add "hairpinMode": true to the plugin that makes the bridge port (flannel: to "delegate"); pods get it when ' +
      'they are made again',
  },
  {
    id: 'ports-isolated',
    pattern: /isolated of \S{1,15} and \S{1,15} is 1/,
    who: 'the bridge',
    meaning: 'the bridge passes nothing between isolated ports: pods of one node do not reach each other',
    causes: ['portIsolation is set in the configuration, which is what it is for'],
    look: ['bridge -d link show'],
    cure: 'remove "portIsolation", if pods are to reach each other; pods get it when they are made again',
  },
  {
    id: 'policy-isolated',
    pattern: /ingressPolicy is "?(?:isolated|same-bridge)"?/,
    who: 'the firewall plugin or trestle',
    meaning: 'the network lets in from other pods only what its policy names',
    causes: ['firewall.ingressPolicy is set in the configuration, which is what it is for'],
    look: ['nft list ruleset'],
    cure: 'use "ingressPolicy": "open", if pods are to reach each other',
  },
  {
    id: 'forwarding-off',
    pattern:
      /net\.ipv[46]\.(?:ip_forward|conf\.all\.forwarding) is 0|\/ip_forward=0, it must be set|IPv[46] (?:global )?forwarding is disabled[.:]|\/(?:ip_forward|conf\/(?:all|default)\/forwarding) contents are not set to 1/,
    who: 'the kernel',
    meaning: 'the node passes nothing on: pods reach the node and each other, and nothing beyond',
    causes: [
      'no plugin switched it on: bridge does it with isGateway only',
      'a script or systemd-sysctl switched it off afterwards',
    ],
    look: ['sysctl net.ipv4.ip_forward net.ipv6.conf.all.forwarding'],
    cure: 'set isGateway in the configuration of the bridge, or switch it on for good in /etc/sysctl.d',
    run: 'sysctl -w net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1',
  },
] as const satisfies readonly KnownError[]

/** The ids of these. */
export type ReachId = (typeof reachErrors)[number]['id']
