// SPDX-License-Identifier: Apache-2.0
// Of Cilium's agent and operator, around a node: its CiliumNode, its range, its routes, its rules, its cloud.

import { type KnownError, oneOf } from '../../known/known-error.ts'

const operator = 'kubectl -n kube-system logs deploy/cilium-operator --tail=50'

/** Errors around one node of Cilium. */
export const ciliumNodeErrors: readonly KnownError[] = [
  {
    id: 'cilium-direct-route',
    pattern: oneOf(
      /route to destination(?: \S+)? contains gateway(?: \S+)?, [^\n]{1,100}|direct-routing-skip-unreachable\b/,
      /Unable to install direct node route[^\n]{0,160}|failed to enable direct routes for ipv[46][^\n]{0,120}/,
      /unable to lookup route (?:for node|to) [^\n]{1,80}/,
    ),
    who: 'the cilium agent, with auto-direct-node-routes',
    meaning: 'another node is behind a router, so a route of its pods straight to that node cannot be made',
    causes: [
      'the nodes are in more than one network (zones, subnets, VPN), and native routing with autoDirectNodeRoutes ' +
        'wants them all in one',
      'the Node object of the other node has an address of another interface (--node-ip)',
    ],
    look: ['ip route get ADDRESS-OF-THE-OTHER-NODE', 'kubectl get nodes -o wide'],
    cure:
      'let the routers know the ranges (BGP, routes of the cloud), and set autoDirectNodeRoutes with ' +
      'directRoutingSkipUnreachable: true; or a tunnel (routingMode: tunnel): the change breaks traffic between ' +
      'nodes until every agent has it, and pods keep the old MTU until they are made anew, so plan a break',
  },
  {
    id: 'cilium-node',
    pattern: oneOf(
      /(?:Unable to (?:create|update|get|synchronize|mutate)|Could not create or update) CiliumNode\b[^\n]{0,160}|Failed reconciling CiliumNode[^\n]{0,120}/,
      /Timeout while waiting for (?:Cilium)?Node resource[^\n]{0,80}|unable to derive PodCIDR via Node or CiliumNode[^\n]{0,60}/,
      /Unable to initialize local node(?: due to timeout|\. Retrying)[^\n]{0,160}|setting OwnerReference on CiliumNode is impossible/,
      /unable to connect to get node spec from apiserver[^\n]{0,160}|Could not retrieve the local node object/,
      /node name must be specified via environment variable[^\n]{0,80}|Unable to derive PodCIDR from Kubernetes node resource/,
    ),
    who: 'the cilium agent',
    meaning: 'the agent could not read or write the object of its own node, from which it has its ranges',
    causes: [
      'the operator does not run: it gives CiliumNodes their ranges',
      'the API server does not answer: look at the address that the agent uses (k8sServiceHost)',
      'the Node object is missing, has another name, or has no podCIDR (with ipam.mode kubernetes)',
      'role or CRDs are of another release than the image',
    ],
    look: [
      'kubectl get ciliumnodes; kubectl get nodes -o wide',
      'kubectl -n kube-system get pods -o wide -l name=cilium-operator',
      "kubectl get nodes -o custom-columns='NODE:.metadata.name,PODCIDR:.spec.podCIDR'",
    ],
    cure: 'make the operator run, then the agent gets on by itself; without kube-proxy set k8sServiceHost and its port',
    wraps: true,
  },
  {
    id: 'cilium-range-changed',
    pattern: oneOf(
      /unable to reallocate (?:\S+ )?IPv[46] address[^\n]{0,160}|Failed to re-?allocate IP of endpoint[^\n]{0,160}/,
      /Bypassing IP not available error on endpoint restore|Detected change of primary pod allocation CIDR|allocation CIDR is different from the previous cilium instance/,
      /Unable to delete host device \S+ to change allocation CIDR|More than one stale router IP was found/,
      /remove all other old IPs|(?:Failed to remove|failed to remove all) old router IPs|Router IP could not be re-allocated/,
      /Specified router IP is within IPv[46] podCIDR|in-use pod CIDR was removed from spec|CIDR from pool still in use by node/,
      /node has CIDRs allocated \([^)\n]{1,80}\) that conflict with requested CIDRs[^\n]{0,60}/,
      /cannot change IPv[46] mask size in existing pool|IPv[46] per node allocation prefix \([^)\n]{1,60}\) must be inside/,
    ),
    who: 'the cilium agent or operator',
    meaning: 'addresses of pods, or of cilium_host, are from another range than the one that the node has now',
    causes: [
      'the pod range of the node changed while its pods ran: deleted and joined again, or ipam.mode was changed',
      'the list of clusterPoolIPv4PodCIDRList was edited, where ranges may only be added',
      '/var/run/cilium has the state of an earlier cluster',
      '"Specified router IP", "must be inside", "mask size": the setting itself is wrong (local-router-ipv4, ' +
        'the ranges, the CiliumPodIPPool); no pod has to move',
    ],
    look: ['kubectl get ciliumnodes -o yaml | grep -A3 podCIDRs', 'ip addr show cilium_host'],
    cure:
      'a wrong setting: correct it and restart the agent; else drain the node, so that all its pods get new ' +
      'addresses, and restart it; never change ipam.mode or a range of a cluster that runs',
  },
  {
    id: 'cilium-rules',
    pattern: oneOf(
      /iptables (?:proxy )?(?:no track )?rules (?:full |incremental )?(?:reconciliation|update|install|removal) failed[^\n]{0,160}/,
      /failed to install (?:iptables(?: proxy)? rules|rules: cannot)[^\n]{0,160}|cannot (?:install|add) (?:feeder rule|(?:static )?proxy rules|forward chain rules|masquerade rules|host traffic mark|xfrm rules|pod traffic no CT|rules for ENI|custom chain)[^\n]{0,160}/,
      /unable to run '[^'\n]{1,200}' ip6?tables command[^\n]{0,160}|Unable to (?:copy|parse) (?:\w+ )?TPROXY rule[^\n]{0,120}/,
      /Unable to (?:delete|flush) Cilium \w+ (?:chain|rule)[^\n]{0,160}|unable to (?:add|flush|rename|remove|list) \w*CILIUM_\w+ chain[^\n]{0,120}/,
    ),
    who: 'the cilium agent',
    meaning: 'the agent could not write its chains with iptables, so traffic to services or out of the node may fail',
    causes: [
      'exit status 4: another program (kube-proxy, firewalld) holds the lock; the next round works',
      'exit status 2 or 3: a module is missing, or the node has another kind of iptables (nft, legacy)',
      'a firewall that was loaded anew removed the chains while the agent wrote them',
    ],
    look: [
      'modprobe -a ip_tables iptable_mangle iptable_raw iptable_filter xt_socket xt_TPROXY',
      'kubectl -n kube-system logs ds/cilium -c cilium-agent --tail=50 | grep -i iptables',
    ],
    cure: 'load the modules and keep them in /etc/modules-load.d; let one program only manage the packet filter',
    wraps: true,
  },
  {
    id: 'cilium-config-file',
    pattern: oneOf(
      /failed to (?:render|read source|modify existing) CNI config(?:uration)?(?: file)?[^\n]{0,200}|failed to write CNI configuration file at [^\n]{1,200}|(?:could not|cannot) find existing CNI config for chaining[^\n]{0,120}/,
      /no matching CNI configurations found \(will retry\)|Unable to (?:read|write) CNI configuration(?: file)?(?= to |")[^\n]{0,160}/,
      /failed to create the dir \S+ of the CNI configuration file[^\n]{0,120}|Failed to watch CNI configuration directory[^\n]{0,120}/,
    ),
    who: 'the cilium agent',
    meaning: "the agent could not write Cilium's list into /etc/cni/net.d",
    causes: [
      'chained (cni.chainingMode): the network that it stands behind has not written its own list yet, or ' +
        'cni.chainingTarget is not its name',
      'cni.configMap or readCniConf names a file that is not there',
      'the directory is read-only or not mounted: cni.confPath is not that of the runtime (k3s, microk8s, GKE)',
    ],
    look: ['ls -l /etc/cni/net.d', 'kubectl -n kube-system get cm cilium-config -o yaml | grep -i cni'],
    cure: 'make the other network run first: the agent tries again by itself; correct cni.confPath or the file',
    wraps: true,
  },
  {
    id: 'cilium-cloud',
    pattern: oneOf(
      /Unable to (?:create interface on instance|assign additional (?:private )?IPs to|synchronize (?:EC2|ECS|Azure|VPC)|retrieve (?:EC2|ECS|VPC)s? |maintain ip pool of node|undo ENI creation)[^\n]{0,160}/,
      /Unable to (?:determine limits|find limits for instance type)[^\n]{0,120}|failed to update instance limits from EC2 API[^\n]{0,80}/,
      /No matching (?:subnet|vSwitch) available for (?:ENI|interface) creation[^\n]{0,120}|No security groups match required VPC[^\n]{0,60}/,
      /instances API is unstable[^\n]{0,80}|Initial synchronization with instances API failed[^\n]{0,80}|Instance not found! Please delete/,
      /unable to initialize (?:ENI|Azure|AlibabaCloud) (?:node|instances) manager[^\n]{0,160}|Unable to (?:init|start) (?:eni|azure|alibabacloud|aws|ENI) allocator[^\n]{0,120}/,
      /Unable to retrieve (?:InstanceID|InstanceType|VPC|Zone)[^\n]{0,30} of own (?:EC2|ECS) instance|InstanceID of own \w+ instance is empty/,
      /Spec\.ProviderID in k8s node resource must[^\n]{0,60}|timed out waiting for ENIs to be attached|no unassociated EIPs found[^\n]{0,60}/,
      /None of the VPC CIDRs contains the specified native routing CIDR|Native routing CIDR does not contain VPC CIDR/,
      /could not find interface with (?:MAC|number) "[^"\n]{1,20}" in CiliumNode|unable to (?:create|attach) ENI(?: at index \d+)?: [^\n]{1,160}/,
    ),
    who: 'cilium-operator, with addresses of AWS, Azure or Alibaba',
    meaning: 'the cloud did not give the nodes the interfaces or addresses from which pods get theirs',
    causes: [
      'the role of the operator lacks a right, or the API limits its requests',
      'no subnet or security group has the tags of the settings (eni.subnetTagsFilter), or the zone of the node',
      'the kind of machine is not known to the operator: eni.updateEC2AdapterLimitViaAPI',
      '"AttachmentLimitExceeded": the operator takes the machine for one with more interfaces, or another program ' +
        'attached one (aws-node): update Cilium, let one program do it',
      'the machine is gone in the cloud, and its CiliumNode was left',
    ],
    look: [operator, 'kubectl get ciliumnodes -o yaml | grep -A20 "status:"'],
    cure: "do what the cloud's answer names; kubectl delete ciliumnode of a machine that is gone",
    wraps: true,
  },
]
