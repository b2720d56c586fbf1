// SPDX-License-Identifier: Apache-2.0
// Of the agents themselves, by their own logs and probes: calico-node, cilium-agent, kube-router, weave.

import { type KnownError, oneOf } from '../known/known-error.ts'

/** Errors that an agent prints where it does not get ready. */
export const nodeAgentErrors: readonly KnownError[] = [
  {
    id: 'calico-bgp',
    pattern: oneOf(
      /unable to (?:connect|write) to BIRD|bird: BGP: Unexpected connect from unknown address/,
      /BGP (?:session|peering)s?(?! policy)[^\n]{0,40}(?:not established|down|failed)/,
      /BIRD[^\n]{0,40}is not (?:ready|live|running)|BIRDv?[46]? is not ready|bad response from bird6?\b[^\n]{0,60}/,
      /BGP not established(?: with)?[^\n]{0,60}|Failed to stat\(\) nodename file/,
      /unable to connect to BIRDv?[46]? socket/,
      /\| (?:node-to-node mesh|node specific|global) +\| (?:start|down|wait)\b[^\n]{0,60}\b(?:Active|Connect|Idle|OpenSent|Passive)/,
      /bird(?:v?[46])?\.ctl[^\n]{0,60}/,
      /\bbird6?: (?:Mesh|Global|Node|Local_workload)_\w+: (?:Error|Received|Socket error|Connection|Unexpected|Incoming connection aborted|Route limit exceeded|Peer advertised|Invalid NEXT_HOP)[^\n]{0,80}/,
    ),
    who: 'calico-node',
    meaning: 'calico-node of this node has no BGP session with another node, so routes to its pods are missing',
    causes: [
      'it took the address of a wrong interface (a bridge of docker, a VPN): IP_AUTODETECTION_METHOD chooses',
      'port 179/tcp or protocol 4 (IP in IP) does not pass between the nodes',
      'a node is gone, and its Node object was left; or BIRD starts still',
    ],
    look: [
      'calicoctl node status',
      'kubectl get nodes -o yaml | grep -e IPv4Address -e internal-ip',
      'kubectl logs -n kube-system ds/calico-node -c calico-node --tail=30',
    ],
    cure:
      'set IP_AUTODETECTION_METHOD of calico-node (interface=NAME, can-reach=ADDRESS or kubernetes-internal-ip), and ' +
      'open 179/tcp between the nodes',
  },
  {
    id: 'calico-node-address',
    pattern: oneOf(
      /(?:startup|autodetection)\S* \d+: (?:Unable to query host interfaces|Failed to enumerate interfaces|Unable to retrieve host network interfaces)/,
      /Failed to autodetect an IPv[46] address|Unable to auto-?detect (?:an |any )?IPv[46] address[^\n]{0,120}/,
      /no valid IPv[46] addresses found on the host interfaces|Failed to parse autodetected CIDR|Error parsing IPv[46] CIDR '[^']*' for node/,
      /Couldn't autodetect an IPv[46] address[^\n]{0,80}/,
      /Calico node '?\S{1,80} is already using the IPv[46] address \S+|Clearing out-of-date IPv[46] address from this node[^\n]{0,60}/,
      /Unable to confirm IPv[46] address \S+ is assigned|Invalid IP autodetection method: \S+/,
      /Invalid CIDR \S+ for IP autodetection method|Autodetection of IPv[46] address failed/,
      /no IPv4 or IPv6 addresses configured or detected|no valid host interfaces found|conflicting node detected/,
      /autodetected IPv[46] address does not match any addresses|Unable to find matching host interface for IP/,
      /Environment does not contain a valid IPv[46] address|Cannot use method 'kubernetes-internal-ip'/,
      /no address detected by connecting to \S+|IPv[46] address has changed\. This could happen if there are multiple/,
      /(?:startup|conflicting node detected)[^\n]{0,80}IPv[46] address conflict|No IP Addresses configured, and autodetection is not enabled/,
      /Unable to find parent interface with address \S+|Failed to find VXLAN tunnel device parent[^\n]{0,80}/,
    ),
    who: 'calico-node',
    meaning: 'calico-node found no address of the node for itself, or one that another node has in its data',
    causes: [
      'IP_AUTODETECTION_METHOD names an interface or an address that this node does not have',
      'the node was made anew under another name, and the Node object of before has its address',
      'autodetection takes an address that all nodes have or that moves: of a bridge (docker, br-…), of kube-ipvs0, ' +
        'a virtual one of the API server (can-reach, /32); IP_AUTODETECTION_METHOD=kubernetes-internal-ip takes the ' +
        'one of the Node object',
      'two nodes have one address (machines behind NAT, copies of one image)',
    ],
    look: ['ip -br addr; hostname', 'kubectl get nodes -o wide', 'calicoctl get nodes -o wide'],
    cure: 'correct IP_AUTODETECTION_METHOD; remove the node that is gone: kubectl delete node, calicoctl delete node',
  },
  {
    id: 'calico-felix',
    pattern: oneOf(
      /timed out waiting for Calico to become ready|Calico (?:failed to become ready|is not ready yet, waiting)/,
      /felix is not live|calico\/node is not live|felix is not ready(?![\s\S]{0,300}\bipset v\d[\d.]{0,8}: )/,
      /calico\/node is not ready: (?!BIRD|bad response from bird|[\s\S]{0,400}\bipset v\d[\d.]{0,8}: )[^\n]{1,120}|failed to connect to typha/,
      /Typha[^\n]{0,60}(?:connection refused|i\/o timeout|no such host|TLS handshake(?! error)|\btls: )/,
      /typha\/\S+\.go[^\n]{0,200}\btls: [^\n]{1,80}|Failed to connect to (?:any )?Typha/,
      /Typha discovery[^\n]{0,40}failed|error connecting to typha endpoint|any ready Typha instances|Connection to Typha failed/,
      /ip6?tables(?:-(?:legacy|nft))?-(?:save|restore) command failed/,
      /(?:iptables|nftables) command failed after retries|Failed to program (?:iptables|nftables)[^\n]{0,60}/,
      /Failed to update IP sets after multiple retries(?![^\n]{0,200}ipset v\d)/,
      /Failed to (?:configure BPF devices|create BPF endpoint manager)/,
      /(?:Felix|calico-node)[^\n]{0,60}Exiting immediately/,
      /\bReporter (?:is not (?:live|ready)|failed (?:live|readi)ness checks)\b[^\n]{0,60}/,
    ),
    who: 'calico-node',
    meaning: 'Felix, the part of calico-node that writes rules and routes, is not ready on this node',
    causes: [
      'it does not reach the API server or Typha (5473/tcp), or their certificates do not fit',
      'iptables or ipset fails on the node: its log says which call',
      'it starts still, or its CPU limit is low',
      '"Reporter is not live": a loop of it hangs, or takes longer than its limit: very many rules, a loaded node',
    ],
    look: [
      'kubectl logs -n kube-system ds/calico-node -c calico-node --tail=50 | grep -i -e error -e panic',
      'kubectl get pods -A -o wide -l k8s-app=calico-typha',
    ],
    cure: 'do what the first error in its log says; open 5473/tcp to the nodes of Typha',
  },
  {
    id: 'agent-port-taken',
    pattern: oneOf(
      /(?:gRPC port|metrics server)[^\n]{0,80}listen tcp \S{0,20}:(?:816[23]|5005[12]): bind: address already in use/,
      /(?:flannel|calico|felix|cilium|bird|kube-router|weave|multus|antrea|ovn|aws-node|ipamd|azure-cns|spiderpool|kindnet|terway|submariner|istio-cni|ztunnel|openshift-sdn)[^\n]{0,300}(?:listen|bind|socket)[^\n]{0,120}address already in use/,
      /listen (?:tcp|udp|unix)[46]? \S{1,80}: bind: address already in use(?=[^\n]{0,40} subsys=)/,
      /network policy agent: [^\n]{0,60}listen tcp \S{1,40}: bind: address already in use/,
      /listen tcp[46]? \S{0,60}:179: bind: address already in use|Another device with this VNI may already exist/,
      /\bbird6?: (?:BGP: (?:Cannot open|Error on) listening socket|I found another BIRD running)[^\n]{0,60}/,
      /\bdnsmasq(?:\[\d+\])?: failed to (?:create listening socket|bind)[^\n]{0,100}Address already in use/,
      /The DNS and DHCP service exited prematurely[^\n]{0,300}Address already in use/,
      /Failed to start (?:node|proxier) healthz\b[^\n]{0,60}: bind: address already in use/,
      /listen tcp[46]? \S{0,60}:102(?:49|56): bind: address already in use/,
      /since the user might be running with kube-proxy|kube-proxy should not be running nor listening on the same/,
    ),
    who: 'the agent of a network, kube-proxy, dnsmasq of LXC and LXD',
    meaning: 'another program of the node has a port or device that the agent needs',
    causes: [
      'an agent of before, or a second network add-on, still runs on the node',
      'port 53 (dnsmasq): a DNS server of the host listens on every address (bind, dnsmasq, systemd-resolved)',
      'the port belongs to a program of the node: the agent has an option for another one',
    ],
    look: ['ss -Hlntup', 'ip -d link show type vxlan', 'kubectl get ds -A'],
    cure: 'end what has the port, or give the agent another one; keep one network add-on on a node',
  },
  {
    id: 'kernel-too-old',
    pattern: oneOf(
      /unsupport(?:ed)? kernel version, require|minimal supported kernel version is [>=\d. ]{1,12}[^\n]{0,80}/,
      /nsenter: cannot open \S*\/ns\/(?:cgroup|time)\b[^\n]{0,40}/,
      /Linux kernel version [\d.]+ or newer is required|kernel version [\d.-]+ has a nat related bug/,
      /(?:your|this|the running|linux) kernel(?: version)? (?:\S+ )?is too old\b[^\n]{0,80}/,
      /Minimum kernel version to run Calico is[^\n]{0,60}/,
      /BPF dataplane mode enabled but not supported by the kernel[^\n]{0,80}/,
    ),
    who: 'the agent of a network',
    meaning: 'the kernel of the node is older than what the agent needs: cgroup namespaces, for one, came with 4.6',
    causes: [
      'a distribution with a kernel 3.10 (CentOS 7), or one of its time',
      'the agent was updated, and its release asks for a newer kernel than the one before',
    ],
    look: ['uname -r; ls /proc/1/ns'],
    cure:
      'update the kernel (or the system) of the node; until then a release of the network that supports it, or for ' +
      'Cilium cgroup.autoMount.enabled=false',
    needsNetwork: true,
  },
]
