// SPDX-License-Identifier: Apache-2.0
// Of what the operator of Calico refuses, and of the way from flannel to Calico.

import { type KnownError, oneOf } from '../../known/known-error.ts'

/** Errors of tigera-operator and of calico-kube-controllers while it takes flannel's place. */
export const calicoOperatorErrors: readonly KnownError[] = [
  {
    id: 'calico-operator',
    pattern: oneOf(
      /Existing Calico installation can not be managed by Tigera Operator[^\n]{0,120}|detected existing canal installation/,
      /(?:Invalid Installation provided|Invalid computed config)\b[^\n]{0,160}/,
      /spec\.(?:calicoNetwork|cni)\.\w[\w.]{0,60} (?:is|are|must|requires|\S+ is not)\b[^\n]{0,120}|spec\.cni must be defined/,
      /spec\.kubernetesProvider \S+ is not compatible with spec\.cni\.type/,
      /is invalid for ipPool\.(?:encapsulation|natOutgoing)|is not supported by Calico for Windows/,
      /BIRD cluster routing mode, [^\n]{1,60} require that BGP is enabled|BGP is not supported when using non-Calico CNI/,
      /the VPP dataplane only supports|VPP (?:requires BGP to be enabled|doesn't support disabling HostPorts)/,
      /installation spec\.(?:ServiceCIDRs|WindowsNodes|NodeUpdateStrategy|FlexVolumePath|Logging|FIPSMode|ControlPlane)[^\n]{1,120}/,
      /unable to set bpfEnabled: [^\n]{1,140}|cannot enable (?:bpf|nftables), already set to/,
      /Unable to (?:enable|disable) eBPF data plane|bpfNetworkBootstrap is (?:Enabled but|enabled but)[^\n]{0,80}/,
      /ImageSets? exist but none with the expected name|multiple APIServer CRs provided/,
      /Operator must not be run within a Namespace managed by the operator/,
      /no more than one node address autodetection method can be specified/,
    ),
    who: 'the operator of Calico',
    meaning:
      'the operator does nothing further: the Installation, or what it found in the cluster, does not go together',
    causes: [
      'two settings of the Installation exclude each other: a kind of CNI, an encapsulation, BGP, a data plane',
      'Calico (or Canal) was installed by a manifest before, with settings that the operator has no place for',
      'somebody changed an object by hand that the operator keeps (FelixConfiguration default, kube-proxy)',
    ],
    look: [
      'kubectl get tigerastatus; kubectl get tigerastatus calico -o yaml | grep -A6 message',
      'kubectl get installation default -o yaml',
    ],
    cure: 'change the field that the message names (kubectl edit installation default); the operator looks at once',
  },
  {
    id: 'calico-address-untracked',
    pattern: oneOf(
      /in use by \S+ and in active IPAM pool but has no IPAM allocation|in use by \S+ is not in any active IP pool/,
      /Found [1-9]\d* in-use IPs that are (?:not in active IP pools|in active IP pools but have no corresponding)/,
    ),
    who: 'calicoctl ipam check',
    meaning: "a pod or node has an address that Calico's data do not know: a further pod can get the same",
    causes: [
      'the data were restored from an older copy, or blocks or handles were deleted by hand',
      'the pool was removed or changed while pods had addresses of it',
      'the pod got its address from another plugin: it is older than Calico, or a second network',
    ],
    look: ['calicoctl ipam check --show-problem-ips', 'kubectl get pods -A -o wide | grep ADDRESS'],
    cure: 'delete these pods, so that they get an address anew; a pool that pods use has to stay, disabled is enough',
  },
  {
    id: 'calico-stale-nodename',
    pattern:
      /Pod rescheduled on new node[.,] ?Allocation no longer valid|Allocation no longer valid\b[^\n]{0,60}GCs? the allocation/,
    who: 'calico-kube-controllers, of the address of a pod',
    meaning:
      'the address of a pod is booked under another node than the one that the pod runs on, so the controller frees it',
    causes: [
      'the pod ended, and one of its name started on another node: then all is right (debug, a StatefulSet)',
      'the node was made from an image of another one: /var/lib/calico/nodename has the name of that one, so the ' +
        'first addresses are booked under it, freed while pods have them, and given out twice',
    ],
    look: [
      'cat /var/lib/calico/nodename; hostname',
      'calicoctl ipam check --show-problem-ips',
      'kubectl get pods -A -o wide | grep ADDRESS',
    ],
    cure:
      'remove /var/lib/calico/nodename from the image; on a node with a wrong name restart its calico-node, which ' +
      'writes it, and delete the pods that got addresses before that',
  },
  {
    id: 'calico-bpf-interface',
    pattern: oneOf(
      /Master interface '[^']*' ignored\. Add it to the bpfDataIfacePattern/,
      /but that doesn't match BPFDataIfacePattern/,
    ),
    who: 'Felix with eBPF, in calico-node',
    meaning:
      'Felix leaves an interface of the node alone, so services and policies have no effect on what comes in there',
    causes: ['the interface has a name that bpfDataIfacePattern does not know: a bond, a bridge, a name of its own'],
    look: ['ip -br link', 'kubectl get felixconfigurations default -o yaml | grep -i ifacepattern'],
    cure: 'add its name to bpfDataIfacePattern of the FelixConfiguration default, and keep what the pattern has',
  },
  {
    id: 'calico-operator-waits',
    pattern: oneOf(
      /(?:DaemonSet|Deployment) "(?:calico-system|tigera-operator|kube-system)\/(?:calico|tigera|csi-node-driver)[\w-]*" (?:is not available|is not yet scheduled|not found|update is)[^\n]{0,80}/,
      /Pod (?:calico-system|calico-apiserver)\/\S+ (?:has (?:crash looping|terminated) container|has failed|is pending|is running but not ready|failed to pull container image)[^\n]{0,80}/,
      /Waiting on CertificateSigningRequest\(s\) with labels|waiting for (?:enabled IP pools to be created|spec\.cni to be filled in)/,
      /failed to migrate all nodes|kube-system node DaemonSet is not ready with the updated nodeSelector/,
    ),
    who: 'the operator of Calico, in TigeraStatus',
    meaning: 'the operator has made what is wanted, and waits for pods of Calico that are not up',
    causes: [
      'calico-node of a node crashes or is not ready: its own log says why',
      'the image cannot be pulled, or no node takes the pod (taints, too little CPU)',
      'a CertificateSigningRequest waits for somebody to approve it; no IPPool is there yet',
    ],
    look: [
      'kubectl get tigerastatus; kubectl get pods -n calico-system -o wide',
      'kubectl -n calico-system describe pods -l k8s-app=calico-node | grep -A8 ^Events',
    ],
    cure: 'explain what the log or the event of the pod that is named says: trestle explain',
    wraps: true,
  },
  {
    id: 'calico-from-flannel',
    pattern: oneOf(
      /flannelmigration must be the only controller|cannot run flannelmigration with other controllers/,
      /Error running (?:ipam|network) migration|Migration controller (?:stopped|will restart)|Stopping Migration controller/,
      /failed to (?:remove flannel network|check calico vxlan network) on node \S+|Calico node pod failed on node \S+/,
      /(?:Failed to|Timeout) delet(?:e|ing) Flannel daemonset|vtep IP \S+ has been occupied/,
      /node \S+ (?:missing annotation for|got wrong) Flannel (?:backend (?:type|data)|public ip)/,
      /Failed to (?:claim IPAM blocks for node \S+, claimed|validate existing default IPv[46] IP pool)/,
    ),
    who: 'calico-kube-controllers, while it takes the place of flannel',
    meaning: 'the way from flannel to Calico stopped at a node; nodes done before have Calico, the others flannel',
    causes: [
      'a node is not as the migration expects it: another backend than vxlan, no annotations of flannel',
      'the node could not be drained, or calico-node does not get ready on it',
      'an IPPool default-ipv4-ippool is there already, with another range than that of flannel',
    ],
    look: [
      'kubectl get nodes -L projectcalico.org/node-network-during-migration',
      'kubectl -n kube-system logs job/flannel-migration --tail=40',
    ],
    cure: 'make the node that is named right (drain it, correct the pool), and the job begins again where it stopped',
    wraps: true,
  },
]
