// SPDX-License-Identifier: Apache-2.0
// Of the plugins of cloud providers: their agents, and the addresses that the cloud gives.

import { type KnownError, oneOf } from '../known/known-error.ts'

/** Errors of aws-cni, azure-vnet, terway and their like. */
export const cloudErrors: readonly KnownError[] = [
  {
    id: 'rule-exists',
    pattern: oneOf(
      /failed to (?:add|set ?up)(?: [\w']+){0,2} ?rule\b[^\n]{0,120}: file exists|UpdateRuleListBySrc: (?!Success|empty)[^\n]{1,60}/,
      /setup (?:fromHostV\w+|toHostV\w+) rule[^\n]{0,120}: file exists/,
    ),
    who: 'the aws-cni plugin, or another that routes by rules',
    meaning: 'the address of the pod still has a routing rule on the node, of a pod that had it before',
    causes: ['the DEL of that pod did not reach its end', 'another program makes rules for the same addresses'],
    look: ['ip rule', 'ip route get ADDRESS'],
    cure:
      'remove the rule of an address that no running pod has: ip rule del from ADDRESS and to ADDRESS; update the ' +
      'plugin',
  },
  {
    id: 'cloud-no-address',
    pattern: oneOf(
      /all has no available ips to allocate|no available vSwitch for zone \S+/,
      /doesn't seem to have enough IPs|no free IP available in the prefix|(?<!\berr )NoAvailableAddress/,
      /PrivateIpAddressLimitExceeded|AttachmentLimitExceeded(?<!unable to attach ENI[^\n]{0,200})|not all requested ips [^\n]{0,80}available/,
      /no available (?:IP )?address(?:es)?\b(?! (?:pools|on (?:this )?(?:network|pool))|, timeout, etc)|IPAM pool is (?:full|exhausted)/,
      /failed to assign an IP address to container(?!"\s{0,8}\}"?: ?invalid character)|not enough IPs available|AssignPodIPAddress: no available IP/,
      /DataStore has no available IP|Failed to allocate (?:address|pool): No available address(?:es| pools)/,
      /no available ip for pod|error get allocated eniip|InsufficientFreeAddressesInSubnet/,
      /InsufficientCidrBlocks|vSwitch[^\n]{0,40}ip exhausted|IpNotEnough|has not enough IpAddress/,
      /No more IP addresses available on network|IpAddressGenerationFailure\w*/,
      /no IPs available on any interfaces|No slot available for a trunk ENI/,
      /no valid subnets available for ENI creation|Insufficient available addresses in subnet/,
      /Subnet(?:Is)?Full(?:Error)?\b|IP_?SPACE_?EXHAUSTED\w*|too many adapters on this instance/,
      /InsufficientSubnetSize|Pre-allocated IPs \d+ exceeds IPs available \d+|InsufficientVSwitchIP/,
      /subnet does not have enough free cidr blocks|does not have enough capacity for \d+ IP addresses/,
      /does not have available private IP space in \S+ to reserve|IP space of '[^'\n]+' is exhausted/,
      /(?:AllocateIPConfig|RequestIPConfigs?) failed: no IPs? available|no IPs available, waiting on Azure CNS/,
      /SecondaryPrivateIpAddresses\w*(?:LimitExceeded|Quota)|EniPerInstanceLimitExceeded|QuotaExceeded\.(?:PrivateIp|Eni)\w*/,
      /add ip addresses exceeds? the limit|failed to increase IP address pool[^\n]{0,80}|NetworkInterfaceLimitExceeded/,
      /no available IPv[46] address in prefixes|Insufficient(?:IP|Free(?:IP|Private)\w*)\b|awsGetFreeDeviceNumber: no available device number/,
      /Skipping ENI allocation as the max ENI limit|Recently we had InsufficientCidr error|Instance is out of (?:ENIs|interfaces)|Subnet might be out of prefixes/,
    ),
    who: "the cloud provider's plugin (aws-cni, azure-vnet, terway, kube-ovn)",
    meaning: 'the node or its subnet has no address for a further pod',
    causes: [
      'the subnet of the cloud has no free address',
      'the node has as many pods as its interfaces carry addresses (the instance type decides): --max-pods of ' +
        'kubelet is larger',
      'the agent is starting still, or may not ask the cloud (role, throttling, security group): then it goes by ' +
        'itself or its log says so',
    ],
    look: [
      'kubectl get pods -A -o wide --field-selector spec.nodeName=NODE | wc -l',
      'tail /var/log/aws-routed-eni/ipamd.log /var/log/azure-vnet*.log /var/log/azure-cns*.log',
    ],
    cure:
      'larger or further subnets; --max-pods as the instance type has it; prefix delegation (AWS) or overlay mode ' +
      '(Azure)',
  },
  {
    id: 'azure-cns',
    pattern: oneOf(
      /(?:RequestIPConfigs?|AllocateIPConfig|RequestIPAddress\w*) failed/,
      /failed to request IPs? (?:address(?:es)? )?from CNS/,
      /failed to get (?:IP address|network container)[^\n]{0,40} from (?:Azure )?CNS/,
      /no NCs? found in (?:the )?CNS|CNS (?:client|IPAM)[^\n]{0,80}(?:failed|error|refused|deadline)/,
      /(?:localhost|127\.0\.0\.1):10090[^\n]{0,100}(?:refused|deadline|timeout|EOF)/,
      /Failed to (?:request|release) IP address from CNS[^\n]{0,160}/i,
      /Failed to start CNS, err[^\n]{0,120}|Failed to start CRD Controller, err[^\n]{0,120}/,
      /failed to (?:reconcile|initialize) CNS (?:IPAM )?state[^\n]{0,120}|\bCNS\b[^\n]{0,80}NodeNetworkConfig[^\n]{0,80}not found/,
      /no network containers found in NNC status|Asynchronous CNS delete failed[^\n]{0,80}/,
      /:10092\/(?:readyz|healthz|livez)"?: [^\n]{1,120}/,
    ),
    who: 'the azure-vnet plugin',
    meaning: 'azure-cns, the agent for addresses of this node, does not answer',
    causes: ['its pod starts still or crashes: it waits for its NodeNetworkConfig, or for the API server'],
    look: ['kubectl -n kube-system get pods -o wide -l k8s-app=azure-cns', 'tail /var/log/azure-cns*.log'],
    cure: 'make azure-cns of this node run; its log says what it waits for',
  },
  {
    id: 'azure-state-locked',
    pattern: oneOf(
      /Failed to initialize key-value store of network plugin[^\n]{0,100}|timed out locking store|\bErrorMessage Store is locked\b|\[cni[\w-]{0,8}\] Failed to lock store/,
      /Failed to (?:start (?:IPAM|network) plugin|initialize (?:network manager|ipam manager|key-value store)), err: ?(?:invalid character|unexpected end of JSON)/,
    ),
    who: 'the azure-vnet plugin',
    meaning: 'the plugin could not open its state: another call, or a dead one, holds the lock, or it is no JSON',
    causes: [
      'a call hangs, or was killed, and /var/run/azure-vnet.json.lock is left',
      'so many pods at once that each waits for the one before',
      'the state file is empty or cut short, after a full disk or a restart',
    ],
    look: ['ls -l /var/run/azure-vnet*', 'pgrep -af azure-vnet', 'tail /var/log/azure-vnet.log'],
    cure: 'when no azure-vnet runs: rm /var/run/azure-vnet.json.lock, and an empty state file; the next try works',
  },
  {
    id: 'azure-address-space',
    pattern: oneOf(
      /Failed to allocate (?:v6 )?pool: (?:Failed to delegate: Failed to allocate pool: )?(?:Invalid address (?:space|pool)|Invalid scope|Address pool not found)/,
      /Failed to (?:delegate: Failed to )?(?:allocate|release) address: (?:Invalid address (?:space|pool)|Address pool not found)/,
    ),
    who: 'the azure-vnet-ipam plugin',
    meaning:
      'azure-vnet-ipam knows no subnet with addresses for the pods of this node, of the family that is asked for',
    causes: [
      'the host (168.63.129.16) has not told it the addresses of the interface yet, or cannot be reached',
      '"v6 pool": the node has no IPv6 range: the cluster or this node is not dual-stack',
      'its state is from before, of other subnets (/var/run/azure-vnet-ipam*.json)',
    ],
    look: [
      'tail -n 40 /var/log/azure-vnet-ipam.log',
      'kubectl get nodes -o custom-columns=N:.metadata.name,R:.spec.podCIDRs',
    ],
    cure: 'wait for the next try; where it stays, give the node the addresses or the IPv6 range, or replace the node',
  },
  {
    id: 'terway-busy',
    pattern: /error alloc ip from grpc call[^\n]{0,200}resource processing|pod \S+ resource processing/,
    who: 'the terway plugin',
    meaning: 'the agent still works on an earlier call for the same pod',
    causes: ['the cloud is slow to attach an interface or address, and kubelet asked again meanwhile'],
    look: ['kubectl -n kube-system logs ds/terway-eniip -c terway --tail=30'],
    cure: 'wait: the call that runs decides; when it stays, the log of terway names what the cloud refuses',
  },
  {
    id: 'cloud-refused',
    pattern: oneOf(
      /(?:set|setting|disable) (?:source-destination-check|src-dst-check|source destination check|SourceDestCheck)\b[^\n]{0,160}/,
      /does not have necessary IAM creds to modify instance attribute|error getting ec2 (?:network-interface-id|region|instance-id)/,
      /UnauthorizedOperation: |Unauthorized operation: failed to call \w+:\w+/,
      /not authorized to perform: (?:ec2|eks|sts):\S*|NoCredentialProviders|WebIdentityErr|RequestLimitExceeded/,
      /(?:AuthFailure|AccessDenied\w*): [^\n]{0,120}|Throttling(?:Exception)?: [^\n]{0,80}/,
      /AuthorizationFailed[^\n]{0,120}|Forbidden\.RAM|ErrorCode: Throttling\S*/,
      /googleapi: Error (?:401|403|429)[^\n]{0,160}|LinkedAuthorizationFailed/,
      /(?:api error|ErrorCode:) \w*(?:Unauthorized|Forbidden|AccessDenied|InvalidClientTokenId|ExpiredToken)\w*/,
      /Required 'compute\.(?:subnetworks|networks|routes|addresses|firewalls)\.\w+' permission/,
      /no EC2 IMDS role found|hcloud\/[^\n]{1,120}\(unauthorized\)|unable to authenticate \(unauthorized\)/,
    ),
    who: "the cloud provider's API, asked by the agent of a plugin",
    meaning: 'the cloud refuses what the agent asks for: a right is missing, or it asks too often',
    causes: [
      'the role of the node or of the agent lacks its policy (AmazonEKS_CNI_Policy; for IPv6 one of your own)',
      'the trust of the role does not name the service account of the agent',
      'very many nodes start at once: the API limits requests',
    ],
    look: ['tail /var/log/aws-routed-eni/ipamd.log', 'kubectl -n kube-system get sa aws-node -o yaml'],
    cure: 'attach the policy to the role that the agent has; wait where it is only a limit',
    needsNetwork: true,
  },
  {
    id: 'cloud-route',
    pattern: oneOf(
      /Node\.Spec\.PodCIDR != cloud alias|Inconsistency detected between node PodCIDR and node alias|Error initiali[sz]ing Routes support: [^\n]{1,120}|router-id not set in cloud provider config/,
      /error configuring source-dest-check(?![^\n]{0,80}(?:Unauthorized|AccessDenied))[^\n]{0,120}/,
      /has no routes assigned to it\. NodeNetworkUnavailable|RouteController failed to create a route|Node created without a route|FailedToCreateRoute/,
      /Could not create route \S+ \S+ for node \S+[^\n]{0,160}|Couldn't reconcile node routes: [^\n]{1,200}/,
      /route_controller\.go:\d+\] (?:Unable to (?:create|delete) route|error listing routes)[^\n]{1,160}/,
      /hcloud\/(?:\w+\.)?(?:CreateRoute|DeleteRoute|ListRoutes|newRoutes)\b[^\n]{0,160}/,
      /This node is not attached to Network \S+|network with id \d+ not attached to this server/,
      /flannel[^\n]{0,120}(?:error getting EC2|ENI that matches|describing route ?tables|main route table not found)[^\n]{0,120}/,
      /unable to find ENI that matches the [^\n]{1,60}|Error registering network: [^\n]{0,40}(?:error inserting route|insert opera\w+ failed|no suitable routing table|describe route table error|Error Describe\w+)/,
      /routes are only supported for cloud servers|using Routes with Robot is not supported/,
    ),
    who: 'the route controller of a cloud provider, flanneld with a backend for a cloud',
    meaning: "the cloud has no route to the range of this node's pods: other nodes do not reach them",
    causes: [
      "the table of routes is full (AWS: 50 of a VPC's table), or has no tag of this cluster",
      'the role of the controller may not make routes, or the cloud does not know the machine by this name',
      'two nodes have one podCIDR, or a route of an earlier node has it',
      'Hetzner: HCLOUD_NETWORK names no network, the machine is not attached to it, or the range of pods is not in it',
    ],
    look: ['kubectl describe node NODE | grep -i -A3 NetworkUnavailable', 'kubectl get events -A | grep -i route'],
    cure:
      'do what the event names: raise the limit, give the right, remove routes of nodes that are gone; with a ' +
      'network that needs none (Calico, Cilium, flannel) set --configure-cloud-routes=false',
  },
  {
    id: 'cloud-metadata',
    pattern: oneOf(
      /error get url: \S+ from metaserver[^\n]{0,80}|get from metaserver failed[^\n]{0,120}/,
      /(?:169\.254\.169\.254|100\.100\.100\.200|metadata\.google\.internal)[^\n]{0,200}?(?:i\/o timeout|connection refused|deadline exceeded|no route to host|unreachable|EOF\b|status(?: code)?:? 4\d\d|no such host|Client\.Timeout)/,
      /EC2 ?Metadata (?:not available|RequestError|Error)[^\n]{0,100}|EC2MetadataError[^\n]{0,100}/,
      /failed to (?:retrieve|get)[^\n]{0,40}(?:imds metadata|instance metadata|from (?:the )?(?:IMDS|metadata service))/,
      /IMDS client is not available|EC2RoleRequestError|Aliyun Metadata API Error[^\n]{0,60}|metadata: error get [^\n]{1,80}/,
      /168\.63\.129\.16[^\n]{0,160}?(?:i\/o timeout|refused|deadline exceeded|unreachable)|wireserver call failed/,
      /get instance metadata: failed to (?:retrieve|read)[^\n]{0,120}|failed to retrieve region data[^\n]{0,80}/,
    ),
    who: "the agent of a cloud provider's network",
    meaning: "the agent does not reach the cloud's metadata service, from which it learns its machine and interfaces",
    causes: [
      'IMDSv2 with a hop limit of 1: a pod that is not on the host network is one hop further',
      'a policy, a rule or a mesh blocks or redirects the address of the service',
      'a proxy is asked for it: the address is missing in NO_PROXY',
    ],
    look: ['curl -m 3 http://169.254.169.254/ ; curl -m 3 http://100.100.100.200/', 'ip route get 169.254.169.254'],
    cure: 'make the address answer from the node and from the agent: hop limit 2, a rule, NO_PROXY',
    needsNetwork: true,
  },
  {
    id: 'terway-agent',
    pattern: oneOf(
      /error dial to terway[^\n]{0,160}|unexpect pod network type|allocate (?:remote )?IP timeout|error (?:create aliyun client|init (?:k8s service|ENI ip resource manager|eni resource manager))[^\n]{0,160}/,
      /type="terway[^"]*"[^\n]{0,60} failed \(\w+\): (?:not support this network type|failed to acquire cni lock|setup (?:eni|host veth) config|setup container,)[^\n]{0,160}/,
      /security groups should not be more than \d+|instance \S+ is not support ipv6|mismatch witch ecs security group|trunk eni id not found|(?:CniCreateENIError|CniPodCreateError|CniPodENIDeleteErr)\b[^\n]{0,160}/,
      /(?:type="terway[^"]*"|\bterway\b|\bdaemon\.go\b)[^\n]{0,200}(?:failed connect to daemon|allocate (?:remote )?IP timeout|has not been initialized|error get e(?:ni|link)|error find link)[^\n]{0,120}/,
      /(?:error (?:batch create|create trunk|get attached|wait for|list all member|describe|get trunk) enis?\b|(?:attach|create|delete|detach) eni failed)[^\n]{0,160}/,
      /no eni can handle the allocation|pod networking \S+ is not ready|eni cr phase \S+|error init vsw pool[^\n]{0,120}/,
      /nodes\.network\.alibabacloud\.com \S+ has not been initialized|validateIPInMetadata: timeout[^\n]{0,80}/,
      /(?:Create|Attach|Detach|Delete)ENIFailed\b[^\n]{0,160}|AllocIPFailed\b[^\n]{0,160}/,
      /cmdAdd: (?:error )?alloc ip[^\n]{0,120}|error alloc ip from grpc call[^\n]{0,120}|error get ip from terway[^\n]{0,120}|eth0 config is missing|no eni can handle the allocation|local delegate init failed|nodes\.network\.alibabacloud\.com \S+ has not been initialized|failed connect to daemon\b/,
    ),
    who: 'the terway plugin',
    meaning: 'the terway agent of this node answered without an address for the pod; its words say why',
    causes: [
      'the vSwitch or the quota of interfaces is used up',
      'its role lacks a right',
      'it starts still',
      'eni-config: more security groups than 5, others than those of the machine, IPv6 on a machine type without it',
    ],
    look: ['kubectl -n kube-system logs ds/terway-eniip -c terway --tail=30'],
    cure: 'do what the quoted words and the log of terway name',
    wraps: true,
  },
  {
    id: 'azure-endpoint',
    pattern: oneOf(
      /handleConsecutiveAdd failed[^\n]{0,120}|Network manager has no external interfaces[^\n]{0,40}|ipv6 snat rule not set[^\n]{0,60}|CNI error\. Delete Endpoint/,
      /(?:azure-vnet|\[cni-net\]|\[net\]|azure-container-networking)[^\n]{0,120}Failed to (?:create|attach|add|connect|apply|find (?:interface|the))\b[^\n]{1,160}/,
      /(?:Adding|Enabling|Creating|Deleting|Setting) (?:snat|infra|IPv6|ipv6|proxy arp|vlan|ovs)[^\n]{0,40} failed with[^\n]{0,120}/,
    ),
    who: 'the azure-vnet plugin',
    meaning: 'the pod has an address, and its interface or the network of the node could not be made or removed',
    causes: [
      'the interface that it uses as master is not the one of the subnet, or was renamed (accelerated networking)',
      'what an earlier pod or an earlier mode (bridge, transparent) left on the node',
      '"no external interfaces": its state (/var/run/azure-vnet.json) is empty or of before: it is made anew ' +
        'when the node starts',
    ],
    look: ['tail -n 40 /var/log/azure-vnet.log', 'cat /var/run/azure-vnet.json | head -60; ip -br link'],
    cure: 'do what the words behind it name; a node that stays so is best replaced (drain, reimage)',
    wraps: true,
  },
]
