// SPDX-License-Identifier: Apache-2.0
// Decides whether a text is about pods' networks; words that other programs print too count only in such a text.

/** Words of CNI calls and configurations, names of networks and their parts, tools and kernel objects. */
const aboutNetworks = new RegExp(
  [
    /\bcni\d*\b|cni-|cniVersion|plugin type=|netplugin|networkPlugin|network: "?Unauthorized|pod network|setup network/,
    /network (?:for (?:pod|sandbox)|namespace|sandbox|plugin|policy|device)|netns|sandbox add|conflist|net\.d\b/,
    /configuration list|IPAM|IP ranges|range set \d|pod ?CIDR|invalid subnet -|invalid CIDR (?!address)|CIDR address: [[\w]|IPv[46] allocator|find plugin|allocating IP|allocation failed|on network/,
    /NetworkStatus|PodDelegates|register network|containernetworking|network-policy-agent|ip_forward|\bbr[_-]n(?:etfilter|f-)/,
    /multus|flannel|calico|tigera|cilium|\bsubsys=|antrea|kube-?ovn|ovn-?k|ofproto|openvswitch|whereabouts|spiderpool/,
    /kube-router|weave|kubenet|kube-?proxy|\bproxier\b|azure-(?:vnet|cns)|aws-node|ipamd|vpc-resource-controller|terway/,
    /sriov|istio-cni|linkerd-cni|danm|\bnsx\b|netavark|docker-proxy|\[(?:INFO|WARNING|ERROR|FATAL|PANIC)\]\[\d+\]/,
    /\bveth[\da-z]{4,}\b|vxlan|netlink|Link not found|Could not process rule: |\bnft\b|conntrack|\b(?:ip6?|eb)tables\b/,
    /\bDNAT\b|MASQUERADE\b|\bqdisc\b|set gateway\b|add (?:IP |new )?(?:v4 )?routes?\b|exec: "(?:\/\S*\/)?(?:brctl|ethtool|tc|ip)": /,
    /\b(?:10\.(?:\d{1,3}\.0|152\.183)|172\.(?:20|30)\.0)\.1:443\b|GLIBC_[\d.]+' not found(?! \(required)/,
  ]
    .map(({ source }) => source)
    .join('|'),
  'i',
)

/** True if a text is about pods' networks. */
export function speaksOfNetworks(text: string): boolean {
  return aboutNetworks.test(text)
}
