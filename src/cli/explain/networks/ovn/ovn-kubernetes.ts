// SPDX-License-Identifier: Apache-2.0
// Of OVN-Kubernetes: zones, the external bridge, and certificates of the nodes.

import { type KnownError, oneOf } from '../../known/known-error.ts'

/** Errors by which the agents of OVN-Kubernetes end. */
export const ovnKubernetesErrors: readonly KnownError[] = [
  {
    id: 'ovn-zone',
    pattern: oneOf(
      /OVN NBDB zone \S+ does not match the configured zone|zone \S+ mismatch with the Southbound zone/,
      /config zone \S+ different from NBDB zone/,
    ),
    who: 'ovnkube-controller or ovnkube-node',
    meaning: 'the databases that the agent speaks to are of another zone than it is set to, so it ends',
    causes: [
      'an update to one database for each node (interconnect) goes on, or stopped halfway: the zone is `global` yet',
      'the databases of this node started from the file of another node',
    ],
    look: [
      'kubectl get pods -A -o wide | grep ovnkube-node',
      'kubectl -n NAMESPACE exec POD -c nb-ovsdb -- ovn-nbctl get NB_Global . name',
      "kubectl get nodes -o yaml | grep 'k8s.ovn.org/zone-name'",
    ],
    cure:
      'nothing while the update goes on: the agent tries again; else restart the pod with the databases of this ' +
      'node, which writes its zone when it starts',
  },
  {
    id: 'ovn-bridge-changed',
    pattern:
      /Fatal error: (?:(?:patch|phys) port \S+ ofport changed|ofport of \S+ has changed|unexpected default OpenFlows count)/,
    who: 'ovnkube-node',
    meaning:
      'a port of the external bridge (br-ex) was made anew: ovnkube-node ends on purpose, to write its flows again',
    causes: [
      'Open vSwitch or ovn-controller of this node was restarted, or updated',
      'NetworkManager, nmstate or a person took the network card out of the bridge and put it back',
    ],
    look: ['ovs-vsctl show', 'journalctl -u ovs-vswitchd -u NetworkManager --since "1 hour ago" | tail -30'],
    cure: 'nothing where it happens once: the pod starts again; when it comes again, find what makes the ports anew',
  },
  {
    id: 'node-certificate',
    pattern: oneOf(
      /The current certificate is invalid, exiting|(?<!tls[^\n]{0,80})certificate was not signed: [^\n]{1,80}/,
      /Unexpected common name found in the certificate, expected: \S+/,
      /failed to initialize the certificate (?:store|manager): [^\n]{1,100}|Failed to load the currect certificate file|failed to remove the current certificate file/,
      /CSR "[^"]*" was created with unexpected common name|extracted node name[^\n]{0,120}is not a valid DNS subdomain/,
    ),
    who: 'ovnkube-node or Multus, of their certificate for this node',
    meaning: 'the agent has no valid certificate of its own for the API server: it expired, or no new one was signed',
    causes: [
      'the node or the cluster slept longer than the certificate lasts (a day), or the clock jumped',
      'the request waits: what approves it (ovnkube-identity, the cert-approver of Multus) does not run',
      'the request is approved, and nobody signs it: the controller manager (csrsigning) does not run or lacks its key',
      'the node has another name than before',
    ],
    look: ['kubectl get csr --sort-by=.metadata.creationTimestamp | tail', 'timedatectl'],
    cure:
      'set the clock, and let the approver run; a request of this very node may be approved by hand (kubectl ' +
      'certificate approve NAME); the agent starts again by itself',
    needsNetwork: true,
  },
  {
    id: 'ovnkube-pod',
    pattern: oneOf(
      /\bError(?:AddingLogicalPort|ReconcilingPod|AllocatingPod|(?:Adding|Updating|Deleting)Resource)\b[^\n]{0,40}/,
      /\b(?:add|delete)LogicalPort failed for (?:pod )?\S+/,
      /failed to (?:create|delete|find|ensure)[^\n]{0,30} (?:pod )?logical (?:switch )?port (?:for|of) pod[^\n]{0,120}/,
    ),
    who: 'ovnkube-controller',
    meaning: "the port of the pod could not be made in OVN's database: the words behind it say why; it tries again",
    causes: [
      'the node of the pod has no logical switch or range yet: it has just joined',
      "OVN's northbound database does not answer, or refuses the row",
      'no address is left for the node, or another pod has the one that is asked for',
    ],
    look: [
      'kubectl describe pod POD | tail',
      'kubectl get pods -A -o wide | grep ovnkube',
      'kubectl -n NAMESPACE exec POD-OF-OVNKUBE -c nb-ovsdb -- ovn-nbctl show | head -40',
    ],
    cure: 'do what the words behind it name; when all pods of one node have it, restart the ovnkube pod of that node',
    wraps: true,
  },
  {
    id: 'ovnkube-start',
    pattern: oneOf(
      /failed to run ovnkube\b[^\n]{0,160}|failed to start cluster manager[^\n]{0,120}/,
      /failed to (?:start|init|initialize) (?:default )?(?:node )?(?:network|ovnkube-) ?controller[^\n]{0,160}/,
      /pidfile \S{1,80} exists (?:and ovnkube is running|but can't be read[^\n]{0,80})/,
      /gateway init failed to start watching[^\n]{0,120}|(?:ovnkube|node network controller)[^\n]{0,200}failed to start gateway: [^\n]{1,160}|failed to start management port controller: [^\n]{1,160}|failed to initialize (?:OVS exec runner|exec helper): [^\n]{1,120}/,
      /failed to (?:find management port address|get management port link \S{1,20}|set the node masquerade (?:IP on the ext bridge|route to OVN)|parse kubernetes node IP address\.)[^\n]{0,160}/,
      /Can't find neither renamed management port[^\n]{0,160}|Failed to recreate management port netdev, terminating[^\n]{0,120}|unable to configure the local OVN Southbound database endpoint[^\n]{0,120}/,
      /insecure (?:permissions on|owner of) pod info socket directory [^\n]{1,120}/,
      /failed to initialize libovsdb \w+ client[^\n]{0,120}|failed to start the node certificate manager[^\n]{0,120}/,
    ),
    who: 'ovnkube, at its start',
    meaning:
      'the agent or the control plane of OVN-Kubernetes ended while it started: the last words say at which step',
    causes: [
      'the API server does not answer it, or a CRD of its release is missing',
      'the databases of OVN do not run, or Open vSwitch of the node does not',
      'the bridge, the gateway interface or the address of the node is not what its settings say',
    ],
    look: [
      'kubectl get pods -A -o wide | grep ovnkube',
      'kubectl -n NAMESPACE logs POD --all-containers --previous --tail=30',
      'ovs-vsctl show; ip -br addr',
    ],
    cure: 'do what the last words name; the pod starts again by itself',
    wraps: true,
  },
  {
    id: 'egress-ip-unassigned',
    pattern: oneOf(
      /no assignable nodes for EgressIP|which can host any of the egress IPs|Not all egress IPs for EgressIP/,
      /\bEgressIPConflict\b[^\n]{0,60}|Cloud(?:Assignment|Update|Deletion)Failed[^\n]{0,40}egress IP|egress IP: \S+ for object EgressIP: \S+ could not be/i,
      /Multiple (?:nodes|namespaces|EgressIPs) \([^)\n]{1,80}\)[^\n]{0,40}(?:claiming EgressIP|for VNID)/,
      /egress IP "[^"]*" is (?:the node IP|not in (?:local|cloud) network)/,
    ),
    who: 'OVN-Kubernetes or OpenShift SDN',
    meaning: 'an EgressIP is on no node, so pods of its namespaces leave by the address of their node, or not at all',
    causes: [
      'no node has the label k8s.ovn.org/egress-assignable, or none of them is ready and in the network of the address',
      'the address is that of a node, or of another EgressIP; two namespaces or nodes claim it',
      'the cloud has no room for a further address on the nodes, or its credentials do not allow it',
    ],
    look: [
      'kubectl get egressip -o wide 2>/dev/null; oc get netnamespace,hostsubnet 2>/dev/null',
      'kubectl get nodes -l k8s.ovn.org/egress-assignable; kubectl get cloudprivateipconfig 2>/dev/null',
    ],
    cure:
      'label nodes that have the network of the address (kubectl label node NAME k8s.ovn.org/egress-assignable=), or ' +
      'take a free address',
  },
]
