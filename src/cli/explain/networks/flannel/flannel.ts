// SPDX-License-Identifier: Apache-2.0
// Of flannel: its plugin, and flanneld, whose log says why the plugin waits.

import { type KnownError, oneOf } from '../../known/known-error.ts'

/** Errors of flannel, and of nodes without a range. */
export const flannelErrors: readonly KnownError[] = [
  {
    id: 'flannel-subnet-env',
    pattern:
      /\/run\/flannel\/subnet\.env(?:: no such file or directory| is missing \w+)|open \/run\/flannel\/subnet\.env|failed to load flannel 'subnet\.env' file: (?!open)[^\n]{1,80}/,
    who: 'the flannel plugin',
    meaning: 'flanneld has not written which range this node has: it does not run here, or never got that far',
    causes: [
      'the flannel pod of this node crashes or waits; most often "pod cidr not assigned" or a missing br_netfilter',
      'it was just restarted, or /run was emptied: the file comes again by itself',
      'the configuration is left from a flannel that is no longer installed',
    ],
    look: ['kubectl -n kube-flannel get pods -o wide', 'kubectl -n kube-flannel logs ds/kube-flannel-ds --tail=20'],
    cure:
      'make the flannel pod of this node run (its log says what it lacks); where flannel is gone, remove its file ' +
      'from /etc/cni/net.d. Never write the file by hand',
    // flanneld looks for the file of its run before.
    unless: /Couldn't fetch previous FLANNEL_/,
  },
  {
    id: 'node-no-podcidr',
    pattern: oneOf(
      /has no (?:ranges from which CIDRs can be allocated|CIDRs\b)[^\n]{0,60}/,
      /Missing IPv[46] address on n\.Spec\.PodCIDRs|PodCIDRs? (?:is )?empty for node/,
      /node(?:\S| "[^"]{0,80}"){0,80} has no (?:pod ?cidr)|failed to acquire lease: node "[^"]*" pod cidr not assigned/,
      /pod cidr not assigned|lack of PodCIDR|Failed to get pod CIDRs? (?:from|details)/,
      /PodCIDRs? not set for node|no podCidrs? for node|required IPv[46] PodCIDR not available/,
      /both podCIDR and podCIDRs are empty|No PodCIDR \(v4 or v6\) found/,
      /usePodCidr(?:IPv6)? found but there is no IPv[46] CIDR|no remaining CIDRs left to allocate|CIDRNotAvailable|CIDRAssignmentFailed/,
      /Couldn't determine any Pod CIDRs for the \S+ node|CIDR allocation failed;/,
      /IPv[46] is enabled but the lease has no IPv[46]/,
      /timed? ?out waiting for PodCIDR (?:allocation|assignment)|failed to wait for PodCIDR assignment/,
      /cni config needs ipRanges but no PodCIDR set/,
      /error allocating network for node \S+: no subnets available/,
      /Could not successfully watch node and wait for podCIDR|Failed to fetch PodCIDR from K8s API server/,
      /kubenet needs a PodCIDR to (?:set ?up|tear ?down) pods/,
    ),
    who: 'flanneld, kube-router, kubenet, kube-proxy, calico with usePodCidr',
    meaning: 'the node has no range for pods: its spec.podCIDR is empty',
    causes: [
      'kubeadm init ran without --pod-network-cidr, or the controller manager without --allocate-node-cidrs',
      'all ranges of the cluster CIDR are given away: a /16 in /24 is 256 nodes',
      'GCE: the instance has no alias range for pods (made outside of its node pool), or the subnet has no room ' +
        'for one',
    ],
    look: ["kubectl get nodes -o custom-columns='NODE:.metadata.name,PODCIDR:.spec.podCIDR'"],
    cure:
      'give kube-controller-manager --allocate-node-cidrs=true and --cluster-cidr (with flannel the same as in its ' +
      'net-conf.json)',
  },
  {
    id: 'flannel-interface',
    pattern: oneOf(
      /no IPv[46] addresses found for interface \S+, retrying|couldn't lookup (?:interface: |route to [\d.a-f:]+: )[^\n]{1,60}/,
      /unable to find default gateway interface index/,
      /v6 default route interface [^\n]{1,120} must be the same|none matched ip stack|could not compile the IP address regex/,
      /Could not match pattern \S+ to any of the available network interfaces/,
      /Failed to find (?:any valid )?interface to use|find (?:a )?valid interface matching \S+|Failed to get default interface/,
      /Found default (?:v6 )?route but could not determine interface/,
      /No IPv[46] address found for given interface|Failed to find IPv[46] address for interface/,
      /Failed to find (?:any valid interface to use|interface to use that matches)[^\n]{0,160}/,
      /(?<!submariner[^\n]{0,120})unable to find default (?:v6 )?route|error looking up interface|No interface with given IP(?:v6)? found/,
      /v6 interface \S+ must be the same with v4 interface/,
      /failed to get (?:default v6|ifcanreach based) interface|invalid public IP(?:v6)? address: /,
      /interface \S+ does not have a correct global unicast ip[^\n]{0,100}|can't find ip for interface \S+/,
      /unable to get global unicast ip from interface name[^\n]{0,100}|multiple global unicast addresses defined for \S+|invalid node-ip: invalid ip format ''?(?![\w.:-])/,
      /unable to find (?:vpn interface:|interface "?\S+: route ip\+net:)[^\n]{0,80}|address family mismatch when assigning VPN addresses/,
    ),
    who: 'flanneld, also inside of k3s and rke2',
    meaning: 'flanneld did not find the interface over which this node reaches the others',
    causes: [
      'the node has no default route (a network without a way out), and no --iface says which interface it is',
      '--iface, --iface-regex or --ip-autodetection of its DaemonSet (k3s: --flannel-iface) names an interface that ' +
        'this node does not have',
      'the interface is of a VPN (tailscale0, wg0) and was not up, or had no address yet, when the program started',
    ],
    look: ['ip route show default', 'ip -br addr', 'kubectl -n kube-flannel get ds -o yaml | grep -A12 args'],
    cure:
      'give the DaemonSet --iface=NAME (more than once where nodes differ; k3s: --flannel-iface), or the node a ' +
      'default route; let the unit of k3s start after that of the VPN',
  },
  {
    id: 'flannel-network-config',
    pattern: oneOf(
      /unknown backend type|HostSubnet is larger network than Network|Network is too small\. Minimum useful/,
      /Network must be able to accommodate at least four|Error fetching network config|No valid Mode configured/,
      /Couldn't fetch network config|flannel config not found in etcd/,
      /please define a correct (?:IPv6)?Network parameter in the flannel config/,
      /Key not found \((?:\/coreos\.com|\/[\w/.-]*\bnetwork\/(?:config|subnets))[^\n]{0,40}|SubnetManager: 100: Key not found[^\n]{0,60}/,
      /UDP backend is not supported on this architecture/,
      /network config: 100: Key not found[^\n]{0,60}|error decoding \w+ [Bb]ackend config: [^\n]{1,100}/,
      /invalid VXLAN backend config[^\n]{0,120}|subnet\/kube: prefix [^\n]{1,60}/,
      /unknown flannel[- ]backend|flannel backend '[^']*'(?: for Windows)?|incorrect netMode for flannel/,
      /your PublicIP differs from interface IP[^\n]{0,120}/,
      /error (?:parsing subnet(?! string)|decoding Backend property of|reading net-?conf)[^\n]{0,80}/,
      /failed to read net conf[^\n]{0,80}/,
      /(?:IPv6)?Subnet(?:Min|Max) is not (?:on a SubnetLen boundary|in the range of the (?:IPv6)?Network)/,
      /(?:ipsec|flannel)[^\n]{0,120}config error, password (?:is too short|should be at least)/,
      /VNI is required to (?:be )?greater than or equal to 4096 on Windows|Windows does not support VXLANVNI < 4096/,
      /SubnetLen must be less than \/\d+|could not read network config|Invalid subnet-lease-renew-margin/,
    ),
    unless: /contiv|netplugin/i,
    who: 'flanneld',
    meaning: 'flanneld has no configuration of the network, or one that it cannot read',
    causes: [
      'with etcd: the key /coreos.com/network/config was never written, or with the API of etcd v2 while flanneld ' +
        'reads v3',
      'with Kubernetes: net-conf.json of the ConfigMap kube-flannel-cfg has no Network, or is no JSON',
      'a prefix other than --etcd-prefix',
    ],
    look: [
      'kubectl -n kube-flannel get cm kube-flannel-cfg -o yaml',
      'ETCDCTL_API=3 etcdctl get /coreos.com/network/config',
    ],
    cure: 'write the configuration: {"Network":"10.244.0.0/16","Backend":{"Type":"vxlan"}}, and restart flanneld',
  },
  {
    id: 'flannel-other-range',
    pattern: oneOf(
      /specified in the flannel net config doesn't contain \S+ (?:IPv6 )?PodCIDR[^\n]{0,60}/,
      /Found previously leased subnet \(\S+\) that is not compatible with/,
    ),
    who: 'flanneld',
    meaning: "the range in flannel's net-conf.json is not the one that the nodes have theirs from",
    causes: [
      'kubeadm init ran with another --pod-network-cidr than the 10.244.0.0/16 of the manifest',
      'the cluster CIDR of the controller manager was changed afterwards',
    ],
    look: [
      'kubectl -n kube-flannel get cm kube-flannel-cfg -o yaml | grep Network',
      "kubectl get nodes -o custom-columns='NODE:.metadata.name,PODCIDR:.spec.podCIDR'",
    ],
    cure: 'put the cluster CIDR into Network of net-conf.json, and restart the flannel pods',
  },
  {
    id: 'flannel-device-other',
    pattern: oneOf(
      /link has incompatible addresses[^\n]{0,80}|isn't an? (?:iptun|ipip mode) device[^\n]{0,60}/,
      /created vxlan device with index \d+ is not vxlan|(?:flannel\S* )?mac address wanted: [^\n]{1,80}/,
      /failed to add (?:v6 )?vxlanRoute|can't locate created (?:vxlan|wireguard) device(?! \S*calico)/,
    ),
    who: 'flanneld',
    meaning: "flannel's device (flannel.1) is left from before, with another address or of another kind",
    causes: [
      'the node got another range, or the backend was changed',
      'systemd-networkd or NetworkManager changes the device (its MAC, its addresses)',
    ],
    look: ['ip -d addr show flannel.1', 'networkctl list; nmcli device 2>/dev/null'],
    cure:
      'ip link delete flannel.1, and restart the flannel pod of this node; let networkd and NetworkManager leave ' +
      'flannel* alone (unmanaged)',
  },
  {
    id: 'flannel-full',
    pattern:
      /Failed to acquire subnet: (?:out|no)|(?:acquire|lease|flannel|register)[^\n]{0,80}\bout of subnets\b|max retries reached trying to acquire a subnet|\bsubnet: no more tries|\bsubnet: lease already taken/,
    who: 'flanneld',
    meaning: 'no range is left for this node',
    causes: [
      'Network divided by SubnetLen is fewer ranges than nodes; leases of nodes that are gone last 24 hours',
      'etcd does not answer well: each try to write the lease fails',
    ],
    look: ['ETCDCTL_API=3 etcdctl get --prefix --keys-only /coreos.com/network/subnets'],
    cure: 'remove leases of nodes that are gone, or take a larger Network or a larger SubnetLen (smaller ranges)',
  },
  {
    id: 'flannel-harmless',
    pattern: oneOf(
      /already exists with incompat[ai]ble (?:configuration|attributes)[^\n]{0,160}recreating device/,
      /fdb already populated with: \S+[^\n]{0,40}/,
      /etcd watch (?:channel )?for \S+ (?:closed|fell behind)|Watch of (?:networks|subnet leases) failed because (?:etcd index outside|header revision)/,
      /Watch of subnet leases failed because etcd index outside history window/,
      /no subnet found for key: FLANNEL_\w+ in file|Couldn't (?:fetch|parse) previous FLANNEL_\w+ from subnet file[^\n]{0,160}/,
      /Replacing existing route (?![^\n]{1,200}\s[^\n]{0,100}Error (?:adding|deleting|recovering) (?:v6 |ipv6 )?route)(?:to )?\{?[^\n]{1,160} with \{?[^\n]{1,80}/,
    ),
    who: 'flanneld',
    meaning: 'flanneld found what it wanted to make, or begins to watch anew: harmless',
    causes: [
      'it was restarted, and its device and routes were still there',
      'etcd had forgotten the changes since the last look, so flanneld reads all of them again',
    ],
    look: ['kubectl -n kube-flannel logs ds/kube-flannel-ds --tail=30', 'ip route | grep -i flannel'],
    cure: 'nothing for this line; where pods do not reach each other look for another error in the log',
  },
  {
    id: 'flannel-lease-lost',
    pattern: oneOf(
      /Lease has been revoked\. Shutting down daemon|requested lease not found(?<=flannel[^\n]{0,400})/,
      /Error renewing lease \(trying again in 1 min\): (?:etcdserver: requested lease not found|100: Key not found|subnet not found)[^\n]{0,40}/,
    ),
    who: 'flanneld',
    meaning: "flanneld ended: the entry of this node's range was removed from etcd while it ran",
    causes: [
      'it could not renew the entry in time (24 hours): etcd was down, or the clock of a machine jumped',
      'somebody removed the entry below /coreos.com/network/subnets, or restored etcd from an older copy',
    ],
    look: [
      'ETCDCTL_API=3 etcdctl get --prefix --keys-only /coreos.com/network/subnets',
      'cat /run/flannel/subnet.env; timedatectl',
    ],
    cure:
      'start flanneld again: it takes the range of subnet.env where that is still free. With another range make ' +
      'the bridge and the pods of this node anew',
  },
  {
    id: 'etcd-unreachable',
    pattern: oneOf(
      /\/calico-secrets\/etcd-\w+: [^\n]{1,60}|could not initialize etcdv3 client(?!: open \/[^\n]{1,120}: no such file)/,
      /etcd cluster is unavailable or misconfigured|(?:client: )?etcd member \S+ has no leader/,
      /(?:flannel|coreos\.com\/network)[^\n]{0,120}\bgo-etcd[^\n]{0,80}(?:network error: Get|Connecting to etcd: attempt)[^\n]{0,100}/,
      /(?:Failed to (?:acquire subnet|retrieve network config|create SubnetManager)|network config|subnet leases?[^\n]{0,40}): 50\d: [^\n]{0,100}/,
      /(?:flannel|calico|felix|confd|cilium|subnet|kvstore)[^\n]{0,240}:(?:2379|4001)\b[^\n]{0,60}(?:connection refused|i\/o timeout|no route to host|deadline exceeded|certificate)/,
      /Calico datastore error=context deadline exceeded/,
      /(?:plugin type="[^"]*"|failed \(\w+\):|network:|network for sandbox "[^"]*":|CNI network "[^"]*"|\[(?:FATAL|ERROR)\]\[\d+\]|\bcni\b)[^\n]{0,400}dial tcp \S+:(?:2379|4001): [^\n]{1,60}/,
      /Unable to (?:setup kvstore|connect to the initial etcd)[^\n]{0,100}|quorum check failed \d+ times? in a row[^\n]{0,80}/,
      /initial list of objects from kvstore|(?:etcd client timeout exceeded|etcd session ended)[^\n]{0,200} (?:subsys|module)=/,
      /(?:Unable to|Not able to|timeout while|timed out)[^\n]{0,60}\b(?:etcd (?:session|endpoints?)|(?:to|initiali[sz]e) (?:etcd|kvstore))[^\n]{0,300} (?:subsys|module)=/,
      /remote configuration: expected=\w+, retrieved=false|Error observed on etcd connection/,
      /Unable to establish (?:etcd )?connection to remote cluster|kvstore: [^\n]{0,40}(?:quorum|not ready)/,
      /not able to connect to any etcd endpoints|Ensure that etcd is running on|waiting for initial session to be established|failed (?:to establish connection|connecting) to kvstore/,
      /Failed waiting for kvstore connection|Timed out waiting to acquire the kvstore lock|Unable to (?:contact consul server|(?:create|retrieve the) kvstore client)|has-quorum=(?!true)\S[^\n]{0,100}/,
    ),
    who: 'flanneld, calico or Cilium with etcd',
    meaning: 'etcd does not answer where the agent looks for it',
    causes: [
      'the agent was started without --kube-subnet-mgr or --etcd-endpoints: it asks 127.0.0.1:2379 and 4001',
      'etcd is down, or wants certificates that were not given',
      'Cilium, of a ClusterMesh: the clustermesh-apiserver of the other cluster does not answer (2379)',
    ],
    look: [
      'ETCDCTL_API=3 etcdctl --endpoints=ADDRESS endpoint health',
      'kubectl -n kube-flannel get ds -o yaml | grep -A12 args',
    ],
    cure: 'with Kubernetes give flanneld --kube-subnet-mgr; else --etcd-endpoints with certificates, and bring etcd up',
  },
]
