// SPDX-License-Identifier: Apache-2.0
// Of agents that do not get as far as their socket: what they print when they end at their start.

import { type KnownError, oneOf } from '../known/known-error.ts'

/** Errors of agents at their start, whoever they are. */
export const startErrors: readonly KnownError[] = [
  {
    id: 'calico-rpf',
    pattern: /Kernel's RPF check is set to 'loose'[^\n]{0,120}/,
    who: 'calico-node (Felix)',
    meaning: 'Felix ends: net.ipv4.conf.all.rp_filter is 2 (loose), with which pods could use addresses of others',
    causes: [
      'a distribution or a container node (kind, some Ubuntu releases) sets 2 in /etc/sysctl.d',
      'another agent set it to 2 for its own routes',
    ],
    look: ['sysctl net.ipv4.conf.all.rp_filter', 'grep -rn rp_filter /etc/sysctl.conf /etc/sysctl.d /usr/lib/sysctl.d'],
    cure:
      'set it to 1 (or 0) in /etc/sysctl.d, restart calico-node; or let Felix accept it: ' +
      'kubectl -n kube-system set env ds/calico-node FELIX_IGNORELOOSERPF=true',
  },
  {
    id: 'agent-no-device',
    pattern: oneOf(
      /unable to (?:determine|find) (?:direct routing device|the direct routing device|node addressing|devices)[^\n]{0,100}/,
      /failed to detect devices|direct routing device[^\n]{0,40}not (?:found|specified)/,
      /direct routing device required|unable to find default gateway and none provided/,
      /could not choose an IP address to advertise since this system has multiple addresses[^\n]{0,120}/,
      /multiple gateway interfaces detected|failed to find IPv[46] address on interface \S+/,
      /No active interface found which satisfies|primary node IP \S+ is not assigned to any interface/,
      /failed to find interface with specified node ip|Error while detecting network interface \S+ during fingerprinting/,
      /failed to get local IPNet device with|unable to find local IPs? and device/,
      /error get node ipv[46] address\.This may due to|failed to find network interface with IP: \S+/,
      /invalid encap IP \S+: does not exist|error looking up gw interface: [^\n]{1,80}|could not get MTU for the interface with address/,
      /IPv[46] (?:was|is) enabled,? but no IPv[46] address was found on (?:the )?node/,
      /no InternalIP \(v4 or v6\) found in node|failed to determine default (?:gateway|interface)/,
      /unable to (?:detect|find) (?:a |the )?(?:default )?(?:network )?interface (?:for|of) (?:the )?(?:node|tunnel|underlay)/,
      /default gateway interface: "[^"]*" does not match provided interface|failed to set ovn-encap-ip/,
      /\biface \S+ has no valid IP address|network interface \S+ not exist|Node should have an IPv[46] address if IPv[46] Pod CIDR/,
    ),
    who: 'the agent of Cilium, OVN-Kubernetes, Kube-OVN, kube-router or another network',
    meaning: 'the agent found no interface or address of the node over which it is to reach the other nodes',
    causes: [
      'the node has no default route, or two, and no setting says which interface it is',
      'the setting names an interface or an address that this node does not have',
      'the Node object has the address of another interface: --node-ip of kubelet',
    ],
    look: ['ip route show default; ip -br addr', 'kubectl get nodes -o wide'],
    cure:
      'name the interface in the settings of the network (Cilium: devices and directRoutingDevice; OVN: ' +
      'gateway-interface; Kube-OVN: IFACE; swarm: --advertise-addr), add a default route, or correct --node-ip',
    needsNetwork: true,
  },
  {
    id: 'agent-mtu',
    pattern:
      /MTU \(?\d+\)? of (?:network interface|iface) \S+ is too small[^\n]{0,80}|interface MTU \(\d+\) is too small for specified overlay MTU|Unable to detect host MTU|failed to determine MTU for \S+ interface/i,
    who: 'the agent of OVN-Kubernetes, flannel or Calico',
    meaning: 'the interface of the node carries too small packets for the tunnel and the MTU of pods',
    causes: [
      'the MTU of pods was set as large as that of the interface: a tunnel takes 50 to 100 bytes',
      'the agent chose a wrong interface',
    ],
    look: ['ip -br link; ip -d link show type vxlan; ip -d link show type geneve'],
    cure: 'make the MTU of pods smaller by what the tunnel takes, or that of the interface larger on all nodes',
    needsNetwork: true,
  },
  {
    id: 'agent-environment',
    pattern: oneOf(
      /env(?:ironment)? variables? \S+ and \S+ must be set|cannot identify node name from MULTUS_NODE_NAME/,
      /env var for WHEREABOUTS_NAMESPACE not set|KUBERNETES_NODE_NAME not specified|Must set node name via/,
      /NODENAME environment is not set|no MULTUS_NODE_NAME|environment variable (?:\S+ )?(?:must|should) be set|error getting host IP: <nil>/,
      /unable to get (?:pod name from \$POD_NAME|namespace from kubernetes environment)/,
      /(?:NODE_NAME|POD_NAME|POD_NAMESPACE)\b[^\n]{0,40}(?:is not set|not specified|must be (?:set|specified)|is empty)/,
      /please check manifest to have \w+|environment variable '\w+' is not set/,
    ),
    who: 'the agent of a network',
    meaning: 'the agent was started without a variable that its manifest gives it (the name of its node or pod)',
    causes: [
      'it was started by hand, by another chart or by an old manifest: newer images want more',
      'the part `env` with fieldRef was lost when the manifest was edited',
    ],
    look: ['kubectl get ds -A', 'kubectl -n NAMESPACE get ds NAME -o yaml | grep -A30 env:'],
    cure: 'apply the manifest of the same release as the image',
    needsNetwork: true,
  },
  {
    id: 'agent-volume',
    pattern: oneOf(
      /MountVolume\.SetUp failed for volume "[^"]*" ?: (?:hostPath type check failed: |mkdir |stat |open )(?:\/host)?\/(?:opt\/cni|etc\/cni|usr\/lib(?:exec)?\/cni|var\/lib\/(?:cni|calico|cilium|weave|ovn)|(?:var\/)?run\/(?:xtables\.lock|calico|cilium|flannel|multus|netns|openvswitch|ovn|antrea|istio-cni|ztunnel|spire\/cni))\b[^\n]{0,120}/,
      /MountVolume\.SetUp failed for volume "[^"]*" ?: (?:configmap|secret|object) "(?:[\w.-]+"\/")?(?:kube-flannel-cfg|cilium-config|calico-config|canal-config|multus-\w+-config|kube-router-cfg|weave-net|antrea-config\S*|ovn-config|istio-cni-config|linkerd-cni-config|amazon-vpc-cni)"[^\n]{0,60}/,
      /failed to (?:generate spec|mkdir)[^\n]{0,40}: (?:failed to )?mkdir[^\n]{0,120}\/(?:openvswitch|cni|calico|cilium|ovn|origin)\b[^\n]{0,80}read-only file system/,
      /chdir to cwd \("\/(?:opt|etc)\/cni\/[^"\n]{0,60}"\) set in config\.json failed: [a-z ]+/,
      /bind source path does not exist: \/(?:opt\/cni|etc\/cni|(?:var\/)?run\/xtables\.lock)\S*/,
      /couldn't find key \S+ in (?:ConfigMap|Secret) \S{0,60}\/(?:kube-flannel-cfg|cilium-config|calico-config|canal-config|multus-\S+|kube-router-cfg|weave-net|antrea-\S+|ovn-config|istio-cni-config|linkerd-cni-config|kuma-cni\S*|amazon-vpc-cni|eni-config|azure-\S*cns\S*)/,
      /(?:configmap|secret) "(?:kube-flannel-cfg|cilium-config|calico-config|canal-config|multus-\w+-config|kube-router-cfg|weave-net|antrea-config\S*|ovn-config|istio-cni-config|linkerd-cni-config|amazon-vpc-cni|eni-config)" not found/,
    ),
    who: 'kubelet, of the DaemonSet of a network',
    meaning:
      'the agent of the network does not start: a directory of the node, or a ConfigMap, that it mounts is missing',
    causes: [
      'the node has no such directory (/opt/cni/bin, /etc/cni/net.d): a minimal or read-only system, a first start',
      'docker made a directory of /run/xtables.lock, which should be a file, when a container mounted it too early',
      'a part of the manifest was not applied, or another release of it',
    ],
    look: ['ls -ld /opt/cni/bin /etc/cni/net.d /run/xtables.lock', 'kubectl get ds,cm -A | grep -i -e cni -e net'],
    cure:
      'mkdir -p the directory (rmdir a directory that should be a file), or apply the whole manifest of one release; ' +
      'kubelet tries again by itself',
  },
  {
    id: 'node-no-default-route',
    pattern: oneOf(
      /no default routes found in "?\/proc\/net\/route"?[^\n]{0,60}|failed to select a host interface[^\n]{0,60}/,
      /unable to select an IP from (?:default routes|lo network interface)|Unable to find suitable network address/,
      /can't get ip address of node \S+ error: [^\n]{1,80}|error: No default routes\b/,
      /no network_interface given and failed to determine interface attached to default route/,
      /malformed "ip route list default" output|Error setting up network: no default interface found/,
      /pasta failed[\s\S]{0,200}?(?:External interface not usable|Couldn't pick external interface)/,
      /submariner[^\n]{0,120}unable to find default route/,
    ),
    who: 'kube-proxy, kubeadm, kubelet or the API server (also in k3s and microk8s), runsc, pasta of podman',
    meaning: 'the node has no default route, by which these programs find out which address is its own',
    causes: [
      'a network without a way out (a lab, an air gap, an --internal network of docker)',
      'it was started before the network of the node was up, or a VPN took the route away',
    ],
    look: ['ip route show default; ip -6 route show default', 'systemctl is-enabled systemd-networkd-wait-online'],
    cure:
      'give the node a default route (one to an address that nobody has will do: ip route add default via ADDRESS), ' +
      'or tell the program its address: --node-ip, --bind-address, --advertise-address, --network=pasta:-i,NAME',
  },
  {
    id: 'node-unknown',
    pattern: oneOf(
      /(?:acquire lease|flannel|calico|cilium|kube-router|kindnet|ovn|antrea|felix|weave|spiderpool)[^\n]{0,200}\b(?:cilium)?nodes?(?:\.cilium\.io)? "[^"]+" not found/,
      /failed to identify the node by NODE_NAME[^\n]{0,60}|identify the node by (?:NODE_NAME|hostname)/,
      /\bciliumnodes?\.cilium\.io "[^"]+" not found/,
      /failed to get node "[^"]*" from API: nodes "[^"]*" not found/,
      /(?:failed to get Node with name \S+ from K8s|Failed to retrieve node info): nodes "[^"]+" not found/,
    ),
    who: 'the agent of a network',
    meaning: 'the cluster has no node of the name under which the agent asks for its own',
    causes: [
      'the name of the machine is not that of its Node object: --hostname-override, a cloud provider, a new host name',
      'the Node object was deleted, or kubelet has not made it yet',
      'Cilium: the operator, which makes the CiliumNode, does not run',
    ],
    look: ['hostname; kubectl get nodes -o wide', 'kubectl get ciliumnodes 2>/dev/null'],
    cure: 'give the agent the name of the Node object (NODE_NAME from spec.nodeName), or let kubelet register it again',
  },
  {
    id: 'agent-options',
    pattern: oneOf(
      /(?:level=fatal|\[FATAL\]|\bF\d{4} )[^\n]{0,300}?(?:--[a-z][\w-]{3,40}["'`=)]?[^\n]{0,120}(?:\brequires?\b|required|cannot|can't|conflicts?|not supported|must (?:be|not)|invalid|unsupported|mutually exclusive|not compatible)|(?:\brequires?\b|cannot|can't|conflicts?|must (?:be|not)|unsupported|invalid|not compatible)[^\n]{0,120}--[a-z][\w-]{3,40})/,
      /(?:flannel|kube-router|cilium|multus|ovnkube|antrea|kube-ovn|calico|weave)[^\n]{0,80}(?:unknown (?:shorthand )?flag:|flag provided but not defined:) \S+/,
      /(?:unknown (?:shorthand )?flag:|flag provided but not defined:) \S+ Usage of \S*(?:flannel|kube-router|cilium|multus|ovnkube|antrea|kube-ovn|calico|weave)\S*/,
      /\b(?:AWS_VPC|WARM|ENABLE|MINIMUM|FELIX|TYPHA)_[A-Z\d_]{3,60}[^\n]{0,40}(?:cannot be|must be|is not supported|is invalid)[^\n]{0,80}/,
      /(?:both enabled|both disabled)[^\n]{0,20}VPC CNI[^\n]{0,60}/,
      /allocator is not supported by this version of cilium-operator|invalid daemon configuration: [^\n]{1,120}/,
      /Either IPv4 or IPv6 addressing must be enabled|unknown IPAM mode|Invalid IPAM mode/,
      /(?:Traffic\w+Mode|AuthenticationMode|LoadBalancerMode|HostNetworkMode|tunnel type|OVS datapath type) \S+ (?:is unknown|requires|may only|is not supported|is invalid)/,
      /Failed to parse config (?:parameter|environment)[^\n]{1,120}|Invalid \(required\) config value/,
      /(?:Iptables|Nftables)MarkMask\S* doesn't cover bits|(?:Not enough|not enough) (?:iptables )?mark bits available/,
      /Unable to assign table index for (?:IPv[46] )?wireguard|Failed to parse\/validate configuration/,
      /Failed to parse (?:Felix environments|configuration (?:environment variable|file))|multiple discovery or bootstrap options/,
      /--ipalloc-(?:default-subnet|init) specified without --ipalloc-range|--awsvpc mode (?:is not compatible|requires)/,
      /(?:At most one of|You must not specify) --?\w[^\n]{1,60}(?:must be|may be) specified|--min-protocol-version must be in range/,
      /IP address allocation default subnet \S+ does not overlap with|ACCESS_KEY_ID and ACCESS_KEY_SECRET must be provided/,
      /failed to (?:get )?parse (?:the )?--service-\S+ parameter|failed to parse node port range given/,
      /vlan-uplinks must be set when using VLAN mode/,
      /IPv6 is supported only in Prefix Delegation mode|IPv4 and IPv6 are both (?:enabled|disabled)/,
      /(?:multus-(?:bin|conf)-file|cni-(?:bin|conf)-dir) is not found: [^\n]{1,120}/,
      /the CNI version is a mandatory parameter when the '-multus-config-file=auto'/,
      /invalid argument "[^"\n]{0,80}" for "?--(?:metrics-bind-address|healthz-bind-address|cluster-cidr|node-?port-addresses|detect-local-mode|proxy-mode|ipvs-[a-z-]{3,20}|iptables-[a-z-]{3,20})[" =][^\n]{0,120}/,
      /need to specify a mode for ovnkube|kubernetes service-cidrs (?:is required|must contain)|invalid gateway mode "[^"]*": expect/,
      /feature gates?(?: to)?(?: must)? be enabled|(?:is not|only) applicable to the \S+ mode|Node IPv[46] CIDR mask size \d+ is invalid/,
      /Failed to validate: Service CIDR (?:v6 )?\S+ is invalid|GRE tunnel type is not supported for IPv6|OVS IPsec monitor does not seem to be running/,
    ),
    who: 'the agent of a network',
    meaning: 'the agent ends at its start: it refuses an option, or two that do not go together',
    causes: [
      'a setting of an older or newer release is left in its ConfigMap, its chart or its manifest',
      'an option wants another one, or something of the kernel or the machine',
    ],
    look: ['kubectl -n NAMESPACE get ds NAME -o yaml | grep -A40 -e args: -e env:', 'kubectl -n NAMESPACE get cm'],
    cure: 'correct the option that is named; after an update apply the whole manifest or chart of that release',
    needsNetwork: true,
  },
  {
    id: 'cilium-start',
    pattern: oneOf(
      /Error while (?:creating|initializing) daemon|daemon creation failed|failed while reinitializing datapath/,
      /Unable to allocate router IP[^\n]{0,160}|Cilium cannot start daemon|unable to find ENI (?!that matches)\S+/,
      /Agent pipe unexpectedly closed|msg="?(?:Failed to start hive|Start hook failed)|failed to start: daemon creation failed/,
    ),
    who: 'the cilium agent',
    meaning: 'the agent of this node ended while it started: the words after it say at which step',
    causes: [
      'it was killed by its startup probe while it built its programs: a slow node, a low CPU limit ("context ' +
        'canceled", "signal: killed")',
      'it found no device, no address for itself, or no interface of the cloud (ENI) yet',
      'the kernel lacks what a setting wants',
    ],
    look: [
      'kubectl -n kube-system logs ds/cilium -c cilium-agent --previous | grep -e level=fatal -e level=error',
      'kubectl -n kube-system get pods -o wide -l name=cilium-operator',
    ],
    cure:
      'do what the last words name; a slow node: raise startupProbe.failureThreshold and the CPU limit; an ENI that ' +
      'is late comes by itself',
    wraps: true,
  },
  {
    id: 'multus-start',
    pattern: oneOf(
      /failed to (?:create|start) (?:the )?(?:configuration|config) manager[^\n]{0,160}|failed to start the CNI server using socket[^\n]{0,160}/,
      /failed to (?:generated?|persist|regenerate|gather) the multus configuration[^\n]{0,160}/,
      /cannot (?:create|save|close|flush|encode|write|open|replace|get)[^\n]{0,40}(?:multus cni|multus\.d|multus-cni-conf-dir|master CNI config)[^\n]{0,160}/,
      /failed to (?:create pod info socket directory|listen on pod info socket|unmarshall the daemon configuration)[^\n]{0,160}/,
      /failed to (?:load|reload|read) bootstrap kube(?:config|) ?[^\n]{0,120}|failed to create client from per-node kubeconfig/,
      /failed to (?:create|update) multus (?:config|kubeconfig)[^\n]{0,160}|failed at (?:multus copy|copy multus conf file)[^\n]{0,160}/,
      /certificate was not signed, last cert store err|error getting perNodeClient[^\n]{0,120}/,
      /startMultusDaemon failed to load[^\n]{0,160}|failed to ready multus-daemon socket[^\n]{0,100}|failed start the multus thick-plugin listener[^\n]{0,160}/,
      /failed to prepare the cni-socket for communicating with the shim[^\n]{0,120}|CNI monitoring error[^\n]{0,120}|cert directory "[^"]*multus[^"]*"/,
    ),
    who: 'Multus',
    meaning: 'the Multus pod of this node ended while it started, so pods get no network here',
    causes: [
      'the default network has not written its file, or it is none that Multus reads',
      'a directory of the node is read-only, or not mounted into the pod',
      'certificates of the node (perNodeCertificate): the request was not signed',
    ],
    look: ['kubectl -n kube-system logs ds/kube-multus-ds --previous --tail=20', 'ls -l /etc/cni/net.d /opt/cni/bin'],
    cure: 'do what the words behind it name; the pod starts again by itself',
    wraps: true,
  },
]
