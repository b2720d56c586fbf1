// SPDX-License-Identifier: Apache-2.0
// Of Calico: where an error of the kernel, the API server or etcd reached its plugin, Felix, Typha or calico-node.

import { type KnownError, oneOf } from '../../known/known-error.ts'

const agentPods = 'kubectl get pods -A -o wide -l k8s-app=calico-node'
const agentLog =
  'for n in kube-system calico-system; do kubectl -n $n logs ds/calico-node -c calico-node --tail=50 2>/dev/null; ' +
  'done | grep -i -e error -e fatal'

/** Errors of Calico on one node, mostly around another's. */
export const calicoNodeErrors: readonly KnownError[] = [
  {
    id: 'calico-strict-affinity',
    pattern: oneOf(
      /strict ?affinity (?:should not be false|is false, it must be set to 'true')[^\n]{0,120}/,
      /Invalid StrictAffinity, it must be set to 'true'[^\n]{0,80}/,
    ),
    who: 'the calico plugin on Windows, the operator of Calico',
    meaning: 'nodes with Windows may not borrow addresses from the blocks of others, and Calico still allows it',
    causes: ['strictAffinity of the IPAMConfiguration was not set when the first node with Windows joined'],
    look: ['calicoctl ipam show --show-configuration', 'kubectl get ipamconfigs default -o yaml'],
    cure: 'calicoctl ipam configure --strictaffinity=true; pods that have a borrowed address keep it',
  },
  {
    id: 'calico-ipam-type',
    pattern: /PodIP \S+ is not a valid IPv[46]: Mask size is|Calico VXLAN requires IPAM type calico-ipam/,
    who: 'the calico plugin',
    meaning: 'the plugin for addresses below Calico gives ones with a subnet (/24), and Calico takes single ones (/32)',
    causes: [
      '`ipam.type` of 10-calico.conflist is neither calico-ipam nor host-local: dhcp, static, another one',
      '"VXLAN requires" (Windows): CNI_IPAM_TYPE is not calico-ipam; host-local does not do there',
    ],
    look: ['grep -A6 ipam /etc/cni/net.d/10-calico.conflist', 'kubectl -n kube-system get cm calico-config -o yaml'],
    cure:
      'put calico-ipam into cni_network_config of calico-config (with VXLAN on Windows ' +
      'CNI_IPAM_TYPE=calico-ipam; with the operator spec.cni.ipam.type of the Installation) and restart ' +
      'calico-node; pods that have an address of the other plugin have to be made anew, or their addresses are ' +
      'given twice',
  },
  {
    id: 'calico-typha',
    pattern: oneOf(
      /(?:typha|sync_client)[^\n]{0,120}(?:failed to load (?:certificate and key|CA)|failed to create TLS Config|Failed to (?:read|add) CA data)/,
      /peer certificate does not have required (?:CN|URI SAN)[^\n]{0,60}/,
      /(?:sync_server|typha)[^\n]{0,120}(?:TLS handshake error|Failed to read (?:client )?hello|timed out waiting for message from client|no pong received)[^\n]{0,120}/,
      /Client fell behind\. Disconnecting|Server responded without support for node resource updates/,
      /We require SyncerType \S+ but Typha server doesn't support it|Failed to restart Typha client\. Exiting/,
      /None of the typhas will be accessible due to wireguard routing asymmetry/,
      /if any Felix-Typha TLS (?:config parameters|options) are specified, they _all_ must be[^\n]{0,80}/,
    ),
    who: 'Typha or its client in calico-node',
    meaning: 'Typha and a calico-node do not come together: one refused the other, or was too slow for it',
    causes: [
      'their certificates are not of one kind: another name than the one expected (FELIX_TYPHACN, TYPHA_CLIENTCN), ' +
        'another CA, or TLS set on one side only',
      'their releases differ: an update stopped half way',
      'something that speaks no Typha opens the port 5473 (a check of a load balancer): harmless then',
      'the node or the network is slow, or WireGuard leads only one of both directions through the tunnel',
    ],
    look: [
      'kubectl get pods -A -o wide -l k8s-app=calico-typha',
      'kubectl -n tigera-operator get secrets typha-certs node-certs -L operator.tigera.io/signer',
    ],
    cure:
      'bring both to one release; certificates of your own: correct both, and the ConfigMap typha-ca, together; ' +
      'those that the operator made (signer tigera-operator-signer): save the secrets typha-certs and ' +
      'node-certs of the namespace tigera-operator, then delete them: it makes new ones and restarts both; ' +
      'until then running pods keep their network, and new ones wait',
  },
  {
    id: 'calico-pod-network',
    pattern: oneOf(
      /error adding host side routes for interface: (?![^\n]{0,200}(?:already|file) exists)[^\n]{1,60}|failed to add route \((?:Ifindex: \d+, )?Dst: [^\n]{1,160}/,
      /error configuring sysctls for (?:interface: \S+|the container netns)/,
      /failed to delete old hostVeth|clean up workload's (?:pod interface|veth)|timed out deleting device in netns/,
      /failed to set container-side interface MAC|timed out waiting for host-side interface [^\n]{1,60} to accept MAC/,
      /host-side interface got wrong link-local|Gave up waiting for host-side link local address/,
      /IPv6 addresses for (?:the )?host side of (?:the )?(?:veth pair|pod interface)/,
      /failed to add (?:the default )?route inside the container/,
      /type="calico"[^\n]{0,60} failed \(\w+\): (?:failed to (?:create host netlink handle|lookup "|set "|set net\.ipv|add IPv[46] |add IP addr to|move veth to host|enter netns)|error listing routes|Error (?:creating|adding) (?:veth|netkit)|entering host netns)/,
    ),
    who: 'the calico plugin',
    meaning: 'the pod has an address, and its interface, a route or a setting for it could not be made on the node',
    causes: [
      'NetworkManager or systemd-networkd takes interfaces of pods (cali*) down, or changes their addresses or MAC',
      'the interface of a pod of before is left, or the pod ended meanwhile',
      'the kernel has IPv6 switched off, or a setting is not to be written (a read-only /proc/sys)',
    ],
    look: ['ip -br link | grep cali', 'networkctl list; nmcli device 2>/dev/null', 'journalctl -k --since -10m'],
    cure: 'let NetworkManager and networkd leave cali* and tunl* alone (unmanaged); do what the last words say',
    wraps: true,
    unless: /type="(?:aws|egress|azure)-|aws-cni/,
  },
  {
    id: 'calico-datastore',
    pattern: oneOf(
      /failed to query Rancher's cluster state config map|Failed to initialize confd config|failed to reconcile tunnel address/,
      /error getting ClusterInformation: (?!resource |connection |Get\b)|failed to build Calico client|Failed to initialize Calico datastore/,
      /ipam_plugin\.go[^\n]{0,40}(?:failed to (?:load api client config|initialize api client|migrate ipam))/,
      /Readiness probe failed: (?:Error reaching apiserver: |initialized to false)|Failed to read status file \/status\/status\.json/,
      /\]\[\d+\][^\n]{0,20}ipam\S* \d+: (?:Error (?:assigning|getting|releasing|updating|deleting|removing|claiming|reading|querying)|Failed to (?:claim|release|upgrade|get|assign))[^\n]{0,60}/,
      /failed to (?:upgrade IPAM database|(?:disable|re-enable) cluster: |fetch cluster information|get calico node resource)/,
      /could not initialize etcdv3 client: open (?!\/calico-secrets)\/[^\n]{1,120}: no such file or directory/,
      /\berror creating calico client\b|data store connection failed|endpoint in datastore\b/,
      /\]\[\d+\][^\n]{0,80}(?:Failed to (?:create|connect to|initialize) datastore|Failed to \(re\)connect to datastore)/,
      /Failed (?:to get config|update (?:global|host|selector-scoped) config) from datastore/,
      /Error (?:accessing the Calico datastore|loading datastore config|verifying datastore: |initializing datastore: )/,
      /Unable to (?:set (?:node resource|global default) configuration|query (?:node|IP pool) conf\w+)/,
      /Unable to (?:access datastore to query node|ensure datastore is migrated|upgrade host's IPAM|fetch IP pool list)/,
      /failed to query kubeadm's config map|failed to fetch node resource '|Failed to read Node from datastore/,
      /Error (?:creating|getting|updating) (?:Felix (?:global|node) config|(?:default|global) (?:BGP|IPAM)Config)/,
      /Error (?:creating|getting|updating) cluster information config\b/,
      /Failed to (?:ensure datastore has been initialized|write endpoint status; is datastore up)/,
      /Tunnel IP allocator failed|Monitor addresses failed|CNI config monitor failed/,
      /Failed to (?:update CNI token, retrying|write CNI plugin kubeconfig)|Unable to create (?:token|client) for (?:generating )?CNI/,
      /Unable to set NetworkUnavailable to (?:False|True)|Failed to set NetworkUnavailable; will retry/,
      /(?:Unable to get Typha service endpoints|Failed to get (?:number of )?Typhas?\b)[^\n]{0,60}/,
      /(?:calico|\]\[\d+\])[^\n]{0,160}unknown datastore type|no etcd endpoints specified|Etcd(?:Endpoints and EtcdScheme|Endpoints and EtcdAddr) (?:are )?both missing/,
    ),
    who: 'a program of Calico (its plugin, calico-node, Typha, kube-controllers, calicoctl)',
    meaning: 'it could not read or write the data of Calico, which are in the API server or in etcd',
    causes: [
      'it does not reach the API server (10.96.0.1:443) or etcd from this node, or its certificates do not fit',
      'its role lacks a right: the manifest is of another release than the image',
      'a file that etcd_cert_file, etcd_key_file or etcd_ca_cert_file of 10-calico.conflist names is not on this node',
      'DATASTORE_TYPE is missing, so that it asks etcd; or the CRDs of Calico are not there',
    ],
    look: [agentPods, agentLog, 'kubectl get crds | grep projectcalico'],
    cure: 'do what the last words of the line say; after an update apply the whole manifest of that release',
    wraps: true,
  },
  {
    id: 'calico-dataplane',
    pattern: oneOf(
      /Unable to (?:determine whether to use the nftables|detect kube-proxy nftables)/,
      /Failed to synchronize (?:routing (?:table|rules)|VXLAN FDB entries|link addr entries)/,
      /(?:First|Second) attempt at updating routing table failed|Failed to sync routes to interface even after/,
      /Some interfaces still out-of sync|Failed to access interface (?:but it (?:now )?appears|after a failure)/,
      /Failed (?:to )?configure (?:IPIP |VXLAN )?tunnel device, retrying|Failed to (?:add|get|set) (?:IPIP |vxlan )?tunnel device\b/,
      /Failed to (?:set IPv[46] forwarding sysctl|write MTU file|configure interface, will retry)/,
      /Repeatedly failed to connect to netlink|Failed to (?:subscribe to (?:addr|route|link) updates|do netlink feature detection)/,
      /Failed to read (?:link states|events) from netlink|Encountered some errors when trying to (?:delete old|update|add static)/,
      /(?:failed to set|unable to determine if|error querying) wireguard device|incorrect interface type for wireguard/,
      /error(?:s during)? (?:bootstrapping|removing) (?:IPv[46] )?wireguard|interface is not of type wireguard/,
      /failed to add\/delete some neighbor entries|error performing (?:InsertRulesNow )?nft transaction/,
      /Failed to (?:run nft transaction|load nftables table state|list nftables objects|clean up nftables)/,
      /Failed to (?:delete|update) (?:temporary )?IP sets?\b(?! after)|Bad return code from 'ipset list'/,
      /Failed to apply policy to (?:endpoint|interface)(?:, leaving it dirty|, will retry)?|ingress qdisc info (?:\([^)\n]{1,60}\) )?does not equal egress qdisc info/,
      /Failed to (?:sync ifstate for iface|attach to TC section|detach old programs from now unused device|update neigh for bpf\w*\.cali|load default policies, some programs)\b/,
      /Cannot load interface state map|failed to clean up one or more old calico programs|policy program may leak/,
      /\]\[\d+\][^\n]{0,80}kube-proxy failed to (?:start|resync)\b|Dataplane driver exited|Failed to start dataplane driver/,
    ),
    who: 'Felix, in calico-node',
    meaning:
      'Felix could not write a route, a rule, a tunnel or a setting into the kernel of this node; it tries again',
    causes: [
      'another program changes the same: NetworkManager, a second network, systemd-networkd that removes its routes',
      'the kernel lacks a module (vxlan, ipip, wireguard, ip_set) or refuses the value',
      'interfaces of pods come and go in that moment: harmless when the next try works',
      'eBPF, "qdisc info": 3.28.2 to 3.29.1 attach their programs to all interfaces again and again, and an old and ' +
        'a new calico-node overlap during an update: a later release mends it',
    ],
    look: [agentLog, 'ip route | grep -e cali -e tunl -e vxlan | head; ip -d link show type vxlan', 'dmesg | tail'],
    cure: 'do what the last words of the line say; let networkd keep foreign routes (ManageForeignRoutes=no)',
    wraps: true,
  },
]
