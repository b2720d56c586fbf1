// SPDX-License-Identifier: Apache-2.0
// Whether a text is about the network of pods: words that other programs print, too, count only there.

import { agentWords } from './agents/agent-words.ts'
import { oneOf } from './known/known-error.ts'

/** Words of the network of pods; those of single agents are apart (agents/agent-words.ts). */
const aboutNetworks = oneOf(
  /\bcni\d*\b|cni-|CNI_|plugin type=|network (?:for (?:pod|sandbox)|namespace|sandbox|plugin)|netplugin/,
  /networkPlugin|pod network|setup network|sandbox container [^\n]{1,160} network\b|\bnetwork: "?Unauthorized|netns|multus|flannel|calico|cilium|antrea|kube-ovn|whereabouts/,
  /spiderpool|netavark|IPAM|IP ranges|conflist|net\.d\b|cniVersion|configuration list|kube-router|weave/,
  /azure-vnet|sriov|ovn-?k|aardvark|kubenet|felix|typha|\bHNS\b|openshift-sdn|terway|ztunnel/,
  /(?:adding|removing|deleting|checking) (?:container|pod)\b[^\n]{0,120} (?:to|from|for) network\b/,
  /endpoint \S+ on network\b|network (?:controller|sandbox)|sandbox add|sandbox join|\bveth[\da-z]{4,}\b/,
  /CreateNetwork(?!Interface)|default "bridge" network|pre-run hook "network"|\bnft(?:ables)?\b|address pool/,
  /Pool overlaps with other one|\bsubnets? (?:"?[\d.a-f:]+\/\d|pools?\b)|cannot create network|\bcbr0\b/,
  /exec: "(?:\/\S*\/)?(?:brctl|conntrack|ipset|e[bt]+ables|arptables|ethtool|tc|ip)": /,
  /Error: Could not process rule: |\b(?:ip6?|eb|arp)tables\b|Link not found|CNIConfig|\bipset\b|\bip set: |RTNETLINK/,
  /\bnetlink\b|vxlan|\bdocker0\b|\bFORWARD (?:chain )?(?:\(?policy|DROP|REJECT)|hook forward priority|pod traffic/,
  /\bKUBE-(?:MARK|SVC|SEP|SERVICES|FORWARD|POSTROUTING|FIREWALL|CLUSTER-IP|NODE-?PORT|LOAD-BALANCER|EXTERNAL-IP|LOOP-BACK)/,
  /\bkube-?proxy\b|\bproxier\b|MASQUERADE\b|\bDNAT\b|slirp4netns|rootlesskit|conntrack|userland proxy/,
  /external connectivity|pair interfaces?\b|pasta failed|\bpasst\b|docker-proxy|libnetwork|\blxcbr0\b|\blxdbr\d|\bincusbr\d/,
  /(?:list|delete|add|flush) (?:table|chain|set|element) (?:inet|ip6?|bridge|netdev|arp) |unused IPv[46] subnet/,
  /Error response from daemon: Address already in use|overlaps with another network or NIC|network with name \S+ already/,
  /containernetworking\/(?:cni|plugins)|Nexthop has invalid|IP address to advertise|addresses on this pool|network IP for task|bridge device with|Network Namespace|newly created netns/,
  /\blibnftables\b|error forwarding port \d+ to pod|\bAWS_VPC_|VPC CNI|cidr_allocator|failed to allocate cidr|source-dest-check|networking\.k8s\.aws|metaserver|PodENI|\beni[- ](?:ip|id|config)|aliyun client|network already exists|containers\/networks\/|cni config\b|on another NIC|does not belong to the pool|container networking|set gateway\b/,
  /node certificate manager|ovnkube|invalid CIDR address: (?:null|nil|undefined|none)\/\d|\baws-node\b/,
  /\b(?:lxc|lxd|incus)[^\n]{0,200}\bnetwork\b|gateway while updating gateway|ingress network|lxc-(?:net|user-nic)/,
)

/** Whether a text speaks of the network of pods. */
export function speaksOfNetworks(text: string): boolean {
  return aboutNetworks.test(text) || agentWords.test(text)
}
