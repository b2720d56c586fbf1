// SPDX-License-Identifier: Apache-2.0
// Of spiderpool: its pools, its agent, and the plugins coordinator and ifacer.

import { type KnownError, oneOf } from '../known/known-error.ts'

/** Errors of spiderpool. */
export const spiderpoolErrors: readonly KnownError[] = [
  {
    id: 'spiderpool-full',
    pattern: oneOf(
      /IPPool available free IPs are not enough|no IPPool available|all IP addresses used(?: out)?/,
      /all IPv[46] IPPools [^\n]{1,160} filtered out|spec\.multusName [^\n]{1,120} is not matched with the multusCR|cluster-network multus isn't set, the IPPool/,
      /unmatched (?:Node|Namespace|Pod) \w+ of (?:auto-created )?IP?Pool|expect an IPv\d IPPool, but the version/,
    ),
    who: 'spiderpool',
    meaning: 'no SpiderIPPool that fits this pod has a free address',
    causes: [
      'the pool is as large as the replicas, and the pod of before still holds one',
      'addresses that leaked',
      'its affinity (nodes, namespaces, pods, multusName) or its family leaves this pod out; or it is disabled',
    ],
    look: ['kubectl get spiderippool', 'kubectl get spiderendpoint -A'],
    cure:
      'make the pool larger by as many addresses as pods are replaced at once; the controller frees addresses of ' +
      'pods that are gone',
  },
  {
    id: 'spiderpool-agent',
    pattern: oneOf(
      /postIpamIpFailure|getCoordinatorConfigFailure|(?:serviceCIDR|podCIDR|overlayPodCIDR) in body is required|spiderpool IP allocation error:|no pool selection rules of any type|exhaust all retries \(\d+ times\)|forbid releasing IPs for state\w+ workload|coordinator config not found|no matched multus object for NIC|no IPv[46] IPPool specified for NIC/,
      /spidercoordinator: \S+ no ready|UID mismatch detected: endpoint \S+/,
      /invalid format of Pod annotation 'ipam\.spidernet\.io\/[\w-]{1,40}'[^\n]{0,120}|wrong input, duplicate IPPool [^\n]{1,120}|SpiderSubnet feature doesn't support no-controller pod/,
      /it's invalid to use '[^'\n]{1,60}' or '[^'\n]{1,60}' annotation when Auto-Pool feature is disabled|subnet '[^'\n]{1,80}' value must equal or greater than 0|failed to get multus network for NIC \S{1,20}/,
      /no matching (?:third-party controller )?auto-created IPPool candidate|unable to get CNIType in your cluster|can't watch cilium ippools resource/,
    ),
    who: 'spiderpool',
    meaning: 'the spiderpool agent of this node answered, and refused: its words say why',
    causes: [
      'the records of a StatefulSet do not fit the pod any more: its interfaces or pools were changed',
      'an annotation ipam.spidernet.io/... of the pod is none that it reads, or wants SpiderSubnet, which is off',
      'SpiderCoordinator is not ready: it does not know the ranges of pods and services yet',
      'the API server was slow, and the retries are used up',
    ],
    look: [
      'kubectl get spiderendpoint,spidercoordinator -A',
      'kubectl -n kube-system logs ds/spiderpool-agent --tail=30',
    ],
    cure:
      'do what the quoted words name; a SpiderEndpoint that does not fit its pod goes when the pod is deleted and ' +
      'is made again',
  },
  {
    id: 'spiderpool-check',
    pattern:
      /failed to ip checking(?![^\n]{0,120}conflict)[^\n]{0,160}|failed to (?:detect|check) gateway(?! API)[^\n]{0,120}|gateway \S+ is unreachable|failed to detect IPv[46] address conflict|failed to init (?:arp|ndp) client[^\n]{0,80}/i,
    who: 'spiderpool (its coordinator plugin)',
    meaning: 'the check of the new address, or of its gateway, failed',
    causes: [
      'the gateway does not answer from there: a VLAN, or a switch or hypervisor that drops unknown MACs',
      'the interface that the check is made on is not there, or is down',
    ],
    look: ['kubectl get spidercoordinator -o yaml | grep -i -e detect', 'tcpdump -ni MASTER -e arp'],
    cure: 'let the gateway answer, or set detectGateway and detectIPConflict of SpiderCoordinator to false',
  },
  {
    id: 'spiderpool-mode',
    pattern: oneOf(
      /creating interface \S+ in (?:under|over)lay mode, it detects|podDefaultRouteNIC: \S+ don't exist in pod/,
    ),
    who: 'spiderpool (its coordinator plugin)',
    meaning: 'the coordinator stands at the wrong interface of the pod for its mode, underlay or overlay',
    causes: [
      'underlay: the coordinator is not in the definition of the first network of the pod (eth0), only in a later one',
      'overlay: it is in the definition of eth0, where the default network of the cluster has to be',
      'the definitions of one pod have different modes; or its default route is to be on an interface that it lacks',
    ],
    look: [
      'kubectl get spidermultusconfig,net-attach-def -A -o yaml | grep -A4 -i -e coordinator -e mode',
      "kubectl get pod POD -o jsonpath='{.metadata.annotations}'",
    ],
    cure:
      'give all definitions of a pod the mode auto, or one mode; enable the coordinator in each of an underlay pod, ' +
      'and not for eth0 of an overlay pod',
  },
  {
    id: 'spiderpool-ifacer',
    pattern: oneOf(
      /vlan interfaces with the same vlanId \S+ on node|createBondDevice failure: [^\n]{1,100}/,
      /invalid vlan tag \d+: vlan tag must be|failed to create(?:Vlan|Bond)Device:? [^\n]{1,120}/,
    ),
    who: 'spiderpool (its ifacer plugin)',
    meaning: 'the VLAN or the bond on the node, which is to be the master of the network, could not be made',
    causes: [
      'the node has this VLAN already, under another name or on another interface',
      'an interface of another kind has the name of the bond, or one of its members is not there',
    ],
    look: ['ip -d link show type vlan; ip -d link show type bond', 'kubectl get spidermultusconfig -A -o yaml'],
    cure: 'name the VLAN of the node as `master` in place of a second one, or choose a free name and number',
    wraps: true,
  },
]
