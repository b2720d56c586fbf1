// SPDX-License-Identifier: Apache-2.0
// Of AWS: the plugin aws-cni, ipamd and the agent for policies in the aws-node pod, the vpc-resource-controller.

import { type KnownError, oneOf } from '../known/known-error.ts'

/** Errors of the network of AWS. */
export const awsErrors: readonly KnownError[] = [
  {
    id: 'aws-ipamd',
    pattern: oneOf(
      /error received from AddNetwork gRPC call: rpc error: code = (?:Unavailable|DeadlineExceeded|Canceled)(?![^\n]{0,300}:5005[0-2])[^\n]{0,100}/,
      /127\.0\.0\.1:50051[^\n]{0,60}|grpc-health-probe -addr=:50051[^\n]{0,120}timed out/,
      /"msg": ?"(?:timeout|error): failed to connect service (?:at )?"[^"\n]*:50051"[^\n]{0,40}/,
      /aws-(?:node|k8s-cni|vpc-cni)[^\n]{0,300}failed to connect service (?:at )?"[^"\n]*:50051"[^\n]{0,40}/,
      /(?:add|del) cmd: failed to connect to backend server[^\n]{0,60}/,
      /failed to connect to backend server for container[^\n]{0,60}/,
      /(?:Checking for IPAM connectivity|Retrying waiting for IPAM-?D)[^\n]{0,60}/,
    ),
    who: 'the aws-cni plugin',
    meaning: 'ipamd, the agent in the aws-node pod of this node, does not answer',
    causes: [
      'aws-node starts still, crashes or fails its probe: it cannot reach the EC2 API or the API server, or its ' +
        'role lacks AmazonEKS_CNI_Policy',
    ],
    look: ['kubectl -n kube-system get pods -o wide -l k8s-app=aws-node', 'tail /var/log/aws-routed-eni/ipamd.log'],
    cure: 'make aws-node run on this node: ipamd.log says what it cannot reach',
    // The port is anybody's: kube-egress-gateway has its agent there, too.
    unless: /kube-router|gobgp|plugin type="(?!aws-cni|egress-cni|multus)[\w-]+"/,
  },
  {
    id: 'aws-delete-refused',
    pattern: oneOf(
      /failed to parse vlanId from prevResult[^\n]{0,80}/,
      /del cmd: (?:failed to process delete request|error received from DelNetwork gRPC call)/,
      /del cmd: failed (?:to delete with prevResult|on tear ?down pod network)[^\n]{0,160}/,
      /DelNetworkReply: [^\n]{0,120}(?:unknown pod|pod not found|pod UID mismatch)/,
      /Unassign(?:Pod)?IP\w*Address: Failed to find (?:pod|sandbox)[^\n]{0,120}/,
      /datastore: unknown pod|Failed to process delete request for container \S+/,
      /Failed to (?:release IP of|process DelNetwork for) container[^\n]{0,120}/,
    ),
    who: 'the aws-cni plugin',
    meaning: 'ipamd, the agent in the aws-node pod of this node, did not take the DEL of a pod, so it is tried again',
    causes: [
      'it does not know the pod (any more): it lost its state with a restart, or the pod never got an address',
      'it does not answer: see its log',
    ],
    look: ['tail /var/log/aws-routed-eni/plugin.log /var/log/aws-routed-eni/ipamd.log'],
    cure:
      'update the plugin: newer ones answer a DEL for a pod that they do not know as done. Until then only the log ' +
      'fills',
  },
  {
    id: 'aws-policy-agent',
    pattern: oneOf(
      /Failed to recover the BPF state[^\n]{0,120}/,
      /127\.0\.0\.1:50052(?!: bind)[^\n]{0,60}|failed to connect to network policy agent[^\n]{0,60}/,
      /failed to setup (?:default )?network policy[^\n]{0,80}|failed to delete pod network policy for Pod[^\n]{0,80}/,
      /(?:Failed to get network policy configs|Failed to connect to ipamd at)[^\n]{0,120}/,
      /One of the policy reconcilers is not ready|grpc-socket check failed[^\n]{0,80}/,
    ),
    who: 'the aws-cni plugin',
    meaning: 'the agent for network policies (aws-eks-nodeagent in the aws-node pod) of this node does not answer',
    causes: [
      'it crashes or starts still: an old kernel without its BPF, a port 8162 or 50052 that is taken',
      'strict mode is on (NETWORK_POLICY_ENFORCING_MODE), and the agent is not',
    ],
    look: [
      'kubectl -n kube-system logs ds/aws-node -c aws-eks-nodeagent --tail=30',
      'tail /var/log/aws-routed-eni/network-policy-agent.log',
    ],
    cure: 'make that container run; where no policies are wanted switch enableNetworkPolicy of the add-on off',
  },
  {
    id: 'aws-controller',
    pattern: oneOf(
      /eniconfig is not available|error while retrieving eniconfig[^\n]{0,120}|(?:unmarshal|parse) PodENIData\b[^\n]{0,80}|PodENIData is empty/,
      /ipamd[^\n]{0,60}\bno trunk(?: found|!)/,
      /pod does not have label vpc\.amazonaws\.com\/\S+|failed to allocate branch ENI to pod[^\n]{0,120}/,
      /Failed to get pod ENI config|pod-?ENI annotation[^\n]{0,60}(?:not found|missing|empty)/,
      /failed to get Branch ENI resource|failed to annotate pod with branch ENI details[^\n]{0,160}/,
      /No trunk ENI (?:Link Index )?found, cannot add a pod ENI|(?:node|interface) failed initializing trunk interface/,
      /(?:Failed to create trunk interface: Error Code|initializing trunk,)(?![^\n]{0,60}(?:Unauthorized|AccessDenied|Throttl|LimitExceeded))[^\n]{1,120}/,
      /Warm pool for resource \S+ is currently empty, will retry|Resource vpc\.amazonaws\.com\/\S+ are being cooled down/,
      /Insufficient vpc\.amazonaws\.com\/[\w-]+|EniConfigNameNotFound|couldn't find custom networking eniconfig name/,
      /The instance type \S+ is not supported[^\n]{0,60}(?:trunk|Windows|ENI|security groups?)/,
    ),
    who: "the plugin for VPCs, by what AWS's vpc-resource-controller tells it",
    meaning: 'the controller has not written into the pod which address or branch interface it gets',
    causes: [
      'a pod with a security group: the machine type has no branch interfaces, the node has no trunk yet, or all of ' +
        'them are used',
      'the controller could not write into the pod: a webhook or the API server refused the change',
      'the role of the cluster lacks AmazonEKSVPCResourceController',
      'Windows: enable-windows-ipam is not set in amazon-vpc-cni, or the old controller and its webhook do not run',
      'custom networking: the ENIConfig that the label of the node names (its zone) is not there',
    ],
    look: [
      'kubectl get events -A | grep -i -e eni -e SecurityGroup',
      'kubectl get node NODE -o yaml | grep -i pod-eni',
    ],
    cure: 'do what the event of the controller says; use a machine type with branch interfaces (ENABLE_POD_ENI)',
  },
  {
    id: 'aws-start',
    pattern: oneOf(
      /waitENIAttached: giving up[^\n]{0,80}|Instance metadata does not match data store[^\n]{0,80}|Failed to check API server connectivity[^\n]{0,160}/,
      /(?:ENI|eni) network setup: [^\n]{1,160}|Failed to cleanup old (?:main ENI |host )?(?:IP )?rule[^\n]{0,120}|Failed to get primary (?:MAC from IMDS|IF)\b[^\n]{0,160}|Failed to configure (?:system parameters|IPv6 settings)[^\n]{0,200}/,
      /Failed to retri(?:ev|v)e? ENI info|Failed to recreate k8s client with cache[^\n]{0,120}|Using default maxPods as \d+ because reading/,
      /Initialization failure: (?:ipamd init|discoverCustomSecurityGroups|get instance|initWithEC2Metadata)[^\n]{0,160}|discoverCustomSecurityGroups: [^\n]{1,160}|ipamd init: [^\n]{1,160}|ipamd: can not initialize with AWS SDK[^\n]{0,120}/,
      /(?:Timed out waiting|Failed to wait) for IPAM daemon[^\n]{0,40}/,
      /waitForENIAndIPsAttached: giving up[^\n]{0,80}|ipamd: failed to [a-z ]{1,60}/,
      /Failed to increase pool size(?: for network card \d+)?: [^\n]{0,60}Unable to discover attached ENI[^\n]{0,120}/,
      /(?:host network setup|setupENINetwork|failed to SetupHostNetwork)[:,] [^\n]{1,160}/,
      /Failed to install CNI binaries|Failed to generate 10-awsconflist|No ENI found at all in metadata/,
      /no interface found which uses mac address|setupHostNetwork: [^\n]{1,120}|Failed to get ENI limits?\b[^\n]{0,80}/,
      /Missing IP addresses from IMDS|failed ipam state recovery[^\n]{0,120}|error while trying to determine max pods/,
      /stale chain cleanup: [^\n]{1,120}|ChangeLocalRulePriority: [^\n]{1,120}|Error while reading datastore/,
      /Starting L-IPAMD [^\n]{1,60}\s[^\n]{0,60}Testing communication with server[^\n]{0,20}\s[^\n]{0,60}Starting L-IPAMD/,
    ),
    who: 'ipamd, in the aws-node pod',
    meaning: 'ipamd ended while it started, so pods of this node get no addresses',
    causes: [
      'it does not reach the EC2 API, the metadata service or the API server: no route, a proxy, IMDS with a hop ' +
        'limit of 1',
      'its role lacks AmazonEKS_CNI_Policy, or what a newer release asks for at its start (ec2:DescribeSubnets, ' +
        'ec2:DescribeSecurityGroups)',
      'an interface is listed that the machine does not have (yet): attached a moment ago, or detached by hand',
    ],
    look: [
      'tail -n 30 /var/log/aws-routed-eni/ipamd.log',
      'kubectl -n kube-system logs ds/aws-node -c aws-node --previous --tail=20',
    ],
    cure: 'do what the last error in ipamd.log names; a machine whose metadata are wrong is replaced',
    wraps: true,
  },
  {
    id: 'aws-version',
    pattern: oneOf(/wrong client version "[^"]*" \(!= "[^"]*"\)/, /unknown backing store format[^\n]{0,120}/),
    who: 'the aws-cni plugin',
    meaning: 'the file of the plugin on the node and ipamd in the aws-node pod are of different releases',
    causes: [
      'aws-node was updated or rolled back, and the new file of the plugin did not get to the node',
      'the machine image brings a plugin of its own, and aws-node has not started yet',
      '"backing store": what ipamd kept (/var/run/aws-node/ipam.json) is of another release; a restart of the ' +
        'machine makes it anew',
    ],
    look: [
      'echo \'{"cniVersion":"0.4.0"}\' | CNI_COMMAND=VERSION /opt/cni/bin/aws-cni; ls -l /opt/cni/bin/aws-cni',
      'kubectl -n kube-system get ds aws-node -o yaml | grep image:',
    ],
    cure: 'restart the aws-node pod of this node: it copies its plugin there; the next try works',
  },
  {
    id: 'aws-eni',
    pattern: oneOf(
      /Failed to increase (?:IP|ip|Prefix) pool[^\n]{0,160}|Failed to (?:set ?up networking for|clean up leaked|tag the newly created|get) (?:ENI|eni) [^\n]{1,160}|Failed to call EC2 to describe ENIs[^\n]{0,240}/,
      /failed to allocate all available \S+ [^\n]{0,160}|Failed to allocate \d+ IP addresses on an ENI[^\n]{0,160}/,
      /(?:AllocENI|attachENI|FreeENI|DescribeAllENIs|getENISubnetID|get attached ENIs): [^\n]{1,160}/,
      /Failed to (?:attach|detach|free|set up|retrieve|reconcile(?: and delete)?) (?:any |IP \S+ on |Prefix \S+ on )?ENIs?\b[^\n]{0,160}/,
      /Failed to (?:CreateNetworkInterface|increase pool size|call ec2:\w+|fetch ENI IP addresses)\b[^\n]{0,160}/,
      /Failed to (?:de)?allocate (?:a private IP|IPv[46] Prefixes|one)[^\n]{0,160}|error while trying to increase datastore pool/,
      /failed to (?:allocate one|assign private IP addresses|create network interface|describe network interface)\b[^\n]{0,160}/,
      /unable to detach ENI from EC2 instance|(?:IP pool reconcile|awsGetFreeDeviceNumber): [^\n]{1,120}/,
      /Not able to (?:delete|detach|find the right) ENI\b[^\n]{0,160}|unable to delete ENI\b[^\n]{0,120}|fail(?:ed)? to (?:free|retrieve|set ?up) eni:? [^\n]{1,160}|fail to find eni addresses for [^\n]{1,120}/,
      /Error trying to set up ENI \S+|Failed to decrease IP pool[^\n]{0,120}/,
    ),
    who: 'ipamd, in the aws-node pod',
    meaning: 'ipamd could not get, attach or give back an interface of EC2 or its addresses',
    causes: [
      'the subnet or the machine type has no room for more: the code of EC2 behind it says so',
      'its role lacks a right, or EC2 limits requests',
      'an interface was detached or removed by hand, or metadata and EC2 do not agree yet',
      '"is currently in use": it was detached a moment ago, and ipamd tries again; a machine that ends in these ' +
        'seconds leaves the interface over, and its security group cannot be removed then',
      'it does not reach the API of EC2: no way out of the subnet, no endpoint, no name server',
    ],
    look: [
      'tail -n 40 /var/log/aws-routed-eni/ipamd.log',
      'kubectl -n kube-system describe pod -l k8s-app=aws-node',
      'aws ec2 describe-network-interfaces --filters Name=status,Values=available Name=description,Values="aws-K8S-*"',
    ],
    cure:
      'do what the words of EC2 behind it name; ipamd tries again by itself. One that is left over: aws ec2 ' +
      'delete-network-interface, when its status is available and no machine starts with it',
    wraps: true,
    needsNetwork: true,
  },
  {
    id: 'aws-pod-network',
    pattern: oneOf(
      /failed to (?:setUp|add|delete(?: old)?) vlan link[^\n]{0,120}|unable to setup (?:fromHostV\w+ rule|IP based|IIF based)[^\n]{0,160}|failed to setup veth network[^\n]{0,160}/,
      /(?:setup host snat|setup(?:Container|Host)IPv6Route) failed[^\n]{0,160}|(?:global unicast IPv6|link-local IPv6 address) not found (?:in|on) host[^\n]{0,80}|node primary ENI must have a global IPv6 address[^\n]{0,60}/,
      /(?:Setup|Teardown)(?:BranchENI)?Pod(?:ENI)?Network: [^\n]{1,200}|setup NS network: [^\n]{1,160}/,
      /setupVeth network: [^\n]{1,160}|Failed SetupPodNetwork for container[^\n]{0,160}|host-side veth not found for pod \S+/,
      /add command: failed to setup network[^\n]{0,160}|Failed on TeardownPodNetwork[^\n]{0,120}/,
      /failed to setup (?:from|to)(?:Container|Interface) rule, containerAddr=[^\n]{1,160}/,
    ),
    who: 'the aws-cni plugin',
    meaning: 'the pod has an address, and its interface, a route or a rule for it could not be made on the node',
    causes: [
      'what a pod with the same address left: a rule or an interface of that name is there already',
      'IPv6 is off in the pod or on the node, and the cluster uses it',
      'another program changes interfaces and rules at the same moment: NetworkManager, systemd-networkd',
      'egress of IPv6 (egress-cni): the first interface of the node has no global IPv6 address',
    ],
    look: ['tail /var/log/aws-routed-eni/plugin.log', 'ip rule; ip -br link', 'ip route show table all | head -40'],
    cure: 'do what the words behind it name; the next try of kubelet takes another address',
    wraps: true,
  },
]
