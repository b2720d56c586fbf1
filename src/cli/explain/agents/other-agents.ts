// SPDX-License-Identifier: Apache-2.0
// Of agents that fewer clusters have: speakers of BGP, Contiv, Submariner, Romana; and of what kube-router makes.

import { type KnownError, oneOf } from '../known/known-error.ts'

/** Errors of further agents. */
export const otherAgentErrors: readonly KnownError[] = [
  {
    id: 'bgp-peer-unknown',
    pattern: /can't find configuration for a new passive connection(?: from)?[^\n]{0,80}/i,
    who: 'GoBGP, in kube-router, Cilium and others',
    meaning: 'a router or node opens a BGP session to this node, which has no peer of that address: it is refused',
    causes: [
      'the other one knows this node already, and this one not yet that: harmless right after a start',
      'the peer comes from another of its addresses than the one that is configured here',
      'it is no node of the cluster (any more), or not in its full mesh',
    ],
    look: ['kubectl get nodes -o wide', 'gobgp neighbor 2>/dev/null; ss -Htn sport = :179'],
    cure: 'nothing when it ends after a minute; else give both sides the addresses that they really use',
  },
  {
    id: 'contiv-endpoint',
    pattern: oneOf(
      /Error (?:creating|deleting|removing|updating|setting) (?:veth pairs|local port \S+|endpoint \S+ from ofnet|VTEP port \S+|vlan switch|link \S+ (?:up|mtu))\b[^\n]{0,60}\bErr: /,
      /OVS operation failed for op: |Failed to setup contiv nodeport chain/,
      /Error creating EP; Err: [^\n]{1,60}|\b(?:Add|Del)Endpoint returned \d{3}\b|\bEP create failed for pod: \S+/,
      /Endpoint (?:\S+ |operation )?(?:create|delete)(?: operation)? failed\. Error: |CreateEndpoint failure for ep: /,
      /Error (?:creating|deleting) endpoint:? [{&][^\n]{1,300}\. Err: [^\n]{1,80}|Couldnt find network \S+ in docker/,
      /(?:contiv|netplugin|msg=)[^\n]{0,60}(?:Error (?:moving to netns|setting (?:interface attributes|host access|default gateway)|creating (?:ep|port \S+)|getting (?:epg|host GW ip))\b)[^\n]{0,120}/,
      /failed to delete endpoint:? \S+ from net(?:plugin|master)|unable to move interface \S+ to pid \d+/,
      /error making \w+ request\. all masters failed|Netplugin exiting due to error|No leader node found/,
      /Error (?:creating|adding|deleting) (?:ofnet|VTEP port|local port|uplink|host ?port)\b[^\n]{0,160}\bErr: [^\n]{1,80}/,
    ),
    who: 'the plugin of Contiv',
    meaning: 'netplugin of this node could not make or remove the endpoint of the pod; its log says why',
    causes: [
      '"Flow … already exists": the flows of a pod that had the address before were left in Open vSwitch',
      'its DEL did not come through, or the pod was moved by force',
      'netmaster, etcd or Open vSwitch does not answer it',
    ],
    look: [
      'kubectl -n kube-system get pods -o wide | grep contiv',
      'ovs-ofctl -O OpenFlow13 dump-flows contivVlanBridge',
    ],
    cure: 'restart the netplugin pod of this node, which writes its flows anew. Contiv has no maintainer any more',
  },
  {
    id: 'submariner-interface',
    pattern: oneOf(
      /unable to find CNI Interface on the host which has IP from [^\n]{1,80}/,
      /Error discovering the CNI interface\b[^\n]{0,120}/,
      /Error obtaining CNI IP address - health check functionality/,
    ),
    who: 'the gateway or route agent of Submariner',
    meaning: "no interface of this node has an address from the cluster's range, by which Submariner finds the pods",
    causes: [
      'the network gives the node itself no address of that range (Calico and Cilium with routes alone, OVN)',
      'the cluster range that was given to `subctl join` is not that of the pods',
      'no pod runs on the node yet, so that flannel or bridge have not made cni0',
    ],
    look: ['ip -br addr', "kubectl get nodes -o custom-columns='NODE:.metadata.name,PODCIDR:.spec.podCIDR'"],
    cure: 'join with the right --clustercidr; where the network has no such interface, with --health-check=false',
  },
  {
    id: 'tunnel-exists',
    pattern: oneOf(
      /\badd tunnel "[^"]*" failed: File exists/,
      /Failed to create tunnel interface \S+[^\n]{0,40}(?:file exists|exit status \d)/,
    ),
    who: 'kube-router, by ip tunnel',
    meaning: 'the node has a tunnel to that other node already, under another name, so no second one can be made',
    causes: [
      'an earlier release of kube-router, or another network (Calico), left its tunnels',
      'the other node was made anew and has the address of the one before',
    ],
    look: ['ip -d tunnel show', 'kubectl get nodes -o wide'],
    cure: 'ip tunnel del the one that has the same remote address, and restart the kube-router pod of this node',
  },
  {
    id: 'ipvs-refused',
    pattern: oneOf(
      /failed to (?:create|add|update|delete) (?:an? |the )?(?:stale )?ipvs (?:service|server|destination)\b[^\n]{0,200}/,
      /failed to (?:create new|update (?:the )?scheduler(?: flags)? for(?: the)?|set persistence for|update persistence flags for) service [^\n]{1,120} due to:? [^\n]{1,80}/,
      /failed to update ipvs (?:persistence|scheduler flags)[^\n]{0,160}|failed get list of ipvs services due to/,
      /Failed to (?:add|update|list|get|delete|sync) (?:the )?IPVS (?:service|destination)s?\b[^\n]{0,160}|parseIP Error ip=\[[^\]\n]*\]/,
      /could not get IPVS (?:services|destinations): [^\n]{1,60}|proxier\.go:\d+\] "?Failed to sync service"? ?(?:, error: |err=)[^\n]{0,100}/,
      /error syncing IPVS service[^\n]{0,100}|Failed to sync endpoint for service[^\n]{0,160}/,
      /Failed to (?:create a new service|add real server \S+|delete (?:a new )?(?:service|real server \S*)) for vip \S+ fwmark \d+[^\n]{0,100}/,
      /error bind address: \S+ to interface: kube-ipvs0[^\n]{0,80}|Can't (?:initialize ipvs|get ipvs)[^\n]{0,80}/,
      /Failed to (?:add|update|delete) (?:IPVS|virtual|real) (?:service|server)"? [^\n]{0,160}/,
    ),
    who: 'kube-router, kube-proxy or docker swarm, of IPVS in the kernel',
    meaning: 'the kernel refused a virtual service or one of its servers, so that service does not work on this node',
    causes: [
      '"file exists": it is there already: kube-proxy and kube-router both do services here, or one was replaced',
      '"no such file", "no such process", "protocol not supported": the module ip_vs, or that of the scheduler, is ' +
        'not loaded',
      '"parseIP Error": the kernel (3.10 of CentOS 7) is older than what kube-proxy of 1.18 and later reads',
      'a node port on an address that came or went in that moment',
    ],
    look: ['ipvsadm -Ln | head -40', 'kubectl get ds -A | grep -e kube-proxy -e kube-router', 'lsmod | grep ip_vs'],
    cure:
      'load ip_vs and ip_vs_rr (modprobe); let one program do services; when the other one is gone, ipvsadm --clear, ' +
      'and restart the one that stays; on an old kernel use iptables mode',
    needsNetwork: true,
  },
  {
    id: 'antrea-controller',
    pattern: oneOf(
      /configmaps? "antrea-ca" not found|\bAntrea client is not ready/,
      /\/apis\/[\w.]{1,40}\.antrea\.(?:io|tanzu\.vmware\.com)\/[^\n]{1,240}dial tcp [^\n]{1,60}/,
      /Failed to start watch, please ensure antrea service is reachable/,
      /Didn't get (?:CA certificate|Endpoint URL for Antrea Service), skip updating/,
      /(?:error|failed to) get(?:ting)? antrea client: [^\n]{1,120}/,
    ),
    who: 'the antrea agent',
    meaning: 'the agent has no way to antrea-controller yet: its certificate or its service is not there',
    causes: [
      'antrea-controller does not run: it writes the ConfigMap antrea-ca when it starts',
      'the node cannot reach the service `antrea` (443): kube-proxy, a firewall',
    ],
    look: [
      'kubectl -n kube-system get pods -o wide -l component=antrea-controller',
      'kubectl -n kube-system get cm antrea-ca; kubectl -n kube-system get svc,endpoints antrea',
    ],
    cure: 'make antrea-controller run; the agents try again by themselves. Pods get addresses without it, no policies',
  },
  {
    id: 'romana-agent',
    pattern: oneOf(
      /Unable to fetch list of hosts using '|run-romana-agent: entrypoint|error connecting to romana daemon/,
      /Unable to find Romana Service\. Environment|Romana etcd endpoints must be provided/,
      /Ensure NODE(?:IP|NAME) is specified in your daemonset for romana-agent/,
      /topology service[^\n]{0,80}no host information found|cni config not installed as other configs exist|Failed to (?:create|install ip address on) romana-gw/,
      /Failed to (?:hook pod \S+ to|start watching for blocks|subscribe to) Romana|Failed to make [`"]romana[`"] alias/,
      /can't apply Romana policies|romana VIP error|romana[^\n]{0,80}Essential sysctls not set|Essential sysctls not set, consider/,
      /type="romana"[^\n]{0,60}failed \(\w+\): (?:Failed to allocate IP|No more IPs available|Failed to discover a pod)/,
    ),
    who: 'the agent of Romana',
    meaning: 'Romana of this node does not start, or pods get nothing of it: an option or romana-daemon is missing',
    causes: [
      'romana-daemon or its etcd does not run, or kube-proxy does not translate its service address on this node',
      'the manifest is edited or of another release: ROMANA_SERVICE_HOST, NODEIP or the root URL is missing',
      'another network has its configuration in /etc/cni/net.d already',
    ],
    look: ['kubectl -n kube-system get pods,svc -o wide | grep romana', 'ls /etc/cni/net.d'],
    cure: 'make romana-daemon and its etcd run first, then the agent. Romana has no maintainer any more: plan to leave',
  },
  {
    id: 'vpp-not-running',
    pattern: oneOf(
      /(?:Cannot|cannot) connect to VPP\b[^\n]{0,200}|Cannot create VPP client: [^\n]{1,120}/,
      /VPP API socket file \S+ does not exist|Cannot connect to VPP stats segment[^\n]{0,120}/,
      /Vpp [Mm]anager not (?:started|ready)[^\n]{0,80}|\bVPP(?:\(\S*\))? run failed with [^\n]{1,120}/,
      /\bvpp\b[^\n]{0,80}EAL: (?:Cannot get hugepage information|No (?:available|free) (?:\d+ kB )?hugepages)[^\n]{0,80}/,
      /Cannot create interface: Out of buffers[^\n]{0,120}/,
    ),
    who: 'calico-vpp-node',
    meaning: 'VPP, which carries the packets of this node in place of the kernel, does not run or ended',
    causes: [
      'the node has no hugepages, or fewer than VPP is given',
      'the interface in CALICOVPP_INTERFACES is not there, or its driver does not let VPP have it (vfio-pci, uio)',
      'it crashed: the log of the container vpp says where',
    ],
    look: [
      'kubectl -n calico-vpp-dataplane logs ds/calico-vpp-node -c vpp --tail=40',
      'grep -i huge /proc/meminfo; ip -br link',
    ],
    cure:
      'correct the interface and its driver in calico-vpp-config; sysctl -w vm.nr_hugepages=512 (keep it in ' +
      '/etc/sysctl.d) and restart kubelet, which counts them at its start',
  },
  {
    id: 'danm-network',
    pattern: oneOf(
      /there are no network connections defined[^\n]{0,60}no suitable default network configured/,
      /failed to get network object for Pod:[^\n]{1,160}|none of DANM APIs have a suitable default network/,
      /no network management APIs are installed in the cluster|DANM annotation (?:cannot be parsed|is invalid)[^\n]{0,120}/,
      /there were no Devices allocated for the Pod|failed to pop devices due to:[^\n]{0,120}/,
      /requested network:\S+ of type:\S+ in namespace:\S+ does not exist|\b(?:devicePool|allocatedDevices) is empty/,
    ),
    who: 'DANM',
    meaning: 'the pod names no network of DANM, or one that is not there',
    causes: [
      'the annotation danm.k8s.io/interfaces is missing, and there is no network with the name default',
      'the DanmNet, TenantNetwork or ClusterNetwork is in another namespace or was removed',
      'a network of SR-IOV, and the pod does not request its device_pool',
    ],
    look: ['kubectl get danmnets,tenantnetworks -A; kubectl get clusternetworks', 'kubectl get danmeps -A'],
    cure: 'correct the annotation, or make the network that it names; then delete the pod',
    wraps: true,
  },
]
