// SPDX-License-Identifier: Apache-2.0
// Of Cilium at work: packets that it drops, services in its maps, ways to other nodes.

import { type KnownError, oneOf } from '../../known/known-error.ts'

const monitor = 'kubectl -n kube-system exec ds/cilium -c cilium-agent -- cilium-dbg monitor --type drop'

/** What Cilium says of packets, services and ways to other nodes. */
export const ciliumTrafficErrors: readonly KnownError[] = [
  {
    id: 'cilium-policy-denied',
    pattern: oneOf(
      /xx drop \((?:Policy denied[^\n)]{0,30}\)?|Denied by LB src range check|Authentication required)\)[^\n]{0,120}/,
      /(?:Policy denied(?: by denylist)?|policy-verdict:\S{1,20} (?:IN|E)GRESS) +(?:DROPPED|DENIED)[^\n]{0,40}/,
    ),
    who: 'the datapath of Cilium, by cilium-dbg monitor or hubble observe',
    meaning:
      'Cilium dropped a packet by a rule: no policy lets it through, a policy denies it, or the service does ' +
      'not take this client; the identities before "->" and behind it say whose',
    causes: [
      'a policy selects the pod, and none of its rules names this peer, port or direction',
      'the peer is known only as "world" or "remote-node": it came by another address than its own (NAT, a node port)',
      'the identity of the pod changed with its labels, or is not known on this node yet',
      '"by denylist": ingressDeny or egressDeny of a policy: no rule that allows goes before it',
      '"LB src range": loadBalancerSourceRanges of the service leaves the client out',
      '"Authentication required": the policy asks for mutual authentication, and it is not done yet, or SPIRE ' +
        'does not answer',
    ],
    look: [
      'kubectl get ciliumnetworkpolicies,networkpolicies -A; kubectl get ciliumclusterwidenetworkpolicies',
      'kubectl -n kube-system exec ds/cilium -c cilium-agent -- cilium-dbg identity get IDENTITY',
    ],
    cure:
      'let the peer through in a policy (entities for host, remote-node and world), correct the selectors or ' +
      'the deny rule, or add the client to loadBalancerSourceRanges',
  },
  {
    id: 'cilium-egress-gateway',
    pattern: oneOf(
      /Error (?:applying|removing) (?:IPv[46] )?egress gateway policy[^\n]{0,160}|Error relaxing rp_filter for gateway interfaces[^\n]{0,160}/,
      /Failed to derive policy gateway configuration[^\n]{0,160}|failed to retrieve (?:interface with egress IP|IPv[46] address for egress interface)[^\n]{0,120}/,
      /xx drop \(No (?:egress gateway found|Egress IP configured)\)[^\n]{0,120}|Failed to add CiliumEgressGatewayPolicy: malformed[^\n]{0,160}/,
    ),
    who: 'the cilium agent, of its egress gateways',
    meaning: 'the node that should send the traffic of pods on with a fixed address does not do so',
    causes: [
      'no node has the labels of the policy, or that node does not have the egressIP or interface that is named',
      'the gateway is down, and the agents have not learned it yet',
      'net.ipv4.conf.INTERFACE.rp_filter is 1 (strict) and cannot be changed',
    ],
    look: [
      'kubectl get ciliumegressgatewaypolicies -o yaml; ip -br addr',
      'kubectl -n kube-system exec ds/cilium -c cilium-agent -- cilium-dbg bpf egress list',
    ],
    cure: 'correct nodeSelector, egressIP or interface of the policy; give the node that address',
    wraps: true,
  },
  {
    id: 'cilium-drop',
    pattern: oneOf(
      /xx drop \((?!Policy denied|Denied by|Authentication|No egress)[A-Z][^\n)]{2,60}(?:\([^\n)]{1,20}\))?\)[^\n]{0,120}/,
      /(?:Stale or unroutable IP|CT: Map insertion failed|No mapping for NAT masquerade|FIB lookup failed|Invalid source ip|Missed tail call|Unsupported L[23] protocol|Service backend not found|Fragmentation needed|No tunnel\/encapsulation endpoint[^\n]{0,20}|Host datapath not ready|Traffic is unencrypted|VLAN traffic disallowed[^\n]{0,20}) +DROPPED[^\n]{0,40}/,
    ),
    who: 'the datapath of Cilium, by cilium-dbg monitor or hubble observe',
    meaning: 'Cilium dropped a packet, for the reason in the brackets',
    causes: [
      '"Stale or unroutable IP", "Unknown L3 target", "No tunnel endpoint": the peer is gone, or this node has not ' +
        'learned it (the API server, etcd)',
      '"CT: Map insertion failed", "No mapping for NAT": a map is full: many connections of short life',
      '"Invalid source ip": the pod sends with an address that is not its own',
      '"Missed tail call", "Host datapath not ready": the program was just exchanged, or could not be loaded',
      '"FIB lookup failed", "Fragmentation needed": no route, or a packet larger than the MTU of the way',
      '"VLAN traffic disallowed": --vlan-bpf-bypass; "Unsupported L2/L3 protocol": no IP, or IPv6 is off: harmless',
    ],
    look: [monitor, 'kubectl -n kube-system exec ds/cilium -c cilium-agent -- cilium-dbg status --verbose'],
    cure:
      'by the reason: restart the agent of a node that has not learned a peer; correct route or MTU; where a ' +
      'map is full, raise bpf.ctTcpMax, bpf.natMax or bpf.mapDynamicSizeRatio: the agent may make the map anew ' +
      'when it restarts, and open connections of that node break then, so drain the node first',
  },
  {
    id: 'cilium-services',
    pattern: oneOf(
      /Error while (?:inserting|deleting) service in LB map[^\n]{0,160}|Unable to (?:add\/update|delete) service to implement k8s event[^\n]{0,160}/,
      /Unable to (?:update|upsert|delete|add|acquire|restore) (?:service|reverse NAT|revNAT|backend|service ID)\b[^\n]{0,160}(?:subsys|module)=/,
      /Unable to (?:synchronize service to BPF map|upsert into the Maglev BPF map)[^\n]{0,160}|Failed to (?:restore services from BPF maps|initialize maglev hash seeds)[^\n]{0,120}/,
      /ListenAndServe failed for service health server(?!, since)[^\n]{0,120}|Session affinity for host reachable services needs[^\n]{0,120}/,
    ),
    who: "the cilium agent, in kube-proxy's place",
    meaning: 'the agent could not write a service or its servers into the maps of this node',
    causes: [
      'the maps for services are full (bpf.lbMapMax, 65536): each port of each service and each server counts',
      'the maps are of another release or size, and the agent could not exchange them',
    ],
    look: [
      'kubectl -n kube-system exec ds/cilium -c cilium-agent -- cilium-dbg service list | wc -l',
      'kubectl get services -A | wc -l',
    ],
    cure:
      'raise bpf.lbMapMax, and restart the agents one after the other: the maps may be made anew, so that ' +
      'services of a node fail for a moment (drain it first); do what the last words name',
    wraps: true,
  },
  {
    id: 'cilium-node-routes',
    pattern: oneOf(
      /Failed (?:to apply|applying|to handle node \w+ event while applying) (?:node )?handler[^\n]{0,200}|Node update failed during datapath node validation[^\n]{0,160}/,
      /failed to update or remove node routes[^\n]{0,120}|(?:Unable|failed) to (?:delete|update)(?: in)? tunnel endpoint map[^\n]{0,120}|Unable to update in tunnel endpoint map/,
      /Unable to (?:delete|update|install) (?:direct node )?route"[^\n]{0,160}(?:subsys|module)=|failed to (?:enable|remove old|apply initial sync \(no) encapsulation[^\n]{0,120}/,
      /insertNeighbor failed[^\n]{0,120}|failed to (?:get next hop IP(?! for secondary)|retrieve route for remote node IP)[^\n]{0,120}|No more IDs available for nodes/,
    ),
    who: 'the cilium agent',
    meaning: 'the way to another node (a route, an entry of the tunnel, a neighbour) could not be made on this one',
    causes: [
      'no route leads to the address of the other node, or its Node object has a wrong one',
      'two nodes have one range: a CiliumNode of a machine that is gone was left',
      'another program (systemd-networkd) removes the routes or rules of Cilium',
    ],
    look: ['ip route get ADDRESS-OF-THE-OTHER-NODE', 'kubectl get ciliumnodes -o wide; ip route show table all | head'],
    cure:
      'do what the last words name; delete the CiliumNode of a machine that is gone; let networkd leave foreign ' +
      'routes alone (ManageForeignRoutes=no, ManageForeignRoutingPolicyRules=no)',
    wraps: true,
  },
]
