// SPDX-License-Identifier: Apache-2.0
// Of what brings pods further interfaces: Multus and what it asks, whereabouts, bond, Open vSwitch, host-device.

import { type KnownError, oneOf } from '../known/known-error.ts'

/** Errors of second networks and of their agents. */
export const secondNetworkErrors: readonly KnownError[] = [
  {
    id: 'kubelet-pod-resources',
    pattern: oneOf(
      /failed to list pod resources[^\n]{0,160}|(?:GetResourceClient(?!: using)|getKubeletClient|failed to get a ResourceClient instance)[^\n]{0,160}|unknown service v1\w*\.PodResourcesLister|failed to get resourceMap from \w+Client[^\n]{0,160}|GetPodResourceMap: (?:claim|resource claim|failed|extended)[^\n]{1,160}/,
      /getPodEntries: error (?:reading|unmarshalling)[^\n]{0,160}/,
      /device not in any matching resource slice|missing required attribute \S+ \(must match NAD|request \S+ not found in claim \S+|has no \S+ in ResourceSlice/,
    ),
    who: 'Multus',
    meaning: 'kubelet did not tell Multus which devices the pod got: it asks by kubelet/pod-resources/kubelet.sock',
    causes: [
      'kubelet is older than Multus expects: it serves v1 of this interface from 1.20 on',
      '/var/lib/kubelet is elsewhere, or not mounted into the Multus pod',
      'DRA: the ResourceSlice of the driver lacks the device, or its attribute k8s.cni.cncf.io/deviceID',
    ],
    look: ['kubelet --version', 'ls -l /var/lib/kubelet/pod-resources'],
    cure:
      'update kubelet, or use a release of Multus of its time; mount /var/lib/kubelet/pod-resources into the ' +
      'Multus pod',
  },
  {
    id: 'serviceaccount-missing',
    pattern: oneOf(
      /Failed to read service account (?:token|namespace) file/,
      /open \/(?:var\/)?run\/secrets\/kubernetes\.io\/serviceaccount\/\S+: no such file or directory/,
      /unable to load in-cluster configuration[^\n]{0,100}|KUBERNETES_SERVICE_(?:HOST|PORT)[^\n]{0,60}not set/,
      /service account token file \S+ does not exist/,
      /failed to read (?:service account token|Kubernetes CA file)\b/,
    ),
    who: 'a plugin that asks the API server',
    meaning:
      'the plugin looked for the token that pods have; it has no kubeconfig, and where it runs there is no such token',
    causes: [
      'its configuration has no `kubeconfig`, so it takes itself for a pod',
      'a NetworkAttachmentDefinition delegates to Multus again, or to a plugin that only works on the node itself',
      'automountServiceAccountToken is false for its DaemonSet',
    ],
    look: ['grep -rn kubeconfig /etc/cni/net.d', 'kubectl get net-attach-def -A -o yaml'],
    cure:
      'name a kubeconfig in the configuration of the plugin that the message names, or take it out of the ' +
      'definition',
    needsNetwork: true,
  },
  {
    id: 'ovs-bridge-missing',
    pattern:
      /ovs-vsctl: no bridge named \S+|failed to get (?:link info|parent link) for uplink[^\n]{0,80}|failed to find bridge \S+|bridge \S+ is not found in OVS|failed to get bridge name\b[^\n]{0,80}/,
    who: 'the ovs plugin',
    meaning: 'Open vSwitch on this node has no bridge of the name in `bridge`',
    causes: [
      'it was made on other nodes only, or by hand and not for good',
      'the plugin asks another ovsdb than ovs-vsctl does: a snap or a container has its own socket',
    ],
    look: ['ovs-vsctl list-br', 'ls -l /run/openvswitch/db.sock /var/run/openvswitch/db.sock'],
    cure: 'ovs-vsctl add-br BRIDGE on this node; where the socket is elsewhere name it in `socket_file`',
    needsNetwork: true,
  },
  {
    id: 'ovs-socket',
    pattern: oneOf(
      /failed to connect to ovsdb[^\n]{0,80}|ovsdb-tool: I\/O error[^\n]{0,160}/,
      /\bbr[\w-]{0,14}\.mgmt: (?:connect|dial|failed to connect)[^\n]{0,80}|\/openvswitch\/\S+\.mgmt: (?:connect|dial)[^\n]{0,80}/,
      /(?:Connecting to|connect to) OVSDB[^\n]{0,160}Not connected yet/,
      /unix:\S*openvswitch\/db\.sock: [^\n]{0,60}(?:Connection refused|No such file)/,
      /failed to open (?:the )?OVS(?:DB)? [^\n]{0,80}|cannot (?:open|read PID from) ovs-vswitchd pidfile[^\n]{0,160}/,
      /dial unix \S*openvswitch\/db\.sock: (?:connect: )?[a-z][a-z /]{1,40}/,
      /\.~lock~: cannot lock file because[^\n]{0,60}|(?:\bov[ns]|\.db)[^\n]{0,120}failed to lock lockfile/,
      /ovs\S*: already running as pid \d+, aborting|another ovs-vswitchd process is running|pidfile check failed \([\w ]{1,40}\)(?:, aborting)?/,
      /(?:\bov[ns]|openvswitch)\S{0,60}\.pid(?:\.tmp)?: (?:create failed|open: |read: |fcntl|(?:truncate|write) failed|stale pidfile|lost race|failed to delete|user \S{1,40} not found)[^\n]{0,80}/,
      /Pidfile for ov\S{1,40} \(\S{1,80}\) exists but cannot be read|daemon_unix\|(?:ERR|EMER)\|(?!\S{0,80}already running)[^\n]{1,120}|\bov[ns][\w-]{1,20}: could not (?:initiate process monitoring|detach from foreground)/,
      /timed out: "wait" timed out after \d+ ms|error when waiting for OVS bridge datapath ID|failed to set datapath_id \S{1,40}: [^\n]{1,80}/,
      /error (?:listing DP features|connecting OVSDB)[^\n]{0,80}|(?:ovs-vswitchd|ovsdb-server) (?:process )?is not running/,
      /ovs-(?:ofctl|appctl|dpctl): (?![^\n]*\/ovn\/)[^\n]{0,100}(?:failed to connect to socket|cannot (?:connect to|read pidfile))[^\n]{0,100}/,
      /ovs-ofctl: \S+ is not a bridge or a socket|Error connecting to OVS\b[^\n]{0,60}/,
      /Given ovs-socket "[^"]*" was not found/,
      /failed to parse OVS \S+ socket, must be in this format|Failed to connect to ovs: [^\n]{1,80}/,
      /SDN healthcheck (?:unable to connect to|detected unhealthy) OVS server/,
      /is not ready \((?:failed to read pid|ovs-appctl failed)|Another process is currently managing OVS/,
    ),
    who: 'the ovs plugin, or an agent with Open vSwitch',
    meaning: 'Open vSwitch of this node (ovsdb-server, ovs-vswitchd) does not answer',
    causes: [
      'Open vSwitch is not installed or does not run here, or starts still',
      'its database is locked: a second one runs, on the node and in a pod',
      'its socket has another path',
      '"pidfile check failed": a container of before left its pid file in /run/openvswitch, which is that of the node',
      '"wait" timed out: ovsdb-server answers, and ovs-vswitchd hangs or is gone, so that no port gets its number',
    ],
    look: [
      'systemctl status openvswitch-switch openvswitch; pgrep -a ovs',
      'ls -l /run/openvswitch/db.sock /run/openvswitch/*.pid',
    ],
    cure:
      'start Open vSwitch; remove a pid file whose process is gone; where the socket is elsewhere name it in ' +
      '`socket_file`. One that hangs: drain the node, then restart it: pods (and the node, where its card is under a ' +
      'bridge of Open vSwitch) are cut off until the agent has written the flows again',
  },
  {
    id: 'multus-crd-missing',
    pattern: oneOf(
      /(?:network-?attachment-?definitions?|net-attach-def|getDefaultNetDelegateCRD|failed to get network resource)[^\n]{0,240}the server (?:could not find the requested resource|doesn't have a resource type)/,
      /no matches for kind "NetworkAttachmentDefinition"|network-attachment-definitions\S* not found$/,
    ),
    who: 'Multus',
    meaning: 'the cluster does not know NetworkAttachmentDefinitions: their CRD is missing',
    causes: [
      'Multus was installed without its CRD, or the CRD was deleted',
      'the CRD is of another version than Multus',
    ],
    look: ['kubectl get crd network-attachment-definitions.k8s.cni.cncf.io'],
    cure: 'apply the CRD of Multus (the first document of its manifest), and then the definitions',
  },
  {
    id: 'delete-without-record',
    pattern: oneOf(
      /Err in\s+reading the delegates[^\n]{0,200}|failed to read container data from old[^\n]{0,120}/,
      /failed to (?:read container data in the path|get the cached delegates file)[^\n]{0,200}/,
      /open \/var\/lib\/cni\/flannel\/\S+: no such file or directory/,
      /failed to find original ifname for "[^"]*" \(alias is not set\)/,
      /error reading cached (?:Net)?Conf in \S+ with name[^\n]{0,80}/,
      /(?:\bDEL(?:ETE)?\b|\bdelet(?:e|ed|ing)\b|destroy network|remov(?:e|ing) pod|\bkill|tear ?down)(?:(?!\(add\))[^\n]){0,300}server_socket is required in cni\.conf[^\n]{0,60}/,
      /could not retrieve port mappings: (?:checkpoint|key) is (?!corrupt)\w+|[Ff]ailed to (?:get|retrieve) checkpoint for sandbox "?\w+"?: (?:checkpoint|key) is (?!corrupt)\w+[^\n]{0,20}/,
    ),
    who: 'Multus, sriov, ovs, flannel, host-device, kubelet with docker',
    meaning: 'a DEL came for a pod of which the plugin has no notes: harmless for the pod that ended',
    causes: [
      'the ADD before it failed early: its error counts',
      '"server_socket is required": Multus has no notes of the ADD and makes the configuration anew, without the ' +
        "keys of Kube-OVN's: then the DEL fails each time, and the name of the sandbox stays reserved",
      'the directory (/var/lib/cni/multus, sriov or flannel) was emptied, or the agent has another one mounted',
      'docker: the pod is older than the change from kubelet (dockershim, up to 1.23) to cri-dockerd, which has no ' +
        'notes of it: it hangs in Terminating until cri-dockerd is updated',
    ],
    look: [
      'ls /var/lib/cni/multus /var/lib/cni/sriov /var/lib/cni/flannel',
      'kubectl get events -A --field-selector reason=FailedCreatePodSandBox',
    ],
    cure: 'look for the error of the ADD; update the plugin: newer releases of these go on without the notes',
  },
  {
    id: 'multus-no-delegate',
    pattern: oneOf(
      /at least one delegate(?:\/clusterNetwork)? must be specified/,
      /must have either Kubernetes config or delegates|failed to get clusterNetwork \S+ in namespace/,
      /cannot find (?:valid )?master CNI (?:config|file)[^\n]{0,120}|no master plugin was found|has been deleted\. (?:waiting|Allowing)[^\n]{0,30} (?:for its )?restoration/,
      /Att?empt?ing to find master plugin configuration|failed to find the (?:primary|cluster master) CNI plugin[^\n]{0,120}/,
      /failed to (?:load|read) the primary CNI (?:configuration|plugin config)[^\n]{0,100}/,
      /could not find a plugin configuration in \S+/,
      /couldn't get (?:cni config|cni version|top level cni version)[^\n]{0,40}/,
      /Multus cni version is "[^"]*" while master plugin/,
      /access delegate CNI plugin name/,
    ),
    who: 'Multus',
    meaning: 'Multus has no network to call first: its configuration names none, or the one that it names is not there',
    causes: [
      'it started before the default network had written its file (multus-conf-file=auto takes the first one)',
      'clusterNetwork names a file or a NetworkAttachmentDefinition that is not there',
      'the cniVersion of Multus is newer than that of the default network',
    ],
    look: ['ls -l /etc/cni/net.d; cat /etc/cni/net.d/00-multus.conf', 'kubectl get net-attach-def -A'],
    cure: 'when the default network has its file, restart the Multus pod of this node; else correct clusterNetwork',
  },
  {
    id: 'whereabouts-range',
    pattern: oneOf(
      /no IP ranges in whereabouts config|net mask is too short, subnet \S+ has no usable IP/,
      /could not parse exclude range|invalid range start(?: IP| for CIDR \S+)?:[^\n]{0,60}/,
      /found IPAM conf mismatch for network-attachment-definitions|netCIDR is not a valid network address/,
      /subnetMaskSize must be greater|couldn't parse gateway IP: |ip \[\S+\] is NOT in range/,
      /IPAM configuration load failed: [^\n]{0,80}invalid gateway address/,
    ),
    who: 'whereabouts',
    meaning: 'the range of whereabouts is none',
    causes: [
      '`range` or `ranges` is missing, no CIDR, or too small; range_start or exclude lies outside of it',
      'two definitions of one network_name have different ranges',
    ],
    look: ['kubectl get net-attach-def -A -o yaml | grep -A8 whereabouts', 'trestle lint'],
    cure: 'correct the range in the definition; one range for each network_name',
  },
  {
    id: 'bond-refused',
    pattern: oneOf(
      /bonding requires at least two links|bonding mode \(\S+\) is not supported/,
      /failed to (?:find link \(|down link interface|look ?up link interface|move link interface|set bond(?:ed)? link|deattached links|delete bonded link|validate deattached|refetch bond)[^\n]{0,160}/,
      /failed set links \([^\n]{1,120}|failed to add link \([^)]*\) to the netNsHandle[^\n]{0,120}|failed to convert bondMiimon/,
      /failed to (?:find bonded link|create bonded link|attach\w* links to bond|confirm that link)[^\n]{0,120}/,
      /requested MTU for bond is bigger|FailOverMac mode should be|invalid bond MTU value|tlbDynamicLb (?:is|should)/,
      /failed to (?:move the links|retrieve link objects|lookup physical functions links|handle duplicated macs)[^\n]{0,160}/,
      /failed to set link: \S+ (?:NO)?MASTER|xmitHashPolicy is not supported|allSlavesActive should be|bond is not a suitable IPAM/,
    ),
    who: 'the bond plugin',
    meaning: 'the bond of the pod could not be made of its links',
    causes: [
      'the links that it names are not in the pod: linksInContainer is not set, or their networks come after it',
      'less than two links, an unknown mode, or an MTU larger than theirs',
    ],
    look: ['kubectl get net-attach-def -A -o yaml | grep -B3 -A20 bond', 'ip -n NETNS -br link'],
    cure: 'name the networks of the links before that of the bond in the annotation, and set linksInContainer: true',
  },
  {
    id: 'ovn-definition',
    pattern: oneOf(
      /IPAM key is not supported\. Use OVN-K|net-attach-def name \(\S+\) is inconsistent with config/,
      /topology (?:type )?"?\w+"? (?:is )?not supported|missing NADName in secondary network/,
      /missing primary user defined network NAD|the subnet attribute must be defined for layer2/,
      /invalid name in in secondary network netconf|layer3 topology does not allow persistent IPs/,
      /localnet topology does not allow|CNI plugin chaining is not supported/,
      /network \S+ is attempting to use ipv[46] subnets but the cluster does not|NAD \S+ can't be primary/,
      /foreign NetworkAttachmentDefinition with the desired name|primary network "[^"]*" specified with a NetworkSelectionElement|CNI config does not match that of network/,
    ),
    who: 'OVN-Kubernetes',
    meaning: 'the NetworkAttachmentDefinition (or the user-defined network) is none that OVN-Kubernetes takes',
    causes: [
      'netAttachDefName is not NAMESPACE/NAME of the definition itself',
      'an `ipam` key: its own `subnets` gives addresses; an unknown topology, or one without subnets',
      'a second primary network of the namespace, or a definition of the same name that somebody else made',
    ],
    look: ['kubectl get net-attach-def -A -o yaml', 'kubectl get userdefinednetwork,clusteruserdefinednetwork -A'],
    cure: 'correct the definition, then make the pods of it anew',
  },
]
