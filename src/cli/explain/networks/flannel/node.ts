// SPDX-License-Identifier: Apache-2.0
// Of flanneld: where an error of the API server, of etcd or of the kernel stopped it.

import { type KnownError, oneOf } from '../../known/known-error.ts'

/** Errors of flanneld around another's. */
export const flannelNodeErrors: readonly KnownError[] = [
  {
    id: 'flannel-start',
    pattern: oneOf(
      /Unable to set NodeNetworkUnavailable to False|Subnet watch failed|could not watch (?:subnet )?leases|\bWatch (?:subnets|networks): /,
      /failed to retrieve (?:subnet leases|networks)\b|Failed to establish etcd watch channel|error recreating etcd client/,
      /Failed to create (?:SubnetManager|NetworkManager): ?|Error registering network: ?|Error fetching backend: ?/,
      /(?:registering network: |flannel[^\n]{0,80})failed to acquire lease: ?|error retrieving pod spec for '|error creating network manager: ?/,
      /(?:fail to|unable to) create (?:kubernetes|k8s) config: ?|node name not present in pod spec/,
      /flannel[^\n]{0,120}unable to initialize (?:inclusterconfig|client)|CompleteLease execute error/,
      /Failed to write subnet file|Failed to (?:create|recreate) vxlan(?: device)?\b(?! interface on)|failed to configure interface flannel/,
      /Failed to check br_netfilter: ?|Error renewing lease \(trying again/,
      /(?:(?:flannel|extension|subnet)[^\n]{0,200}failed to run command:|failed to run command: (?:tailscale|wg|ip)) [^\n]{1,200} Err: [^\n]{1,160}/,
    ),
    who: 'flanneld',
    meaning:
      'flanneld ended, or tries again, while it registers this node: pods of it wait for /run/flannel/subnet.env',
    causes: [
      'the API server or etcd does not answer, or refuses its token or its role',
      'the kernel does not make its device, or another network has it',
      'the node has no range for pods, or one outside of the Network of net-conf.json',
      '"failed to run command": that of the backend extension (tailscale of k3s) ended so; its Output says why',
    ],
    look: [
      'kubectl -n kube-flannel logs ds/kube-flannel-ds --tail=30',
      "kubectl get nodes -o custom-columns='NODE:.metadata.name,PODCIDR:.spec.podCIDR'",
    ],
    cure: 'do what the words behind it say; flanneld tries again by itself',
    wraps: true,
  },
  {
    id: 'flannel-backend-differs',
    pattern: /ignoring non-[\w-]{1,20} (?:subnet|event|v4Subnet)[^\n]{0,120}/i,
    who: 'flanneld',
    meaning: 'another node has another backend in its entry, so this node makes no route to the pods there',
    causes: [
      'the backend (Type of net-conf.json) was changed, and flanneld of some nodes not restarted since',
      'a node has its own configuration: k3s with another --flannel-backend, an older file',
      'the other node is gone, and its entry is left from before',
    ],
    look: [
      "kubectl get nodes -o yaml | grep -e 'flannel.alpha.coreos.com/backend-type' -e ' name:'",
      'kubectl -n kube-flannel get cm kube-flannel-cfg -o yaml | grep -A3 Backend',
    ],
    cure:
      'restart flanneld of the nodes with the other type (kubectl -n kube-flannel delete pod …, k3s: restart the ' +
      'agent), so that all have that of net-conf.json; a node that is gone: kubectl delete node NODE',
  },
  {
    id: 'flannel-node',
    pattern: oneOf(
      /no nftables support|failed to (?:setup|remove) (?:ipv[46] )?peer \(|failed to add ipv[46] route to \(|failed to open wgctrl/,
      /could not (?:remove wireguard device|generate private key|write key file)/,
      /Add(?:V6)?(?:ARP|FDB) failed|Del(?:V6)?(?:ARP|FDB) failed|(?:Add L[23]|AddL3|Delete L2) failed|fail(?:ed)? to (?:add|delete) (?:v6 )?vxlanRoute/i,
      /(?:Error|Effor) (?:adding|deleting|deleteing|recovering) (?:v6 |ipv6 )?route to \{?[^\n]{1,120}/,
      /Error fetching route list\. Will automatically retry|error fetching L2 table/,
      /(?<!proxier\.go:\d{1,4}\] "?|node\.go:\d{1,4}\] )Failed to (?:setup|set up|ensure|bootstrap) (?:masq|iptables|IPTables|IP6Tables|ip6tables|blackhole)[^\n]{0,60}/,
      /flannel[^\n]{0,160}(?:error setting up rules|error checking rule existence|failed to apply partial iptables-restore|unable to teardown iptables|Failed to recycle IP6?Tables rules)/,
      /error (?:loading (?:shared key|connection) into|unloading) (?:IKE|charon)[^\n]{0,60}|Failed to (?:acquire|close) Vici client[^\n]{0,80}/,
      /Some iptables rules are missing; deleting and recreating/,
      /Error starting charon daemon|error adding ipsec (?:out|in|fwd)? ?policy|Failed to load PSK/,
      /failed to (?:add|get) (?:peer(?!s\b)|wireguard)(?! (?:index|idx|end)\b| [\d.a-f:]+(?: |: rpc|$))[^\n]{0,60}|could not (?:create wireguard interface|setup wireguard)/,
    ),
    who: 'flanneld',
    meaning: 'flanneld runs, and the kernel did not take a route, a neighbour or a rule that leads to other nodes',
    causes: [
      'the device flannel.1 went down or was removed: NetworkManager, networkd, another network',
      'host-gw: the other node is not in the same layer 2 network, so it is no next hop',
      '"Replacing existing route" and then "no such process": an old flannel takes away the new route in place of ' +
        'the old one; update it, and until then ip route del the old one',
      'iptables is held by another program, or of another kind than its rules',
    ],
    look: ['ip -d addr show flannel.1; ip route | grep -i flannel', 'bridge fdb show dev flannel.1 | head'],
    cure: 'do what the words behind it say; when flannel.1 is gone, restart the flannel pod of this node',
    wraps: true,
    // Cilium's agent says the same of its peers.
    unless: / (?:subsys|module)=/,
  },
]
