// SPDX-License-Identifier: Apache-2.0
// Of address management that knows the whole cluster.

import { type KnownError, oneOf } from './known-error.ts'

/** Errors of whereabouts and other pools of a cluster. */
export const clusterAddressErrors: readonly KnownError[] = [
  {
    id: 'whereabouts-full',
    pattern:
      /Could not allocate IP in range: ip[^\n]{0,80}|error at storage engine ?[:-] could not allocate IP in range|no allocated node slice for node/i,
    who: 'whereabouts',
    meaning: 'the IPPool of this range has no free address',
    causes: [
      'addresses of dead pods are still in the pool: a node that crashed, a pod that was removed by force',
      '`exclude` covers the whole range: it takes networks, so 10.1.2.5/24 excludes all of 10.1.2.0/24',
      'the range is too small',
    ],
    look: ['kubectl get ippools.whereabouts.cni.cncf.io -A -o yaml | grep podref'],
    cure:
      'let its reconciler run (whereabouts 0.6 and later), or delete the entries of pods that are gone from the ' +
      'IPPool; write single addresses in exclude as /32',
  },
  {
    id: 'whereabouts-no-reservation',
    pattern: /did not find reserved IP for container/,
    who: 'whereabouts',
    meaning: 'a DEL came for a container that has no address: the ADD before it failed',
    causes: ['the ADD of the same container failed: its error counts', 'a second DEL for the same pod'],
    look: ['grep -B5 "did not find reserved IP" /var/log/whereabouts.log | tail'],
    cure: 'nothing for this one; look for the error of the ADD. Versions before 0.5 failed the DEL with it: update',
  },
  {
    id: 'cilium-full',
    pattern: oneOf(
      /postIpamFailure[^\n]{0,120}|(?:IPs to become available in CRD-backed allocation pool|initial IP to become available in)|unable to allocate IP via local cilium agent/,
      /cilium[^\n]{0,160}(?:no more IPs available|CIDR ranges (?:are )?exhausted|Failed to allocate PodCIDRs to node|range is full)/,
      /IPAM did (?:not )?provide (?:neither )?IPv4 n?or IPv6 address|Invalid IPAM response, missing addressing|IP allocation addressing i[sn] insufficient/,
      /cilium\.link\/ipam-range-full|pool not \(yet\) available|unable to determine IPAM pool for owner[^\n]{0,80}|cannot (?:allocate from|reuse from) non-existing pool/,
      /skipping too-small pod CIDR|failed to allocate ipv[46] address for node[^\n]{0,120} from pool [^\n]{0,60}: pool empty|allocator \S+\/\d{1,3} full\b/,
    ),
    who: 'the cilium plugin',
    meaning: 'the agent of this node has no address for the pod',
    causes: [
      '"range is full": as many pods as the PodCIDR of the node has addresses',
      'the operator does not run, so the node gets no further range or ENI',
      'with pools (multi-pool): the CiliumPodIPPool that the pod or its namespace names is not there, or this node ' +
        'has no part of it yet',
    ],
    look: [
      'kubectl get ciliumnodes -o yaml | grep -A3 podCIDRs',
      'kubectl -n kube-system get pods -l name=cilium-operator',
    ],
    cure:
      'make the operator run; else give the nodes larger ranges (clusterPoolIPv4MaskSize, for new nodes) or fewer ' +
      'pods',
  },
  {
    id: 'whereabouts-busy',
    pattern:
      /time limit exceeded while waiting to become leader|at storage engine: (?:k8s pool initialized|context deadline exceeded)/,
    who: 'whereabouts',
    meaning: 'so many pods ask for an address at once that this one did not get its turn',
    causes: [
      'one lease in kube-system orders all calls of the cluster: many pods, or a slow API server',
      'the lease is held by a node that is gone, until it expires',
    ],
    look: ['kubectl -n kube-system get lease whereabouts -o yaml', 'tail /var/log/whereabouts.log'],
    cure: 'the next try mostly works; else start fewer pods at once, or use node slices (whereabouts 0.8 and later)',
  },
  {
    id: 'antrea-full',
    pattern: oneOf(
      /all IPPools exhausted|no valid IPPool found for configured pools/,
      /type="antrea"[^\n]{0,160}(?:no available IP|not enough available IPs)\b/,
    ),
    who: 'the antrea plugin',
    meaning: 'no IPPool of Antrea that the pod or its namespace names has a free address',
    causes: ['more pods than addresses', 'the annotation ipam.antrea.io/ippools names a pool that is not there'],
    look: ['kubectl get ippools.crd.antrea.io', 'kubectl get ns NAMESPACE -o yaml | grep ippools'],
    cure: 'give the pool a further range, or name another one',
  },
  {
    id: 'whereabouts-storage',
    pattern: oneOf(
      /failed to update the reservation list: [^\n]{1,100}/,
      /the server rejected our request due to an error in our request/,
      /Error at storage engine: (?!Could not allocate)[^\n]{1,120}/,
      /IPAM (?:client initialization|connectivity) error[^\n]{0,100}/,
      /IPAM error (?:getting|reading|updating)[^\n]{0,120}|k8s (?:get|create)(?: OverlappingRangeIPReservation)? error: [^\n]{1,120}/,
      /Error (?:getting cluster wide IP allocation|performing UpdateOverlappingRangeAllocation|parsing node slice)[^\n]{0,120}/,
      /failed to (?:list all OverLappingIPs|retrieve all IP pools|get the IPPool data|create the reconcile looper|clean ?up (?:IP for )?allocations?|remove cluster wide IP)[^\n]{0,120}/,
      /could not reconcile cluster wide IPs[^\n]{0,120}|error (?:getting|finding) node (?:slice|within node slice)[^\n]{0,120}/,
      /GetIPRange request failed with: [^\n]{1,120}|failed to create Kubernetes IPAM manager[^\n]{0,120}/,
      /k8s config: namespace not present in context|failed to implicitly generate the kubeconfig[^\n]{0,120}/,
      /could not reconcile IP: [^\n]{1,120}|failed to garbage collect addresses for pod/,
    ),
    who: 'whereabouts',
    meaning: 'whereabouts could not read or write its pools in the API server',
    causes: [
      'the API server does not answer, or its kubeconfig (/etc/cni/net.d/whereabouts.d) has an old token',
      'its CRDs (ippools, overlappingrangeipreservations) are missing, or its role may not use them',
    ],
    look: ['kubectl get crd | grep whereabouts', 'tail /var/log/whereabouts.log'],
    cure: 'apply the manifests of whereabouts of one release; restart its pod here, which writes its kubeconfig',
    wraps: true,
  },
]
