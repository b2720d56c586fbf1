// SPDX-License-Identifier: Apache-2.0
// Of the speakers of BGP on a node: BIRD in calico-node, GoBGP in kube-router.

import { type KnownError, oneOf } from '../known/known-error.ts'

/** Errors of BIRD and GoBGP. */
export const bgpErrors: readonly KnownError[] = [
  {
    id: 'bird-kernel',
    pattern: oneOf(
      /\bbird6?: (?:Netlink: [A-Z][A-Za-z ]{3,60}|Netlink recvmsg: |Kernel dropped some netlink messages|nl_\w+: )/,
      /\bbird6?: (?:KRT: (?:Received|Error sending) (?:route|strange)|KIF: (?:Malformed|Invalid|Received))[^\n]{1,100}/,
    ),
    who: 'BIRD, in calico-node',
    meaning: 'BIRD could not write the route to another node, or found one in the kernel that it does not understand',
    causes: [
      '"No route to host", "Network is unreachable": the other node is behind a router, so it is no next hop: ' +
        'the IPPool has neither IP in IP nor VXLAN',
      '"Network is down": tunl0 or the interface of the node went down at that moment',
      '"strange next-hop", "unknown ifindex": another program made that route: harmless for BIRD',
      '"dropped some netlink messages": very many routes changed at once; BIRD looks again: harmless',
    ],
    look: [
      'ip route | grep bird; ip -d link show tunl0',
      'kubectl get ippools.crd.projectcalico.org -o yaml | grep -i mode',
    ],
    cure:
      'nodes in several subnets: ipipMode or vxlanMode CrossSubnet in the IPPool; running pods keep the larger ' +
      'MTU until they are made anew; the harmless ones need nothing',
  },
  {
    id: 'bird-slow',
    pattern: /\bbird6?: (?:I\/O loop cycle took \d+ ms|Event \S+ \S+ took \d+ ms|Time jump, delta )/,
    who: 'BIRD, in calico-node',
    meaning: 'BIRD did not get the processor for seconds: when it takes longer than the hold time, BGP sessions break',
    causes: [
      'calico-node has a low CPU limit, or the node is loaded or swaps',
      'very many routes or peers: a full mesh of more than 100 nodes',
      '"Time jump": the machine was paused, or its clock set',
    ],
    look: ['kubectl top pods -A -l k8s-app=calico-node', 'uptime; vmstat 1 3'],
    cure:
      'take the CPU limit of calico-node away; for many nodes route reflectors: first the reflectors and their ' +
      'BGPPeers, and only when their sessions are up nodeToNodeMeshEnabled: false',
  },
  {
    id: 'bgp-session',
    pattern: oneOf(
      /msg="?(?:sent|received) notification"?[^\n]{0,200}(?:BGP_FSM_\w+|Topic=Peer)/,
      /msg="?(?:hold timer expired|Peer Down|graceful restart timer expired|Closed an accepted connection|prefix limit reached)"?[^\n]{0,200}(?:BGP_FSM_\w+|Topic=Peer|Key=)/,
      /Session will be reset due to malformed BGP/,
    ),
    who: 'GoBGP, in kube-router and others',
    meaning: 'a BGP session of this node ended or did not come up, so routes of that peer are missing',
    causes: [
      'Code=2: both sides expect another: the AS number, the address (router id) or what each can do',
      '"hold timer expired", Code=4: the peer did not answer in time: a loaded node, a firewall, a lost link',
      'Code=6: the peer ended it itself: a restart, a limit of prefixes, it does not know this node',
    ],
    look: [
      'kubectl -n kube-system get pods -o wide -l k8s-app=kube-router',
      'kubectl -n kube-system exec POD -- gobgp neighbor ADDRESS',
      'ss -tn sport = :179 or dport = :179',
    ],
    cure: 'give both sides the same AS numbers and passwords, and let 179/tcp pass; one that ends once comes back',
  },
]
