// SPDX-License-Identifier: Apache-2.0
// Findings about what state says and the kernel does not have.

import type { DoctorCheck } from './check.ts'

const restore = 'trestle restore'

export const stateChecks = {
  'rules-missing': {
    group: 'network',
    severity: 'error',
    meaning: 'no masquerade, host port, policy or accept where they are missing: pods lose what those did for them',
    cause: 'a flush of all rules, a restart of nftables or firewalld, or somebody who removed elements',
    cure: 'make them again; `trestle restore --systemd-unit` prints a unit that does it after each reload',
    run: restore,
  },
  'bridge-differs': {
    group: 'network',
    severity: 'error',
    meaning: 'pods do not reach their gateway, nor each other',
    cause: 'the bridge was removed, set down, or lost its address: network managers and scripts do that',
    cure: 'make it again as state says, and keep network managers away (docs/host.md)',
    run: restore,
  },
  'route-missing': {
    group: 'network',
    severity: 'error',
    meaning: 'the node does not reach a routed pod, and no answer comes back to it',
    cause: 'somebody removed the route, or the link was down for a moment',
    cure: 'make it again',
    run: restore,
  },
  'route-elsewhere': {
    group: 'network',
    severity: 'error',
    meaning: 'what is for the pod leaves by another link and does not arrive',
    cause: 'a more specific route, a rule, or a second network with the same range',
    cure: 'remove the route or rule, or give one of the two another range',
  },
  'port-differs': {
    group: 'network',
    severity: 'error',
    meaning: "a pod's end on the node is not as it was made: no or not all of its packets pass",
    cause: 'a network manager or a script set the veth down, took it off the bridge, or changed its settings',
    cure: 'make it again as state says, and keep network managers away (docs/host.md)',
    run: restore,
  },
  'alias-missing': {
    group: 'network',
    severity: 'warning',
    meaning: 'packets pass; but whose link it is nobody could tell any more, were its record lost',
    cause: 'a network manager or a script changed the alias of a link',
    cure: 'write it again',
    run: restore,
  },
  'limit-missing': {
    group: 'network',
    severity: 'warning',
    meaning: 'the bandwidth of a pod is not limited as asked',
    cause: 'another program replaced the qdisc',
    cure: 'make it again',
    run: restore,
  },
  'setting-differs': {
    group: 'network',
    severity: 'warning',
    meaning: 'a sysctl of the node that pods rely on has another value',
    cause: 'sysctl --system, a profile of tuned, or a script',
    cure: 'set it again',
    run: restore,
  },
  'accept-missing': {
    group: 'firewall',
    severity: 'error',
    meaning: 'another firewall drops packets of pods that `firewall.hostAccept` lets pass',
    cause: 'the firewall was started or reloaded after the network was set up',
    cure: 'put the accept again; `trestle restore --systemd-unit` prints a unit that does it after each reload',
    run: restore,
  },
  'state-lacks': {
    group: 'network',
    severity: 'warning',
    meaning: 'the state is not complete: an address or host port could be given to a second pod',
    cause: 'files of /run/trestle were removed or damaged',
    cure: 'write them again from what else is known',
    run: restore,
  },
  'interface-lost': {
    group: 'network',
    severity: 'error',
    meaning: 'a pod has no network: its interface is gone, and only a new pod gets one',
    cause: 'somebody removed the veth, or a network manager did',
    cure: 'make the pod anew',
  },
  'pod-differs': {
    group: 'network',
    severity: 'error',
    meaning: 'inside the pod an address, a route or its link is not as it was made',
    cause: 'a process of the pod with CAP_NET_ADMIN, a sidecar, or somebody with nsenter changed it',
    cure: 'make the pod anew',
  },
  'mtu-larger': {
    group: 'network',
    severity: 'warning',
    meaning: 'large packets of pods are fragmented or lost, small ones pass: TLS and downloads hang',
    cause: 'the MTU of pods is larger than that of the way out: a VPN, an overlay, or an uplink that was changed',
    cure: 'set "mtu": "auto" or a number that fits in the configuration, and make the pods anew',
  },
  'record-partial': {
    group: 'network',
    severity: 'note',
    meaning: 'these pods are not compared with the kernel: a link of theirs that is down, say, is not found',
    cause: 'their records were lost or damaged, and written again with their names alone',
    cure: 'their DEL works as before; a pod that is made anew has a whole record',
  },
  'other-host': {
    group: 'network',
    severity: 'note',
    meaning: 'attachments of another host network namespace are in this state; they were not looked at',
    cause: 'trestle was called from another network namespace, with the same /run/trestle',
    cure: 'run doctor there',
  },
} as const satisfies Readonly<Record<string, DoctorCheck>>
