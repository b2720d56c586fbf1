// SPDX-License-Identifier: Apache-2.0
// Of agents that fewer clusters have: speakers of BGP, Contiv, Submariner.

import type { KnownError } from '../known/known-error.ts'

/** Errors of further agents. */
export const otherAgentErrors: readonly KnownError[] = [
  {
    id: 'bgp-peer-unknown',
    pattern: /can't find configuration for a new passive connection(?: from)?[^\n]{0,80}/i,
    who: 'GoBGP, in kube-router, Cilium and others',
    meaning: 'a router or node opens a BGP session to this node, which has no peer of that address: it is refused',
    causes: [
      'the other one knows this node already, and this one not yet that: harmless right after a start',
      'the peer comes from another of its addresses than the one that is configured here',
      'it is no node of the cluster (any more), or not in its full mesh',
    ],
    look: ['kubectl get nodes -o wide', 'gobgp neighbor 2>/dev/null; ss -Htn sport = :179'],
    cure: 'nothing when it ends after a minute; else give both sides the addresses that they really use',
  },
  {
    id: 'contiv-endpoint',
    pattern: /Error creating EP; Err: [^\n]{1,60}/i,
    who: 'the plugin of Contiv',
    meaning: 'netplugin of this node could not make the endpoint of the pod; the words behind "Err" say why',
    causes: [
      '"Flow … already exists": the flows of a pod that had the address before were left in Open vSwitch',
      'its DEL did not come through, or the pod was moved by force',
    ],
    look: [
      'kubectl -n kube-system get pods -o wide | grep contiv',
      'ovs-ofctl -O OpenFlow13 dump-flows contivVlanBridge',
    ],
    cure: 'restart the netplugin pod of this node, which writes its flows anew. Contiv has no maintainer any more',
  },
  {
    id: 'submariner-interface',
    pattern: /unable to find CNI Interface on the host which has IP from [^\n]{1,80}/i,
    who: 'the gateway or route agent of Submariner',
    meaning: "no interface of this node has an address from the cluster's range, by which Submariner finds the pods",
    causes: [
      'the network gives the node itself no address of that range (Calico and Cilium with routes alone, OVN)',
      'the cluster range that was given to `subctl join` is not that of the pods',
      'no pod runs on the node yet, so that flannel or bridge have not made cni0',
    ],
    look: ['ip -br addr', "kubectl get nodes -o custom-columns='NODE:.metadata.name,PODCIDR:.spec.podCIDR'"],
    cure: 'join with the right --clustercidr; where the network has no such interface, with --health-check=false',
  },
]
