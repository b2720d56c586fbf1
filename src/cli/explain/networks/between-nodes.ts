// SPDX-License-Identifier: Apache-2.0
// Of what joins nodes and clusters: the tunnels of Submariner, ranges of nodes that are given twice; and of interfaces
// that a running pod gets.

import { type KnownError, oneOf } from '../known/known-error.ts'

/** Errors of tunnels and of what comes later. */
export const betweenNodesErrors: readonly KnownError[] = [
  {
    id: 'submariner-cable',
    pattern: oneOf(
      /Error installing cable\b[^\n]{0,160}|error (?:creating|initializing) the cable driver[^\n]{0,120}/,
      /Error starting the cable driver[^\n]{0,120}|error starting the Pluto process[^\n]{0,120}|Error running Pluto|Pluto exited/,
      /Failed to add (?:endpoint|remote) peer[^\n]{0,120}/,
      /error resolving public IP (?:with resolver|in an air-gapped)[^\n]{0,300}|(?:retrieving public IP from|error resolving DNS hostname "[^"\n]{1,80}" for) [^\n]{1,160}|error (?:updating|getting) the public IP (?:of|for) (?:the )?local endpoint[^\n]{0,120}/,
      /service "[^"\n]{1,80}" doesn't contain any LoadBalancer ingress yet|no IP or Hostname for service LoadBalancer "[^"\n]{1,80}" Ingress|error getting service "[^"\n]{1,80}" for the public IP address[^\n]{0,120}/,
      /\bwhack: (?:unrecognized|unknown|invalid|ambiguous) option[^\n]{0,80}|\berror (?:[^\n]{1,60} )?whacking with args[^\n]{0,200}|error (?:starting|retrieving) whack\b[^\n]{0,80}|error waiting for whack to complete[^\n]{0,80}/,
      /timed out waiting for the control socket at \S{1,60}|error (?:starting the cable engine|creating local endpoint object|creating the NAT discovery handler|starting NAT discovery server|deleting a connection with args)\b[^\n]{0,200}/,
      /failed to (?:setup (?:WireGuard|Vxlan) link|create vxlan interface on Gateway Node|configure vxlan interface ipaddress on the Gateway Node|derive the vxlan vtepIP for \S{1,60}|open wgctl client)\b[^\n]{0,160}|wgctrl is not available on this system/,
      /NAT discovery for endpoint "[^"\n]{1,120}" has timed out|error while trying to (?:NAT-discover|discover both) [^\n]{1,200}|VxLan cable-driver is supported only with no NAT deployments/,
      /unsupported cable type \S{1,40}; supported types: [^\n]{0,80}|Failed to verify peer configuration[^\n]{0,160}|peer's (?:AllowedIPs|Endpoint|PresharedKey) \S{1,80} does not match configured/,
      /could not determine public IP|Unable to resolve public IP by any of the resolver methods/,
    ),
    who: 'the gateway of Submariner',
    meaning: 'the gateway node has no tunnel to the other cluster: its driver (libreswan, WireGuard, VXLAN) failed',
    causes: [
      'another IPsec daemon of the node has the ports 500 and 4500, or the kernel lacks what the driver needs',
      'UDP 4500 and 4490 do not pass to the gateway of the other cluster',
      'both sides have different drivers or keys: the broker was made anew, and one cluster was not joined again',
      '"public IP": the gateway asks the internet for its own address, and has no way there; one service of the list ' +
        'that does not answer only delays it: the next one is asked',
      '"whack: unrecognized option": this release of Submariner gives an option that libreswan in its image lacks ' +
        '(0.21.1: --encapsulation)',
      '"NAT discovery … timed out": UDP 4490 of the other gateway does not answer',
    ],
    look: ['subctl show connections; subctl diagnose all', 'ss -Hlunp | grep -e :500 -e :4500 -e :4490'],
    cure:
      'make another node the gateway (the label submariner.io/gateway=true on that one, and taken from this ' +
      'one), or end the other daemon if nobody needs its VPN; let the ports through, and join the cluster again ' +
      '(subctl join): the tunnels break meanwhile; without a way out annotate the node: ' +
      'gateway.submariner.io/public-ip=ipv4:ADDRESS; an option that whack lacks: another release on both sides',
    wraps: true,
  },
  {
    id: 'podcidr-duplicate',
    // The gateway of the other node's range is then an address of this node: the kernel refuses it.
    pattern:
      /podCIDR \S+ is duplicate with Node \S+|failed to install route to peer [^\n]{1,160} with netlink[^\n]{0,160}Gw: \S+ Flags: \[onlink\][^\n]{0,60}: invalid argument/,
    who: 'the antrea agent',
    meaning: 'two nodes have the same range for pods: the routes of the second one are not made',
    causes: [
      'a node was removed and another got its range at once, also where many nodes are exchanged: it goes when the ' +
        'removal is seen, within a minute',
      'spec.podCIDR was written by hand, or by two controllers',
    ],
    look: ["kubectl get nodes -o custom-columns='NODE:.metadata.name,PODCIDR:.spec.podCIDR' | sort -k2"],
    cure: 'nothing when it goes by itself; else drain one of the two nodes, delete its Node object and join it again',
  },
  {
    id: 'dynamic-networks',
    pattern: oneOf(
      /rejecting to add interfaces for host networked pod|ListPodSandbox returned (?:\d+|more than 1) item/,
      /path to CRI socket missing|failed to create CRI runtime[^\n]{0,120}|failed to (?:ADD|remove) delegate: [^\n]{1,160}/,
      /failed to figure out the (?:PodSandboxID|pod's network namespace)[^\n]{0,120}|error (?:adding|removing) attachments: [^\n]{1,160}/,
    ),
    who: 'multus-dynamic-networks-controller',
    meaning: 'the annotation of a running pod was changed, and the interface could not be added to it or removed',
    causes: [
      'Multus is not the one with a daemon (thick), or its daemon does not answer',
      'criSocketPath of its configuration is not the socket of this runtime, or not mounted',
      'the pod is on the network of the host, or its sandbox is gone',
    ],
    look: [
      'kubectl -n kube-system logs ds/dynamic-networks-controller-ds --tail=30',
      'ls -l /run/containerd/containerd.sock /run/crio/crio.sock /run/multus',
    ],
    cure: 'install Multus with its daemon, name the socket of the runtime in criSocketPath, and change the pod again',
    wraps: true,
  },
]
