// SPDX-License-Identifier: Apache-2.0
// Of OVN-Kubernetes: zones, the external bridge, and certificates of the nodes.

import { type KnownError, oneOf } from '../known/known-error.ts'

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
      'ovn-nbctl get NB_Global . name; ovn-sbctl get SB_Global . options:name',
      "kubectl get nodes -o yaml | grep 'k8s.ovn.org/zone-name'",
    ],
    cure:
      'nothing while the update goes on: the agent tries again; else restart the pod with the databases of this ' +
      'node, which writes its zone when it starts',
  },
  {
    id: 'ovn-bridge-changed',
    pattern: /Fatal error: (?:patch|phys) port \S+ ofport changed from/,
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
      /CSR "[^"]*" was created with unexpected common name|is not a valid DNS subdomain|extracted node name/,
    ),
    who: 'ovnkube-node or Multus, of their certificate for this node',
    meaning: 'the agent has no valid certificate of its own for the API server: it expired, or no new one was signed',
    causes: [
      'the node or the cluster slept longer than the certificate lasts (a day), or the clock jumped',
      'the request waits: what approves it (ovnkube-identity, the cert-approver of Multus) does not run',
      'the node has another name than before',
    ],
    look: ['kubectl get csr --sort-by=.metadata.creationTimestamp | tail', 'timedatectl'],
    cure:
      'set the clock, and let the approver run; a request of this very node may be approved by hand (kubectl ' +
      'certificate approve NAME); the agent starts again by itself',
    needsNetwork: true,
  },
]
