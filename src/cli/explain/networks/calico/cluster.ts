// SPDX-License-Identifier: Apache-2.0
// Of Calico beyond one node: its pools, the blocks of nodes that are gone, and what confd writes for BIRD.

import { type KnownError, oneOf } from '../../known/known-error.ts'

/** Errors of Calico's controllers, its operator and its BGP configuration. */
export const calicoClusterErrors: readonly KnownError[] = [
  {
    id: 'calico-block-not-empty',
    pattern: oneOf(
      /IPs that are allocated in IPAM but not actually in use/,
      /\bblock '[\da-f.:]+\/\d+' is not empty|Block must be empty but is not empty/,
      /unable or unwilling to release affinity for block/,
      /Failed to release block affinities for node\b(?![^\n]{0,200}(?:timeout|refused|deadline|forbidden))/,
      /Leaked IP address was not successfully garbage collected|Failed to garbage collect one or more leaked IP|Confirmed IP leak\b(?<!Allocation no longer valid[\s\S]{0,400})/,
      /Can(?:not|'t) clean ?up node yet\b|IP allocation on node is from an unknown source/,
      /Couldn't release all IPs|Couldn't clean up node|mismatched cluster GUID/,
    ),
    who: 'calico-kube-controllers, calicoctl',
    meaning: 'a block of addresses stays with its node, because some of its addresses are still given out',
    causes: [
      'the node is gone, and addresses of its pods were not given back: the controller frees them after a while',
      'addresses leaked: their pods ended without a DEL',
      'a pod that runs elsewhere has an address from that block',
    ],
    look: ['calicoctl ipam show --show-blocks', 'calicoctl ipam check --show-problem-ips'],
    cure:
      'nothing when it goes away within the hour; else calicoctl ipam check -o report.json, and calicoctl ipam ' +
      'release --from-report=report.json',
  },
  {
    id: 'calico-pool',
    pattern: oneOf(
      /IPPool \S+ is not within the platform's configured pod network CIDR[^\n]{0,120}/,
      /could not resolve CalicoNetwork IPPool and [^\n]{1,40} (?:configuration|network)/,
      /kubeadm configuration is missing required podSubnet field/,
      /IP ?pool\S* CIDR overlaps with (?:an? )?(?:IP ?pool|other)|IP pool CIDR is not strictly masked/,
      /IP pool size is too small[^\n]{0,60}block size|IPv[46] (?:IP )?pool block ?size must be/,
      /IP pool \S+ is specified more than once|Cannot update an IP pool not owned by the operator/,
      /Invalid (?:CIDR specified in CALICO_IPV[46]POOL_CIDR|blocksize \d+ for version|node selector '[^'\n]{0,80}' for version)/,
      /Unrecognized (?:IPIP|VXLAN) mode specified in CALICO_|IP pool nodeSelector (?:\([^)\n]{1,40}\) )?should\b/,
      /IP pool (?:encapsulation must be none|\S+ AllowedUse LoadBalancer cannot|disable bgp export must be false)|skipping pool \S+ due to blockSize/,
      /Invalid configuration with NO_DEFAULT_POOLS|encapsulation is not supported by IPv6 pools/,
      /Failed to create default IPv[46] IP pool: (?![^\n]{0,160}(?:timeout|refused|Unauthorized|forbidden))[^\n]{1,100}/,
    ),
    who: 'the operator of Calico, calico-node or calicoctl',
    meaning: 'an IPPool is none that Calico takes here: its range or its block size does not fit',
    causes: [
      "the pool is not within the cluster's range for pods (podSubnet of kubeadm, --cluster-cidr)",
      'two pools overlap, or the address has host bits (10.1.2.3/16)',
      'the pool is smaller than one block (/26 for IPv4, /122 for IPv6)',
    ],
    look: [
      'kubectl get installation default -o yaml | grep -A12 ipPools',
      'kubectl -n kube-system get cm kubeadm-config -o yaml | grep -i subnet',
      'kubectl get ippools.crd.projectcalico.org -o wide',
    ],
    cure: 'give the Installation (or CALICO_IPV4POOL_CIDR) a range within that of the cluster, and that no pool has',
  },
  {
    id: 'calico-version',
    pattern: /version mismatch\.\s+Client Version: +\S+ Cluster Version: +\S+|Use --allow-version-mismatch to override/,
    who: 'calicoctl',
    meaning: 'calicoctl is of another release than Calico in the cluster, and does nothing then',
    causes: ['Calico was updated, and the program on this machine was not, or the other way round'],
    look: ['calicoctl version --allow-version-mismatch'],
    cure: 'install the calicoctl of the release that the message names; --allow-version-mismatch only to look',
  },
  {
    id: 'calico-bird-config',
    pattern: oneOf(
      /\bbird6?: \S*bird6?\S*\.cfg, line \d+: [^\n]{1,100}|\bbird6?: \S*bird6?\S*\.cfg:\d+:\d+ [^\n]{1,100}/,
      /\bbird6?: Unable to open configuration file[^\n]{0,100}/,
      /\/bird6?(?:_\w+)?\.cfg, line \d+:? [^\n]{1,100}/,
      /Error from (?:checkcmd|reloadcmd)(?: "[^"]*")?: ?"[^\n]{0,160}|(?:confd|bird)[^\n]{0,200}Template processing error/,
      /(?:cannot|unable to) process template (?:resource )?\S*(?:confd|bird|peerings|cidr)[^\n]{0,120}|Only internal neighbor can be RR client/,
      /Can't read password (?:for BGPPeer|referenced by BGP Configuration) \S+|(?:confd|BGP)[^\n]{0,120}secret \S+ does not have key/,
      /template: \S{0,80}\b(?:bird|tunl)\S{0,16}\.(?:cfg|toml|template)[\w.]{0,20}:\d+(?::\d+)?: (?:executing )?[^\n]{1,160}/,
      /confd[^\n]{0,120}(?:Config check failed|in BGPFilter)|The AS number specified in the environment \(AS=/,
      /Problem parsing (?:global )?AS number|Bad value for (?:BGP Configuration key|BGPPeer resource|BGPConfiguration)/,
    ),
    who: 'BIRD or confd, in calico-node',
    meaning: 'BIRD refuses the configuration that calico-node wrote for it, and keeps the one of before',
    causes: [
      'a BGPPeer, a BGPConfiguration or a node has values that do not fit: a route reflector in another AS',
      '"key does not exist": a node has no address in the data: it is there under two names, a short and a full one',
      'a name or a password with characters that BIRD does not take',
      'the Secret of a password is not there, or calico-node may not read it (its role in that namespace)',
      'a template of your own (a ConfigMap over /etc/calico/confd) is for another release',
    ],
    look: [
      'kubectl get bgppeers,bgpconfigurations -o yaml; calicoctl get nodes -o wide',
      'kubectl -n kube-system exec ds/calico-node -c calico-node -- grep -n "" /etc/calico/confd/config/bird.cfg',
    ],
    cure: 'correct the object behind the line that the message names; calico-node writes the file again at once',
  },
]
