// SPDX-License-Identifier: Apache-2.0
// Of Cilium between nodes and clusters: encryption, ClusterMesh, BGP.

import { type KnownError, oneOf } from '../../known/known-error.ts'

const agentLog = 'kubectl -n kube-system logs ds/cilium -c cilium-agent --tail=80'

/** Errors of Cilium between nodes and between clusters. */
export const ciliumClusterErrors: readonly KnownError[] = [
  {
    id: 'cilium-encryption',
    pattern: oneOf(
      /(?:Failed|unable) to (?:load|start|read) IPsec key ?(?:file|watcher)[^\n]{0,160}|failed to start IPsec keyfile watcher[^\n]{0,160}/,
      /(?:missing IPSec keys?|(?:global )?IPSec key missing|encryption key space exhausted|zero is not a valid key)\b[^\n]{0,120}/,
      /invalid SPI: changing IPSec keys[^\n]{0,80}|invalid key rotation: [^\n]{1,60}|IPsec secret is not a number|too many fields in the IPsec secret/,
      /unable to decode (?:AEAD key|authentication key|authkey|enckey|encryption key) string[^\n]{0,80}|ICV ?len(?:gth)?s? (?:is|are|accepts|96)[^\n]{0,60}/,
      /IPsec enable failed[^\n]{0,120}|Failed to (?:set IPsec SPI|reinitialize IPsec)[^\n]{0,120}|unable to setup encryption[^\n]{0,160}/,
      /Ipsec default interface lookup failed[^\n]{0,120}|external IPv4 node address is required when IPSec is enabled/,
      /failed to initialize wireguard(?: agent)?[^\n]{0,160}|Failed to set up wireguard peers[^\n]{0,160}|Failed to update WireGuard (?:peer|configuration)[^\n]{0,160}/,
      /failed to (?:load|save|generate) wg private key[^\n]{0,120}|detected duplicate public key\. node[^\n]{0,120}/,
      /(?:Failed|Unable|Cannot) (?:to )?(?:add|delete|clean ?up|re-add|list|remove|replace|get|deprioritize)[^\n]{0,40}(?:\bXFRM\b|IPSec route|encryption rule)[^\n]{0,240} (?:subsys|module)=/,
      /failed to add wireguard device[^\n]{0,240} (?:subsys|module)=/,
      /(?:IPSec|encryption)[^\n]{0,80}requires support for xfrm state(?![^\n]{0,120}(?:not supported|not implemented))[^\n]{0,120}/,
    ),
    unless: /antrea|\bwireguard\/client_linux\.go/i,
    who: 'the cilium agent, with encryption',
    meaning: 'the encryption between nodes (IPsec or WireGuard) could not be set up on this node',
    causes: [
      'IPsec: the secret cilium-ipsec-keys is missing, is no "SPI algorithm key length", or was changed without ' +
        'a higher number in front',
      'IPsec keeps states of a node that is gone, or of other keys',
      'WireGuard: the key file in /var/run/cilium was copied with the image of the machine, or cannot be written',
      'the kernel lacks it: wireguard, xfrm, or the algorithm; or an update of it changed xfrm, and this release of ' +
        'Cilium probes it in the old way ("requires support for xfrm state output masks" on a kernel that has them)',
    ],
    look: [
      'kubectl -n kube-system get secret cilium-ipsec-keys',
      'modprobe -a wireguard esp4 esp6 xfrm_user',
      `${agentLog} | grep -i -e ipsec -e xfrm -e wireguard`,
    ],
    cure:
      'correct the secret, with a number one higher than before (1 again after 15), and wait until every agent ' +
      'has read it; a copied key file: remove it and restart the agent of that node, whose encrypted traffic ' +
      'stops until the others know the new key',
    wraps: true,
  },
  {
    id: 'cilium-clustermesh',
    pattern: oneOf(
      /cluster ?ID \d+ is (?:already used|reserved|assigned to the local cluster|too large)|ClusterID > \d+ is not supported|invalid cluster id \d+: must be[^\n]{0,60}/,
      /remote cluster is missing cluster configuration|cluster configuration expected to be present but not found/,
      /mismatched MaxConnectedClusters[^\n]{0,60}|cannot use default cluster name \([^\n]{1,60}|remote Cluster(?:ID|Name) \([^)\n]{1,40}\) does not match[^\n]{0,60}/,
      /(?:cilium|clustermesh-apiserver)-\S{1,60} is not connected to cluster \S{1,40}: [^\n]{1,160}|\d+\/\d+ (?:nodes|KVStoreMesh replicas) are not connected to all clusters/,
      /remote cluster configuration (?:required but not found|retrieval status unknown)|KVStoreMesh not being connected to the given cluster/,
      /timeout while waiting for all clusters to be locally synchronized|Unable to initialize ClusterMesh[^\n]{0,160}/,
      /failed to (?:retrieve|propagate|write|detect whether the) cluster configuration[^\n]{0,160}|is KVStoreMesh running and serving/,
      /(?:ClusterMesh|KVStoreMesh): +(?!(\d{1,3})\/\1 )\d{1,3}\/\d{1,3} (?:remote )?clusters ready|\betcd cluster ID has changed|Cannot connect to remote cluster\b[^\n]{0,120}/,
    ),
    who: 'the cilium agent, in a ClusterMesh',
    meaning: 'this cluster and another one of the mesh do not agree on their settings, or one is not ready',
    causes: [
      'two clusters have one cluster.id or one cluster.name, or the default name with an id',
      'maxConnectedClusters differs between them',
      'KVStoreMesh of this cluster has no connection to the other one: its address (two clusters with one), its ' +
        'certificate (a CA that the other side does not know), a firewall (2379)',
      'the clustermesh-apiserver of the other cluster is down, starts still, or is of a release too far apart',
    ],
    look: [
      'kubectl -n kube-system get cm cilium-config -o yaml | grep -e cluster-id -e cluster-name -e max-connected',
      'kubectl -n kube-system exec ds/cilium -c cilium-agent -- cilium-dbg troubleshoot clustermesh',
      'kubectl -n kube-system logs deploy/clustermesh-apiserver -c kvstoremesh --tail=40',
    ],
    cure:
      'give each cluster an id and a name of its own before it has pods (later all of them have to be restarted), ' +
      'and the same maxConnectedClusters',
    wraps: true,
  },
  {
    id: 'cilium-bgp',
    pattern: oneOf(
      /BGP reconciliation (?:failed|error)[^\n]{0,160}|(?:Failed to start|Error while registering new) BGP server[^\n]{0,160}/,
      /Encountered error (?:reconciling (?:virtual router|BGP instance)|during reconciliation" )[^\n]{0,160}|Error creating new BGP speaker[^\n]{0,120}/,
      /failed to (?:add|update|remove|delete|reset) (?:neighbor|neigbhor|peer) \S+ in instance [^\n]{1,160}|could not find existing peer with ASN: [^\n]{1,80}|failed while reconciling neighbor [^\n]{1,120}/,
      /Failed to fetch secret[^\n]{0,60}: not found \(will continue with (?:empty password|old secret)\)|bgp-secrets-namespace not set/,
      /BGP control plane cannot be utilized with IPAM mode[^\n]{0,60}|failed to instantiate BGP Control Plane[^\n]{0,120}/,
      /more then? one CiliumBGP\w+|BGP peering policy selection failed[^\n]{0,120}|as number mismatch expected \d+, received \d+[^\n]{0,240}(?:subsys|module)=/,
    ),
    // Antrea and Kube-OVN use the same library, and its words.
    unless: /antrea|kube-?ovn|\bbgp\/controller\.go|\bbgp_?controller\.go/i,
    who: "the cilium agent, of Cilium's BGP",
    meaning: 'the agent could not do what the BGP settings of this node ask for, so its peers miss routes',
    causes: [
      'two settings choose the same node, or name one peer or one AS number twice',
      '"could not find existing peer": the AS number of a peer was changed while its session ran; restart the agent ' +
        'of this node, which opens its sessions anew, or update Cilium',
      'the Secret with the password of a peer is not in the namespace of bgp-secrets-namespace',
      'IPv6 only: the node has no router id (routerID in a CiliumBGPNodeConfigOverride; with a ' +
        'CiliumBGPPeeringPolicy the annotation cilium.io/bgp-virtual-router.ASN="router-id=ADDRESS")',
    ],
    look: [
      'for k in ciliumbgpclusterconfigs ciliumbgppeerconfigs ciliumbgpnodeconfigs ciliumbgppeeringpolicies; ' +
        'do kubectl get $k -o yaml 2>/dev/null; done',
      'kubectl -n kube-system exec POD-OF-THE-NODE -c cilium-agent -- cilium-dbg bgp peers',
    ],
    cure: 'correct the object that the words behind it name; then the agent goes on by itself',
    wraps: true,
  },
  {
    id: 'cilium-health',
    pattern: oneOf(
      /Cluster health: +(?!(\d{1,4})\/\1 )\d{1,4}\/\d{1,4} reachable[^\n]{0,60}/,
      /(?:ICMP to stack|HTTP to agent): +(?:Connection timed out|Get "?http[^\n]{1,160})/,
    ),
    who: 'cilium-health, in `cilium-dbg status`',
    meaning: 'this node does not reach another node, or a pod on it, by the way that pods take',
    causes: [
      'the nodes do not let each other through: 4240/tcp, ICMP, and the tunnel (8472/udp VXLAN, 6081/udp Geneve, ' +
        '51871/udp WireGuard, protocol 50 IPsec)',
      'with native routing: no route to the ranges of the other node',
      'the other node is down, or its CiliumNode is left of a machine that is gone',
    ],
    look: [
      'kubectl -n kube-system exec ds/cilium -c cilium-agent -- cilium-health status --probe',
      'kubectl get ciliumnodes,nodes -o wide',
    ],
    cure: 'open these ports between the nodes (in the security groups of the cloud as well), or add the routes',
  },
]
