// SPDX-License-Identifier: Apache-2.0
// Findings of `--probe`: what throw-away pods do not reach, where no cause of it is seen.

import type { DoctorCheck } from './check.ts'

const unseen = 'nothing of it is seen from here: a firewall beyond the node, a rule that names ports, or a policy'

export const probeChecks = {
  'probe-add': {
    group: 'probe',
    severity: 'error',
    meaning: 'a new pod gets no network: it waits in ContainerCreating',
    cause: 'a plugin of the list refused the ADD of a throw-away pod',
    cure: 'give the text of the error to `trestle explain`',
  },
  'probe-del': {
    group: 'probe',
    severity: 'warning',
    meaning: 'a pod that ends may leave its address behind',
    cause: 'a plugin of the list refused the DEL of a throw-away pod; the next `trestle doctor --probe` tries again',
    cure: 'give the text of the error to `trestle explain`',
  },
  'probe-node': {
    group: 'probe',
    severity: 'error',
    meaning: 'health probes of kubelet fail: the node does not reach its pods',
    cause: 'a route or a rule of the node takes the packets, or drops them in its output hook',
    cure: 'look at `ip route get ADDRESS` and at rules of the output hook (nft, iptables-save)',
  },
  'probe-gateway': {
    group: 'probe',
    severity: 'error',
    meaning: 'a new pod does not reach the node, and nothing beyond it',
    cause: "the bridge is down, has not the gateway's address, or the veth is not on it",
    cure: 'look at `ip addr` and `bridge link` of the node',
  },
  'probe-pod': {
    group: 'probe',
    severity: 'error',
    meaning: 'new pods of this node do not reach each other',
    cause: 'a policy, a firewall that sees bridged packets (br_netfilter), or ports that are isolated',
    cure: 'look at `bridge -d link` and at rules of the forward hook (nft, iptables-save)',
  },
  'probe-outside': {
    group: 'probe',
    severity: 'error',
    meaning: 'new pods reach nothing beyond the node, which itself does',
    cause: 'a firewall of the node drops what it passes on, or nobody masquerades and no route leads back',
    cure: 'look at rules of the forward and postrouting hooks (nft, iptables-save)',
  },
  'probe-dns': {
    group: 'probe',
    severity: 'error',
    meaning: 'new pods resolve no names, the node does',
    cause: unseen,
    cure: 'look for rules about port 53 (nft, iptables-save), and for network policies',
  },
  'probe-host-port': {
    group: 'probe',
    severity: 'error',
    meaning: 'host ports of new pods are not reached',
    cause: unseen,
    cure: 'look at rules of the prerouting and output hooks (nft, iptables-save)',
  },
} as const satisfies Readonly<Record<string, DoctorCheck>>
