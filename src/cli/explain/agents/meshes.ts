// SPDX-License-Identifier: Apache-2.0
// Of the plugins of service meshes, which stand behind a network's own plugin, and of OpenShift SDN.

import { type KnownError, oneOf } from '../known/known-error.ts'

/** Errors of the plugins of istio, linkerd and their like, and of OpenShift SDN. */
export const meshErrors: readonly KnownError[] = [
  {
    id: 'istio-ztunnel',
    pattern: oneOf(
      /no ztunnel connection|failed to wait for ztunnel connection/,
      /ztunnel (?:connection broken|protocol error|responded with an ack error)/,
      /(?:partial add error|failed to (?:add pod to|delete pod from) ztunnel)[^\n]{0,120}|context expired before (?:request sent|response received)/,
      /(?:istio|ztunnel)[^\n]{0,300}connection closed before (?:request sent|response received)/,
      /(?:add-workload|snap-sent|del-workload): got ack error[^\n]{0,120}/,
      /Unable to send pod to ztunnel[^\n]{0,160}|timed out waiting for valid ztunnel response[^\n]{0,80}/,
    ),
    who: 'the istio-cni plugin, in ambient mode',
    meaning: 'istio-cni of this node could not hand the pod to ztunnel',
    causes: [
      'ztunnel does not run on this node, or not yet: it starts still, is drained or updated, or crashes',
      'istio-cni and ztunnel are of releases too far apart',
      'the socket between both (/var/run/ztunnel/ztunnel.sock) is not mounted from the host into one of them',
    ],
    look: ['kubectl get pods -A -o wide -l app=ztunnel', 'kubectl -n istio-system logs ds/istio-cni-node --tail=30'],
    cure:
      'make ztunnel of this node run: kubelet tries again by itself. Update istio-cni and ztunnel together; a pod ' +
      'without istio.io/dataplane-mode: ambient does not wait for it',
  },
  {
    id: 'istio-agent',
    pattern: oneOf(
      /unable to push CNI event[^\n]{0,160}|failed to contact node Istio CNI agent[^\n]{0,120}/,
      /failed to send event request[^\n]{0,120}|istio-cni cmdAdd failed to check if pod is ambient/,
      /istio-cni\/(?:pluginevent|cni-log|log)\.sock[^\n]{0,60}/,
      /netns not provided, but is needed as pod|Failed capturing pod, will not retry[^\n]{0,160}|not found in current pod cache, retry|failed to process CNI event payload[^\n]{0,120}/,
      /in a degraded state and \S+ is not a CNI pod|netns does not contain any IP of pod \S+/,
      /istio-cni cmdAdd failed to (?:get pod IPs|read ambient config|check ambient)[^\n]{0,120}/,
    ),
    who: 'the istio-cni plugin, in ambient mode',
    meaning: 'the istio-cni agent of this node did not take the pod, or does not answer',
    causes: [
      'istio-cni-node of this node starts still, crashes or was removed, and its entry was left in the list',
      'it answered with an error of its own, which is quoted behind the status',
    ],
    look: [
      'kubectl get pods -A -o wide -l k8s-app=istio-cni-node',
      'kubectl -n istio-system logs ds/istio-cni-node --tail=30',
    ],
    cure:
      'make istio-cni-node of this node run; where istio is gone, take the entry istio-cni out of the list in ' +
      '/etc/cni/net.d',
    wraps: true,
  },
  {
    id: 'istio-probes',
    pattern: oneOf(
      /failed (?:to add pod to|adding ip \S+ to|to sync host) addressSet[^\n]{0,160}|failed to sync host probe ipset[^\n]{0,120}/,
      /failed to (?:add|delete) IP \S+ (?:to|from) (?:the )?(?:ipset|nftables set) \S+[^\n]{0,120}|has IP collision \([^)\n]{1,60}\), pod will be skipped/,
    ),
    who: 'istio-cni-node, in ambient mode',
    meaning: "the address of a pod is not in the set of those that kubelet's probes reach past the mesh: they fail",
    causes: [
      'two pods of the node have one address: one of them is gone, and the network gave its address again',
      'the node lacks ip_set (or nft sets), or the set was flushed by another program',
    ],
    look: [
      'ipset list istio-inpod-probes-v4; nft list tables',
      'kubectl -n istio-system logs ds/istio-cni-node --tail=30',
    ],
    cure: 'load ip_set, ip_set_hash_ip and xt_set, restart istio-cni-node of this node: it fills the set anew',
    wraps: true,
  },
  {
    id: 'mesh-redirect',
    pattern: oneOf(
      /linkerd-cni: could not configure firewall[^\n]{0,160}|nsenterRedirect failed[^\n]{0,80}/,
      /redirect failed[^\n]{0,120}|unable to (?:setup|set up|apply) (?:traffic )?redirect[^\n]{0,80}/,
      /level=\w+ msg="?aborting firewall configuration|pod redirection[^\n]{0,40}failed[^\n]{0,60}|failed to reconcile inpod rules for pod[^\n]{0,120}/,
      /linkerd-cni: could not (?:create a Firewall Configuration|retrieve (?:overridden annotations|ports))[^\n]{0,160}/,
      /failed to (?:set up transparent proxy|inject iptables rules)[^\n]{0,160}|(?:program|failed to setup) redirection\b[^\n]{0,120}/,
      /failed to (?:initialize|retrieve|load) transparent proxy configuration[^\n]{0,160}|functionality verification failed[^\n]{0,80}|failed to add (?:branch ENI rules|(?:forward|return) ip rule for branch ENI)[^\n]{0,120}/,
      /failed to restore (?:rules (?:from file|with flush)|iptables rules)[^\n]{0,160}|annotation '(?:traffic\.)?kuma\.io\/\S{1,80}' is (?:either )?missing[^\n]{0,80}/,
      /failed to infer consistent iptables mode|conflicting iptables modes detected[^\n]{0,120}|linkerd-cni: could not (?:parse Proxy[UG]ID|convert result|parse prevResult)[^\n]{0,80}/,
      /(?:--[a-z-]{3,30} )?valid values are only "[^\n]{1,80}|must be a valid TCP port number|is not a valid (?:TCP port|lower-bound|upper-bound)|invalid port configuration of|ranges expected as <lower>/,
      /cannot confirm rules are valid because[^\n]{0,120}|failed to (?:execute iptables-save command|initialize (?:executables from|IPv6 \w+)|add IPv6 address \S+ to loopback)[^\n]{0,100}/,
    ),
    who: 'the istio-cni, linkerd-cni or kuma-cni plugin',
    meaning: "the mesh's plugin could not write the rules that lead the pod's traffic to its proxy",
    causes: [
      'iptables failed in the namespace of the pod: a module (xt_owner, xt_REDIRECT, iptable_nat) is missing',
      'the node has another kind of iptables (nft, legacy) than the plugin was told to use',
      'an annotation of the pod has ports that are none',
    ],
    look: ['modprobe -a xt_owner xt_REDIRECT iptable_nat ip6table_nat', 'iptables --version'],
    cure: "load the modules; choose the kind of iptables in the mesh's own options; correct the annotation",
    needsNetwork: true,
    wraps: true,
  },
  {
    id: 'mesh-rules-missing',
    pattern: oneOf(
      /Failed to validate networking configuration\b[^\n]{0,120}/,
      /iptables validation failed; workload is not ready for Istio|Validation failed: validation timeout/,
      /Error connecting to 127\.0\.0\.\d+:15002[^\n]{0,80}|failed to run validation: validation timeout/,
      /client failed to connect to the verification server[^\n]{0,80}|Unable to connect to validator\b[^\n]{0,120}/,
      /failed container[ =]"?(?:linkerd-network-validator|istio-validation)\b/,
    ),
    who: 'linkerd-network-validator, istio-validation (a first container of the pod)',
    meaning:
      "the pod's traffic is not led to its proxy: the rules that the mesh's plugin should have made are not there",
    causes: [
      'the pod was made before the plugin of the mesh stood in the list of the node: a new node, a restart of both',
      'the network wrote its list anew, and the entry of the mesh is gone',
      'another program takes the traffic before the rules (Cilium without socketLB.hostNamespaceOnly)',
    ],
    look: [
      'grep -l -e istio-cni -e linkerd-cni -e kuma-cni /etc/cni/net.d/*',
      'ip netns exec NETNS iptables-save -t nat | grep -i -e istio -e proxy_init -e mesh',
      'kubectl get pods -A -o wide | grep -e istio-cni -e linkerd-cni -e kuma-cni',
    ],
    cure:
      'see that the entry of the mesh is in the list, and delete the pod: a new one gets the rules. The repair ' +
      'controllers of Istio and Linkerd do that by themselves',
  },
  {
    id: 'mesh-rules-exist',
    pattern: oneOf(
      /-N (?:ISTIO|PROXY_INIT|LINKERD|KUMA|MESH|OSM|CONSUL)_\w+[^\n]{0,100}Chain already exists/,
      /Chain [`'"](?:ISTIO|PROXY_INIT|LINKERD|KUMA|MESH|OSM|CONSUL)_\w+['"] already exists/,
      /iptables-restore[^\n]{0,120}(?:ISTIO|PROXY_INIT|KUMA_MESH|MESH)_\w+[^\n]{0,60}already exists/,
    ),
    who: "the mesh's first container or plugin",
    meaning: 'the rules that lead the traffic to the proxy are in the pod already, so making them fails',
    causes: [
      'istio-init (or linkerd-init) ran a second time in one pod: docker prune removed its ended container, the ' +
        'machine was restarted',
      'both the plugin and the first container make them: the pod was injected before the plugin was installed',
    ],
    look: ["kubectl get pod POD -o jsonpath='{.spec.initContainers[*].name}'", 'kubectl describe pod POD'],
    cure:
      'delete the pod: a new one begins with no rules. Keep ended first containers (no docker prune on nodes), or ' +
      'use the plugin of the mesh alone; newer releases do not mind',
  },
  {
    id: 'chaining-mode',
    pattern: /Network configuration does not support key prevResult/,
    who: 'the antrea plugin',
    meaning: 'antrea stands behind another plugin in the list, and does not chain with that one',
    causes: ['a list of another network was joined with it by hand or by an installer'],
    look: ['trestle lint', 'ls /etc/cni/net.d'],
    cure: 'let antrea be the first plugin, or use its networkPolicyOnly mode, which chains with those of clouds',
  },
  {
    id: 'openshift-sdn',
    pattern: oneOf(
      /SDN network process is not \(yet\?\) available|failed to find netid for namespace[^\n]{0,80}|node SDN setup failed[^\n]{0,80}/,
      /could not complete SDN setup|SDN (?:node|master) startup failed(?!: [^\n]*(?:MTU|https:|conflicts with|ovs-|OVS))|failed to get subnet for this host: \S+/,
      /connect\([^)\n]{0,20}"\/var\/run\/openshift-sdn\/cni-server\.sock"|clusternetworks? "default" not found|could not get ClusterNetwork resource/,
      /Failed to (?:start|initialize) sdn\b|failed to validate own HostSubnet|Could not find an allocated subnet for node/,
      /netid not found for namespace|Could not find netid for namespace/,
      /error allocating (?:network|subnet) for node \S+: (?!no subnets)[^\n]{1,60}|failed to start (?:VNID|subnet) master/,
      /could not parse ofport "[^"\n]{0,20}"|failed to find pod details in OVS database|Could not reattach pod '[^']*' to SDN/,
      /HostIP \S+ for local subnet does not match|failed to obtain IP address from CNI IPAM/,
      /existing (?:node subnet|pod|service):? \S+ (?:with IP \S+ )?is not part of (?:any )?(?:cluster|service) network/,
    ),
    who: 'the plugin of OpenShift SDN',
    meaning: 'the SDN agent of this node does not run, or has not got its part of the network yet',
    causes: [
      'the sdn pod of this node starts still, crashes, or waits for Open vSwitch or for the API server',
      'the NetNamespace of the project or the HostSubnet of the node is missing: the SDN controller does not run',
      'the ranges of the cluster were changed, and nodes, pods or services of before are outside of the new ones',
    ],
    look: ['oc get pods -n openshift-sdn -o wide', 'oc get hostsubnet,netnamespace', 'systemctl status ovs-vswitchd'],
    cure: 'bring Open vSwitch and the sdn pod of this node up, then the controller; delete the pod when they run',
  },
  {
    id: 'mesh-entry-gone',
    pattern: oneOf(
      /istio-cni (?:CNI )?config file (?:modified|removed)|istio-cni plugin not found in Istio CNI config/,
      /istio owned CNI config does not exist|primary CNI config name is not specified/,
      /from primary CNI config is missing in Istio CNI config/,
      /istio-cni CNI config (?:file )?(?:removed|modified) /,
      /(?:kuma|linkerd)-cni plugin is missing in the chained config/,
      /cni config file does not exist at the specified path/,
      /CNI config file(?: \S+)? (?:removed(?: during configuration|:)|preempted by)/,
      /cannot find existing CNI network config[^\n]{0,120}|No active CNI configuration files? found/,
      /Configuration has been reconciled multiple times in a short period|failed to find kuma-cni plugin in chained config/,
      /Istio owned CNI config \S+ has lower priority than/,
      /some Kubernetes environments require customization of the CNI directory|linkerd-cni was not last in the plugins list/,
      /Kuma CNI won't be chained|chained plugin (?:requires a valid conflist|config file does not contain)[^\n]{0,40}|cni config '[^'\n]{1,80}' not found|config file does not contain kuma-cni/,
    ),
    who: 'the installer of istio-cni, linkerd-cni or kuma-cni',
    meaning: "the mesh's entry is not (or no longer) in the list of the network that it stands behind",
    causes: [
      'the network wrote its list anew (an update, a restart of its agent): the installer sees it and joins again',
      'there was no list yet when the installer came: the network starts later',
      'it looks into another directory than the runtime: k3s, rke2, microk8s and GKE have their own',
    ],
    look: ['ls -l /etc/cni/net.d; grep -l -e istio-cni -e linkerd-cni -e kuma-cni /etc/cni/net.d/*'],
    cure: "wait for its next round; else set the runtime's directories in the mesh's values (cniConfDir, cniBinDir)",
  },
  {
    id: 'mesh-install',
    pattern: oneOf(
      /error (?:initializing (?:kube client|host addressSet manager|mesh dataplane|the host rules for|the ztunnel server)|creating traffic managers|starting cni server)[^\n]{0,160}/,
      /failed to create ambient nodeagent service[^\n]{0,160}|error initializing host ipset[^\n]{0,120}/,
      /\binstaller failed: (?:create CNI config file|copy binaries|write kubeconfig)[^\n]{1,160}|istio-cni[^\n]{0,80}installer failed[^\n]{0,120}/,
      /did not wait for valid config file|nft JSON probe failed[^\n]{0,120}|CNI (?:listen|log) server (?:terminated|exiting)[^\n]{0,120}/,
      /iptables binary \S+ has no loaded kernel support and cannot be used[^\n]{0,160}|did not find iptables binary[^\n]{0,120}/,
      /error (?:occurred during cni installation|chaining CNI config, retrying)[^\n]{0,160}|unable to setup kuma CNI as chained plugin/,
      /could not locate executable 'ip6?tables\S*' with mode|missing (?:module|table): "(?:xt_\w+|ip6?\w*|nat|mangle|raw)"/,
      /linkerd-cni client err (?:with|in) [^\n]{1,160}|iptables: no suitable binaries found on PATH/,
      /cannot determine plugins from existing cni configuration|Directory does not exist\. Check if volume mount exists/,
      /(?:CNI repair could not construct|Fatal error constructing repair controller|failed (?:to createNewK8sClient|creating kube (?:client|config)))\b[^\n]{0,120}|but no nsenter binary found|no kubelet process found in \S+/,
      /failed to find valid nft or legacy executables|executables are of mixed types[^\n]{0,120}|checking installation failed - exiting|failed to (?:prepare (?:Kuma CNI configuration|kubeconfig)|write (?:standalone|updated) CNI config|write binaries to directory|copy binary files)[^\n]{0,120}/,
      /dst=\S+ is not a directory|unmarshaling conflist json failed[^\n]{0,100}|cannot (?:run|uninstall) cni\b[^\n]{0,100}|certificate authority data is zero-length|service-(?:host|port) is zero length/,
      /combined errors for copying binaries|could not (?:copy binary files|prepare (?:kubeconfig|kuma cni config))[^\n]{0,100}|can't (?:atomically write|chmod|open|stat) (?:kuma-)?cni file[^\n]{0,80}|directory is not write?able/,
      /failed to configure (?:node for )?ztunnel[^\n]{0,160}|failed to (?:add|update|del) POD(?:\([^)\n]{1,60}\))? ebpf[^\n]{0,120}|failed to (?:add|set|bring down) (?:in|out)bound tunnel[^\n]{0,120}/,
      /istio-cni[^\n]{0,80}Failed to (?:write|rename) CNI config file[^\n]{0,120}/,
    ),
    who: 'istio-cni, linkerd-cni or kuma-cni on the node',
    meaning: "the mesh's agent could not put its plugin or its rules on the node",
    causes: [
      'its directories are not those of the runtime, read-only, or not mounted (cniConfDir, cniBinDir)',
      'it may not: SELinux, a pod security level, or a missing capability',
      'the kernel lacks what its rules need: ip_set, xt_owner, xt_REDIRECT, nf_tables',
      'it does not reach the API server',
    ],
    look: [
      'kubectl get pods -A -o wide | grep -e istio-cni -e linkerd-cni -e kuma-cni',
      'modprobe -a ip_set ip_set_hash_ip xt_set xt_owner xt_REDIRECT iptable_nat ip6table_nat',
    ],
    cure: 'do what the words behind it name; then its pod goes on by itself',
    wraps: true,
    needsNetwork: true,
  },
]
