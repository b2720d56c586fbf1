// SPDX-License-Identifier: Apache-2.0
// By which words a line is known as one of an agent's log, where it names no plugin.

import { oneOf } from '../known/known-error.ts'

/** An option that no program but an agent of a network has, refused: a manifest of another release. */
export const agentOptions =
  /(?:unknown (?:shorthand )?flag:|flag provided but not defined:|unknown option) ["'`]?--?(?:consul(?<=(?:DaemonSet|cilium)[^\n]{0,120})|kvstore(?:-opt)?|etcd-config-path|disable-ipv4|disable-k8s-services|k8s-api-server|k8s-kubeconfig-path|k8s-require-ipv[46]-pod-cidr|bpf-(?:root|lb-\S{2,40}|ct-\S{2,40}|map-\S{2,40})|enable-ipv[46]-masquerade|enable-(?:bpf-masquerade|remote-node-identity|host-reachable-services|endpoint-health-checking|l7-proxy)|kube-proxy-replacement\S{0,30}|auto-direct-node-routes|(?:ipv4-)?native-routing-cidr|tofqdns-\S{2,40}|synchronize-k8s-nodes|cluster-pool-ipv[46]-\S{2,20}|cni-chaining-mode|sidecar-istio-proxy-image|kube-subnet-mgr|ip-masq|iface-regex|iface-can-reach|iptables-forward-rules|net-config-path|run-(?:router|firewall|service-proxy|loadbalancer)|advertise-(?:cluster|external|loadbalancer)-ip|enable-(?:ibgp|overlay|pod-egress)|overlay-type|nodes-full-mesh|peer-router-\S{2,20}|cluster-asn|netpol-default-deny|multus-(?:conf-file|kubeconfig-file-host|autoconfig-dir|master-cni-file-name|log-\w{4,8})|namespace-isolation|ipalloc-range|no-masq-local|default-exclude-ips|node-switch(?:-cidr)?|pod-nic-type|felix-(?:live|ready)|bird6?-(?:live|ready))\b[^\n]{0,60}/

/**
 * Names of agents and of what only they work on, file names of their logs (kube-router), and the frames of Calico's
 * ("[FATAL][29] startup/startup.go") and Cilium's ("subsys=daemon").
 */
export const agentWords = oneOf(
  /direct routing device|TryLoadPodDelegates|kube-peers|BPF filesystem|path "\/sys\/fs\/bpf"|\bbpffs\b|\bipamd\b/,
  /error communicating with apiserver|aws-k8s-agent|aws-node\b|network[- ]policy[- ]agent|azure-cns|kuryr|ovs-vsctl/,
  /ovnkube|ovsdb|\bbr-int\b|\[(?:INFO|WARNING|ERROR|FATAL|PANIC)\]\[\d+\]|\bsubsys=|\bmodule=(?:agent|operator|clustermesh)\b|kindnet|IPPool|daemon creation failed|\bBPF maps?\b|remotedialer|\bnetd\b|when ensuring |\bk3s\b|\brke2\b/,
  /cluster-?CIDR|pod ?CIDR|network_\w+_controller\.go|subnet ?manager|regist(?:er|ering) network\b/,
  /volume "bpf(?:-?maps|-?fs|fs)"|Failed calling DescribeInstanceTypes for |awsutils/,
  /network (?:policy|routes?|services?) controller|\bovn[ns]b_db\b|RouteController/,
  /FileExisting-(?:conntrack|ip|ip6?tables|ebtables|ethtool|socat|tc|nft)\]|requires conntrack to be installed/,
  /inject routes? due to|Reached maximum retries obtaining node list|\bip ?set:? (?:&\{\{)?KUBE-|chain "KUBE-/,
  /minimal supported kernel version is[^\n]{0,200} subsys=/,
  /desc = Could not (?:add|delete|get) (?:route|link|interface)|IP v[46] route \(src:/,
  /version `GLIBC_[\d.]+' not found(?! \(required)|\bip ?sets?\b[^\n]{0,80}: ipset v\d/,
  /Set (?:KUBE|cali|felix|weave)\S+ doesn't exist|istio-inpod|virt-launcher|plugging phase\d/,
  /\bnsx[_-](?:node|ncp|ujo|container)/,
  /Error running agent: error (?:initializing|creating|connecting|getting|listing)|error initializing agent: |initialize IPv[46] allocator|overlaps with existing route \S+ on host/,
  /net-attach-def|\bsubmariner\b|\bGlobalCIDR\b|LogicalPort|EgressIP\b|kubeovn|ValidatePodNetworkFailed|AcquireAddressFailed|providernetwork|ovn-encap-ip|\bbr-ex\b|networkPolicyOnly|Node IPv[46] CIDR mask size|openshift-(?:network|multus|ovn)/,
  /\bopenvswitch\b|ovs-vswitchd|\|(?:bridge|dpif|dpif_netlink|ofproto|daemon_unix)\|(?:WARN|ERR|EMER)\||\bofproto\b|could not open network device|\bhostproc\b|\bip tunnel add\b|\bipvs\b/,
  /controller_utils\.go:\d+\] Error while processing Node|remaining CIDRs left|->\[\S+:\d+\S*\]:? |OpenFlow|ipalloc-range|network\.openshift\.io|HostSubnet|clusternetworks?\b|kube-ovn|is conflict with (?:subnet|cidr)|subnet \S+ cidr \S+ conflicts? with |tigera|overlay MTU|\bantrea|conflicts with (?:host|cluster|service) network|IPNet device|local IPs? and device|node ipv[46] address\.This|\baliyun\b/,
  /node ?controller (?:sync|to sync)|charon\b|coredns\/plugin\/kubernetes|Failed to (?:list|watch) \*(?:\w+\.)?(?:Service|Endpoints|EndpointSlice|NetworkPolicy)\b/,
  /\binvalid CIDR [\d.a-f:]+: invalid CIDR address|Error allocating IP:|range set \d+ overlaps with \d+/,
  /bits after network prefix are not all zero|add qdisc for network index|failed to set gateway\b|Error adding network: /,
  /appropriate master "|may not access \/proc\/\d+\/ns\/net|in sandbox interface because it conflicts/,
  /could not find free subnet|non-overlapping subnet|no matching subnet |secondary ip address |free private network subnets|to find free subnet|shim task: [^\n]{0,160}update_?\s?routes?/,
  /\b(?:cluster|service) CIDR\b|(?:pod|service)Subnet: |HTTPProxy(?:CIDR)?\]|Network is already in use by interface|during fingerprinting|Hairpin setup failed/,
  /Failed to sync endpoint for service|kube-ipvs0|\bIPVS\b|fwmark \d+|network with name \S+ already exists/,
  /Charon daemon not found|\badd_routes: |network policy controller|setting up network: |\bkubelet\b[^\n]{0,80}node IP/,
  /SetNetworkStatus|SetPodNetworkStatus|in out of cluster comm|no available ip addresses on network/,
  /\b(?:Trunk|Branch) ?ENI|vpc-resource-controller|device-number of eni|\bENIs?\b[^\n]{0,120}EC2Metadata|rpc\/rpc\.pb\.go/,
  /(?:instance metadata|network\/interfaces\/macs)[^\n]{0,160}EC2Metadata|aws-ebpf-sdk|maps\/loader\.go|ebpf\/bpf_client\.go/,
  /AZURE-NPM|azure-npm|\bhcloud\/|168\.63\.129\.16|istio-cni|linkerd-cni|kuma-cni|mesh dataplane|host addressSet|ambient nodeagent/,
  /ServiceCidr|IPCidrRange|compute\.(?:subnetworks|networks|routes|addresses|firewalls)\.|ebpf-client|ecs-ipam|aborting firewall configuration/,
  /ENIConfig|imds metadata|(?:WARM|MINIMUM)_(?:IP|ENI|PREFIX)_TARGET/,
  /https:\/\/(?:10\.\d{1,3}\.0|10\.152\.183|172\.(?:20|30)\.0)\.1:443\/(?:apis?|version|(?:health|ready|live)z)\b[^\n]{0,160}(?:dial tcp|i\/o timeout|request canceled|deadline exceeded|TLS handshake timeout)/,
  /(?<!https?:\/\/[a-z][^\n]{0,300})dial tcp (?:10\.(?:3|32|43|68|96|100|233|245|254)\.0|10\.152\.183|172\.(?:20|30)\.0)\.1:443: |error connecting to datastore - retry|use 'rmpeer' if they are dead/,
  /" for "--(?:metrics-bind-address|cluster-cidr|node-?port-addresses|detect-local-mode|proxy-mode|ipvs-[a-z-]{3,20}|iptables-[a-z-]{3,20})" flag/,
  agentOptions,
  /error contacting APIServer: [^\n]{1,240}; trying with |\b(?:ENI|eni) eni-[\da-fx]{3,17}\b|\bENI yet \(attempt|InvalidNetworkInterfaceID\.NotFound/,
  /failed to call (?:ec2|eks):\w+ due to missing permissions|discoverCustomSecurityGroups|\b(?:bird|tunl)\S{0,12}\.(?:cfg|toml|template)\b/,
  /comm="?(?:bpftool|cilium|calico|felix|aws-eks-na|flanneld|antrea)[^\n]{0,300}tclass=bpf\b/,
  /\bdanm|coreos\.com\/network\/|Static IP allocation failed|CNI Genie|rootlesskit|TC probe for|linkerd[-_](?:init|cni|network)|istio-(?:init|cni|validation)|kuma-(?:init|cni)/,
)
