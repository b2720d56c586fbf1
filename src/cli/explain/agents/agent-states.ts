// SPDX-License-Identifier: Apache-2.0
// Of agents that answer, or have answered: what they keep for pods is damaged, held, or not there yet.

import { type KnownError, oneOf } from '../known/known-error.ts'

/** Errors of what agents keep. */
export const agentStateErrors: readonly KnownError[] = [
  {
    id: 'kube-ovn-gateway',
    pattern: oneOf(
      /network \S+ with gateway \S+ is not ready for interface[^\n]{0,100}|no packets received from gateway \S+/,
      /network not ready after \d+ ping[^\n]{0,60}/,
      /gateway check of \S+ (?:canceled|failed)[^\n]{0,60}|resolve MAC address of \S+ timeout[^\n]{0,60}/,
    ),
    who: 'the plugin of Kube-OVN',
    meaning: 'the pod got its address, and the gateway of its subnet does not answer a ping from there',
    causes: [
      'an underlay network: the switch or hypervisor drops frames of unknown MACs, or the VLAN is not on this port',
      'Geneve between the nodes does not pass (UDP 6081), or its MTU is too large',
      'the gateway of the subnet does not answer pings: say disableGatewayCheck there',
    ],
    look: [
      'kubectl get subnet,vlan,provider-network',
      'ovs-vsctl show',
      'kubectl -n kube-system logs ds/kube-ovn-cni --tail=30',
    ],
    cure: 'let the gateway answer from this node (tcpdump shows how far a ping gets), or set disableGatewayCheck',
  },
  {
    id: 'weave-delete',
    pattern: oneOf(
      /\[allocator[^\]\n]{0,40}\]: Delete: no addresses for/,
      /weave-cni: (?:unable to release IP address: (?:%!s\(<nil>\)|<nil>|[^\n]{0,60}Delete: no addresses for)|error removing interface "[^"\n]{1,20}": [^\n]{0,60}(?:not found|no such (?:device|network interface|file)))/,
    ),
    who: 'weave',
    meaning: 'weave was asked to free the address of a container that has none: harmless',
    causes: [
      'the container never got one (its ADD failed: that error counts), or is on the network of the host',
      'a second DEL for the same container',
    ],
    look: ['kubectl get events -A --field-selector reason=FailedCreatePodSandBox'],
    cure: 'nothing for this line; where pods do not start, look for the error of their ADD',
  },
  {
    id: 'weave-state',
    pattern: oneOf(
      /IP Allocator with different subnet detected|Incompatible IP allocation range/,
      /seed[^\n]{0,40}different peers|received[^\n]{0,60}consensus|do 'weave reset' and try again/,
      /IP allocation was seeded by different peers|Incompatible IP allocation ranges|Received invalid state update/,
      /Received update for IP range I own|says it owns the IP range from|Inconsistent entries for \S+: owned by/,
      /Received r(?:ange differs from|ing was seeded differently)|Merge of incoming data causes|(?:weave|allocator|claim)[^\n]{0,160}address \S+ (?:is )?(?:already )?owned by\b|\[allocator[^\n]{0,60}(?:Unable to claim|already in use by)/,
      /Inconsistent bridge state detected|Existing bridge type "?\w+"? is different than requested/,
      /Token appears twice in ring|Entry \S+ reporting too much free space/,
    ),
    who: 'weave',
    meaning: 'what weave has on this node does not fit its peers or its settings of now',
    causes: [
      'a node was joined anew, or restored from an image, with the data of another cluster',
      'the range or the kind of bridge (fast datapath, sleeve) was changed',
    ],
    look: ['ls /var/lib/weave', 'ip -d link show weave'],
    cure: 'drain the node, weave reset (removes its data and the bridge), and let its pod start again',
  },
  {
    id: 'weave-hairpin',
    pattern: oneOf(
      /Captured frame from MAC \([^)\n]{1,40}\) to \([^)\n]{1,40}\) associated with another peer/,
      /Vetoed installation of hairpin flow|Hairpin mode enabled on "vethwe/,
      /Hairpin mode may have been enabled by other software/,
    ),
    who: 'weave',
    meaning:
      'weave got back from its own bridge a frame that it had put there: something on the node sends frames round',
    causes: [
      'a port of the bridge weave has hairpin mode: kubelet (--hairpin-mode=hairpin-veth) or another program set it',
      'the bridge has a second way to the other nodes: a network card or another bridge is a port of it',
    ],
    look: ['bridge -d link show | grep -B1 "hairpin on"', 'ip -br link show master weave'],
    cure: 'switch it off (bridge link set dev PORT hairpin off), and take other cards out of the bridge weave',
  },
  {
    id: 'weave-peer',
    pattern: oneOf(
      /->\[\S{1,80}\]:? (?:error during connection attempt|connection shutting down due to error during handshake): (?!cannot connect to ourself)[^\n]{1,120}/,
      /timed out waiting for (?:UDP|vxlan) heartbeat|no working forwarders to|no overlays in common with peer/,
      /host clock skew of -?\d+s exceeds|Unable to find connection to relay peer/,
      /no password specifi(?:c)?ed, but peer requested an encrypted|password specified, but peer requested an unencrypted/,
      /remote protocol header not recognised|remote version range \[\d+,\d+\] is incompatible with ours/,
      /-> \S{1,60}:6783 (?:failed|retrying)\b (?!Received|cannot connect to ourself)[^\n]{1,160}/,
      /IP ranges owned by unreachable peers\b[^\n]{0,60}/,
    ),
    who: 'weave',
    meaning: 'weave of this node has no connection to weave of another node, so pods of both do not reach each other',
    causes: [
      'port 6783 (TCP and UDP) or 6784 (UDP) does not pass between the nodes, or weave does not run on the other one',
      'one of both has a password and the other one has none, or another release',
      'the other node is gone, and was not removed from the peers',
      'more nodes than --conn-limit (CONN_LIMIT, 200) allows, or their clocks differ',
    ],
    look: ['kubectl get pods -A -o wide -l name=weave-net', 'nc -zv -w 3 ADDRESS 6783'],
    cure: 'open the ports; give all nodes one password; weave rmpeer the node that is gone; raise CONN_LIMIT',
    needsNetwork: true,
  },
  {
    id: 'cilium-address-held',
    pattern: /putEndpointIdInvalid\s+IP \S+ is already in use/,
    who: 'the cilium plugin',
    meaning: 'the agent of this node still has an endpoint with the address that it gave to the pod',
    causes: [
      'the DEL of the pod before did not reach the agent: it was down, or the node restarted',
      'two sources give addresses of one range (another network beside Cilium, a restored state)',
    ],
    look: ['kubectl -n kube-system exec ds/cilium -c cilium-agent -- cilium-dbg endpoint list'],
    cure: 'restart the agent of this node: it drops endpoints whose pod is gone; update Cilium when it comes again',
  },
  {
    id: 'weave-not-exposed',
    pattern: oneOf(
      /Bridge "?weave"? has no IP address(?:es)?|the allocator is not initialized yet/,
      /waiting for IP range grant from peers|awaiting consensus(?: \(quorum: \d+, known: \d+\)|: Nodes known: \d+, Quorum size: \d+)/,
    ),
    who: 'the weave plugin',
    meaning: 'the bridge of weave has no address: weave of this node has not got its own yet',
    causes: [
      'its pod waits for peers, or for most of them, before it gives addresses out',
      'it was reset while it ran',
    ],
    look: ['kubectl -n kube-system get pods -o wide -l name=weave-net', 'ip addr show weave'],
    cure: 'wait until weave says that it is ready; else restart its pod, and remove peers that are gone (weave rmpeer)',
  },
  {
    id: 'ovs-refused',
    pattern: oneOf(
      /could not (?:add|open) network device \S{1,40}(?: to ofproto)? \((?!(?<=ofproto \()Address family|Device or resource busy|No such device|(?:Operation|Protocol) not supported)[A-Z][^)\n]{1,60}\)/,
      /Failed to (?:create OVS bridge|(?:create|get) (?:gateway|tunnel) (?:port|ofport))\b[^\n]{0,160}/,
      /\|bridge\|(?:ERR|WARN)\|failed to create bridge \S{1,40}: [^\n]{1,60}|OVSDB transaction (?:failed|returned \d+ operation errors): [^\n]{1,120}|Transaction causes multiple rows in "?(?:Interface|Port|Bridge)"? table[^\n]{0,120}/,
      /OVS [Tt]ransaction failed[^\n]{0,120}|ovs-vsctl: cannot create a (?:port|bridge) named \S+ because[^\n]{0,120}/,
      /OVS port \S{1,40} was added for (?:iface-id|NAD) \([^)\n]{1,120}\), (?:now readding it|expect)[^\n]{0,120}/,
      /cannot (?:attach|detach) port \S+ (?:to|from) mirror[^\n]{0,120}|cannot (?:create|delete|check if) mirror \S+[^\n]{0,120}/,
      /mirror producer must have either|(?:port|mirror) not created by ovs-cni/,
      /cannot (?:find port in db|get existing portUuid from db)|(?:failed \(\w+\): )mirror \S+ not present/,
    ),
    who: 'Open vSwitch, asked by the ovs plugin or an agent',
    meaning: 'Open vSwitch did not take what was to be written into its database',
    causes: [
      'a port of that name is left from a pod before, on this bridge or another one',
      'a mirror has another output port already, or was made by somebody else',
      '"to ofproto (File exists)", "(Address already in use)": the node has another tunnel of the same port (that of ' +
        'another network, or of a container of before)',
      '"could not open network device dpdk0": Open vSwitch runs without DPDK (dpdk-init)',
    ],
    look: ['ovs-vsctl show', 'ovs-vsctl list mirror; ovs-vsctl find interface error!=[]'],
    cure:
      'a port of a pod that is gone: ovs-vsctl --if-exists del-port NAME, and the next try works. Never remove the ' +
      'port of a tunnel or gateway (genev…, vxlan…, antrea-gw0, ovn0, br-ex): all pods of the node lose their ' +
      'network. Two tunnels of one port: give one network another port, or remove the one that is not used',
  },
  {
    id: 'multus-status',
    pattern: oneOf(
      /error (?:un)?setting the networks status(?:es)?(?!, pod was already deleted)[^\n]{0,240}/,
      /Set(?:Pod)?NetworkStatus(?:Annotation)?: (?:failed to \[?(?:query|update)[\w/\]]* the pod|update failed)[^\n]{0,240}/,
    ),
    who: 'Multus',
    meaning: 'the network of the pod is made, and Multus could not write its state into the pod (network-status)',
    causes: [
      '"object has been modified": another controller changed the pod at that moment; the next try goes through',
      'its role may not change pods/status, or a webhook refuses it',
      'the annotations of the pod are too long together',
    ],
    look: ["kubectl get pod POD -o jsonpath='{.metadata.annotations}'", 'kubectl get clusterrole multus -o yaml'],
    cure: 'do what the words behind it name; apply the manifest of the same release as the image',
    wraps: true,
  },
]
