// SPDX-License-Identifier: Apache-2.0
// Of weave: its bridge, its policies, and rules that another program emptied.

import { type KnownError, oneOf } from '../known/known-error.ts'

/** Errors of weave on one node. */
export const weaveErrors: readonly KnownError[] = [
  {
    id: 'iptables-flushed',
    pattern: oneOf(
      /iptables canary \S+\/\S+ deleted|Inconsistent iptables state detected/,
      /Reloading after iptables flush/,
    ),
    who: 'weave, kube-proxy, kubelet',
    meaning: 'somebody emptied iptables on the node: the program saw its mark gone, and writes its rules again',
    causes: [
      'firewalld, ufw or a unit of iptables was restarted or reloaded, or a script ran iptables -F',
      'iptables was changed between its legacy and nft kind, so that one does not see what the other wrote',
    ],
    look: ['journalctl --since -1h | grep -i -e firewalld -e iptables -e ufw | tail', 'iptables -V'],
    cure:
      'kube-proxy, kubelet and agents write their rules again; what plugins wrote for a pod (host ports, ' +
      'masquerade of bridge or ptp) comes back only with a new pod: delete the pods that have lost it. When it ' +
      'comes again, end what empties them; stopping firewalld empties them once more and leaves the node ' +
      'without its firewall',
  },
  {
    id: 'weave-policy-blocked',
    pattern: /connection from \S+ to \S+ blocked by Weave NPC/,
    who: 'weave-npc',
    meaning: 'a connection was dropped, because no NetworkPolicy lets it in (or out)',
    causes: [
      'a NetworkPolicy selects the pod, and none names this sender or port',
      'the sender is no pod (a node, a load balancer): ipBlock is needed for it',
      'the pod is new, and weave-npc did not know it yet: a few such lines right after its start',
    ],
    look: ['kubectl get networkpolicy -A', 'kubectl get pods -A -o wide | grep ADDRESS'],
    cure: 'add the sender and the port to a NetworkPolicy of the pod, where the connection should be',
  },
  {
    id: 'weave-start',
    pattern: oneOf(
      /weave[^\n]{0,80}(?:Failed to (?:open pcap|start metrics|bind metrics server)|unable to allocate IP address for bridge)|\bNPC\b[^\n]{0,80}Failed to (?:open pcap|bind metrics)/,
      /weave[^\n]{0,200}(?:creating (?:bridge|datapath|dummy interface|pcap veth pair|bridged fastdp veth pair)|setting (?:proxy_arp|accept_ra to 0|tx off)|configuring (?:iptables|ARP cache on bridge)|setting (?:bridge|datapath) "[^"]*" (?:mac|mtu))/,
      /(?:clear\/create|ensure existence of) (?:filter|nat)\/WEAVE\S* chain/,
      /Interface "?\S+"? which needs to be in UP state for Weave functioning/,
      /\[kube-peers\] (?:Could not|could not|Error) [^\n]{1,60}|Unable to get initial peer set|kube-peers[^\n]{0,300}Failed to get peers\b/,
      /error contacting APIServer: [^\n]{1,240}?; trying with (?:fallback|blank env vars)[^\n]{0,40}|\d{4}\/\d\d\/\d\d \d\d:\d\d:\d\d Could not get peers: /,
      /\[boltDB\] (?:Unable to open|Cannot use persistence file)|(?:weave|\b(?:FATA|ERRO|WARN|INFO): \d{4}\/\d\d\/\d\d)[^\n]{0,200}Error persisting peers/,
      /Error while listen(?:ing|eing) on ODP datapath|Failed to install the Weave CNI plugin/,
      /\bulogd terminated|Failed to (?:start ulogd|look if ipset|retrieve list of ipsets|destroy ipset '|flush ipset ')/,
      /unable to (?:expose|re-expose \S+ on) bridge|(?:weave|\b(?:FATA|ERRO|WARN|INFO): \d{4}\/\d\d\/\d\d)[^\n]{0,200}Unable to (?:create|start) (?:http listener socket|http server|dns server|docker client|watcher)|(?:weave|\b(?:FATA|ERRO|WARN|INFO): \d{4}\/\d\d\/\d\d)[^\n]{0,200}Failed to start metrics: listen/,
      /type="weave-net"[^\n]{0,60} failed \(\w+\): (?:error setting up (?:interface|routes)|could not create veth pair|failed to move veth|unable to release IP)/,
    ),
    who: 'weave or weave-npc',
    meaning:
      'weave of this node ended while it started, or could not make its bridge, its rules or the interface of a pod',
    causes: [
      'the API server did not answer, or refused the role (kube-peers): a manifest of kubectl apply without ' +
        '-n kube-system gives it another account than the one that has the role',
      'the bridge or the data of before do not fit any more, or another program took the bridge down',
      'iptables, ipset or the module openvswitch or vxlan is missing or refuses',
    ],
    look: [
      'kubectl -n kube-system logs ds/weave-net -c weave --tail=40',
      'ip -d link show weave; lsmod | grep -e openvswitch -e vxlan',
    ],
    cure: 'do what the words behind it say; Weave has no maintainer any more: plan to leave it',
    wraps: true,
  },
]
