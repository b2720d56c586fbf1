// SPDX-License-Identifier: Apache-2.0
// Of plugins that only pass the call on to an agent, and of the agents.

import type { KnownError } from './known-error.ts'

const why = "the pod's events say why: an image, a crash, no API server"

/** Errors of the agents behind other plugins. */
export const agentErrors: readonly KnownError[] = [
  {
    id: 'flannel-subnet-env',
    pattern: /\/run\/flannel\/subnet\.env: no such file or directory/,
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
  },
  {
    id: 'node-no-podcidr',
    pattern:
      /failed to acquire lease: node "[^"]*" pod cidr not assigned|pod cidr not assigned|lack of PodCIDR|PodCIDRs? not set for node|no podCidrs? for node/i,
    who: 'flanneld, kube-router, kubenet, calico with usePodCidr',
    meaning: 'the node has no range for pods: its spec.podCIDR is empty',
    causes: [
      'kubeadm init ran without --pod-network-cidr, or the controller manager without --allocate-node-cidrs',
      'all ranges of the cluster CIDR are given away: a /16 in /24 is 256 nodes',
    ],
    look: ["kubectl get nodes -o custom-columns='NODE:.metadata.name,PODCIDR:.spec.podCIDR'"],
    cure:
      'give kube-controller-manager --allocate-node-cidrs=true and --cluster-cidr (with flannel the same as in its ' +
      'net-conf.json)',
  },
  {
    id: 'calico-not-installed',
    pattern:
      /resource does not exist: (?:ClusterInformation|IPPool|Node)\S*|clusterinformations\S* "default" not found/,
    who: 'the calico plugin',
    meaning: "Calico's resources are not in the cluster",
    causes: [
      'its CRDs or its data were deleted: Calico was removed, and its configuration was left on the node',
      'calico-node has not yet made them: it starts still',
    ],
    look: [
      'kubectl get crds | grep projectcalico',
      'kubectl get clusterinformations.crd.projectcalico.org',
      'ls /etc/cni/net.d',
    ],
    cure:
      'apply the manifest of Calico again; where Calico is gone, remove 10-calico.conflist and calico-kubeconfig ' +
      'from /etc/cni/net.d',
  },
  {
    id: 'calico-stale-route',
    pattern: /error adding host side routes for interface: [^\n]{0,200}(?:already exists|file exists)[^\n]{0,60}/,
    who: 'the calico plugin',
    meaning: 'the address of the pod has a route to the interface of another one',
    causes: [
      'an interface of a dead pod is left (a DEL that never came, a change of the runtime)',
      'the address was given out twice: IPAM data were restored or edited',
    ],
    look: ['ip route | grep cali', 'calicoctl ipam check'],
    cure: 'ip link delete the interface that the route of this address names, when no pod of this node has the address',
  },
  {
    id: 'calico-nodename',
    pattern: /\/var\/lib\/calico\/nodename: no such file or directory/,
    who: 'the calico plugin',
    meaning: 'calico-node has not started on this node: it writes its name there when it is up',
    causes: [
      'the calico-node pod of this node waits or crashes',
      'Calico was removed, and its configuration was left in /etc/cni/net.d',
      'calico-node runs without the mount of /var/lib/calico',
    ],
    look: ['kubectl get pods -A -o wide -l k8s-app=calico-node', 'ls /etc/cni/net.d'],
    cure:
      `make the calico-node pod of this node run: ${why}. Where Calico is gone, remove 10-calico.conflist and ` +
      'calico-kubeconfig from /etc/cni/net.d',
  },
  {
    id: 'calico-unauthorized',
    pattern:
      /(?:ClusterInformation|calico)[^\n]{0,160}?connection is unauthorized: Unauthorized|type="calico[^"]*"(?: name="[^"]*")? failed \(\w+\): Unauthorized/,
    who: 'the calico plugin',
    meaning: 'the API server refuses the token of /etc/cni/net.d/calico-kubeconfig',
    causes: [
      'the token expired: calico-node renews it while it runs, and does not run, or is an older version',
      'the cluster was set up anew, or its keys changed, and the file is left from before',
      'the clock of the node is wrong',
    ],
    look: [
      'ls -l /etc/cni/net.d/calico-kubeconfig',
      'kubectl get pods -A -o wide -l k8s-app=calico-node',
      'timedatectl',
    ],
    cure:
      'restart calico-node on this node: it writes the file anew (kubectl -n calico-system rollout restart ' +
      'ds/calico-node; kube-system in older installations)',
  },
  {
    id: 'cilium-agent',
    pattern:
      /(?:unable to connect to|failed to create|configuration from) cilium[- ](?:agent|daemon)(?: client)?|dial unix \/var\/run\/cilium\/cilium\.sock[^\n]{0,60}/i,
    who: 'the cilium plugin',
    meaning: 'the cilium agent of this node does not answer on its socket',
    causes: [
      'the agent starts still, or crashes: no API server, a kernel without what it needs, a mount of BPF',
      'Cilium was removed, and its configuration 05-cilium.conflist was left',
    ],
    look: [
      'kubectl -n kube-system get pods -o wide -l k8s-app=cilium',
      'kubectl -n kube-system logs ds/cilium -c cilium-agent --tail=30',
    ],
    cure:
      `make the agent of this node run: ${why}. Where Cilium is gone, ` +
      `remove 05-cilium.conflist from /etc/cni/net.d`,
  },
  {
    id: 'cilium-endpoint',
    pattern: /unable to create endpoint: [^\n]{1,120}|putEndpointId\w+|Cilium API client timeout exceeded/i,
    who: 'the cilium plugin',
    meaning: 'the agent of this node answers, but could not make the endpoint of the pod',
    causes: [
      'many pods start at once: the agent limits and refuses (429 TooManyRequests) or takes too long; kubelet ' +
        'tries again',
      'it cannot build or load its BPF programs, or does not learn the identity of the pod from the API server',
    ],
    look: [
      'kubectl -n kube-system logs ds/cilium -c cilium-agent --tail=50 | grep -i -e level=error -e level=warn',
      'kubectl -n kube-system exec ds/cilium -c cilium-agent -- cilium status --brief',
    ],
    cure: "wait when it is a burst; else the agent's log of this node says which step fails",
  },
  {
    id: 'kubeconfig-missing',
    pattern: /\/etc\/cni\/\S*(?:kubeconfig|kubeconf)\S*: no such file or directory/,
    who: 'a plugin that asks the API server',
    meaning: "the plugin's kubeconfig is not on the node",
    causes: [
      'the DaemonSet that writes it does not run yet on this node',
      'it was deleted, with the plugin or by a cleaning up of /etc/cni/net.d, and the configuration was left',
      'k3s and rke2 have another directory than /etc/cni/net.d: the plugin looks in the wrong one',
    ],
    look: ['ls -lR /etc/cni/net.d /var/lib/rancher/*/agent/etc/cni/net.d 2>/dev/null', 'kubectl get ds -A'],
    cure: "restart the plugin's DaemonSet, which writes it; where the plugin is gone, remove its configuration",
  },
  {
    id: 'multus-unauthorized',
    pattern: /Multus: [^\n]{0,120}?error (?:getting|waiting for) pod: Unauthorized/,
    who: 'Multus',
    meaning: 'the API server refuses the token of /etc/cni/net.d/multus.d/multus.kubeconfig',
    causes: [
      'the token expired: versions before 4.1 write it once, when the Multus pod starts',
      'Multus was removed, and 00-multus.conf was left',
    ],
    look: ['ls -l /etc/cni/net.d /etc/cni/net.d/multus.d', 'kubectl -n kube-system get pods -o wide -l app=multus'],
    cure:
      'restart the Multus pod of this node, which writes the token anew, and update Multus. Where it is gone, ' +
      'remove 00-multus.conf and multus.d',
  },
  {
    id: 'multus-readiness',
    pattern: /readiness ?indicator ?file[^\n]{0,200}|have you checked that your default network is ready/i,
    who: 'Multus',
    meaning: 'the default network of this node has not written the file that Multus waits for: it is not ready',
    causes: [
      'the agent of the default network (OVN-Kubernetes, Calico, Cilium) does not run on this node, or waits itself',
      'readinessindicatorfile of Multus names a file or directory that this network does not write',
    ],
    look: [
      'kubectl get pods -A -o wide --field-selector spec.nodeName=$(hostname)',
      'grep -i readiness /etc/cni/net.d/00-multus.conf; ls /run/multus/cni/net.d /etc/cni/net.d',
    ],
    cure: 'make the agent of the default network run on this node; it is not Multus that fails',
  },
  {
    id: 'multus-daemon',
    pattern: /dial unix \S*multus\.sock[^\n]{0,60}/,
    who: 'multus-shim',
    meaning: 'the Multus daemon of this node does not answer',
    causes: ['its pod crashes or was killed for memory', 'it was removed, and its configuration was left'],
    look: ['kubectl -n kube-system get pods -o wide -l app=multus'],
    cure: `make the Multus pod of this node run: ${why}; its default memory limit of 50 Mi is small`,
  },
  {
    id: 'weave-agent',
    pattern: /127\.0\.0\.1:6784[^\n]{0,160}?connection refused/,
    who: 'the weave plugin',
    meaning: 'the weave router of this node does not answer',
    causes: ['its pod crashes, or waits for its peers', 'Weave was removed, and 10-weave.conflist was left'],
    look: ['kubectl -n kube-system get pods -o wide -l name=weave-net'],
    cure: `make the weave pod of this node run: ${why}. Weave has no maintainer any more: plan to leave it`,
  },
  {
    id: 'ovn-agent',
    pattern:
      /kube-ovn-daemon\.sock[^\n]{0,60}|timed out waiting for OVS \w+(?: binding)?|timed out waiting for annotations|failed to get pod annotation|ovs-vsctl: unix:\S* database connection failed|request ip return \d+ (?!no available)[^\n]{1,80}/,
    who: 'the plugin of OVN-Kubernetes or Kube-OVN',
    meaning:
      'OVN or Open vSwitch has not made the port of this pod: the agent of this node or its control plane does not ' +
      'keep up',
    causes: [
      'the agent of this node (ovnkube-node, kube-ovn-cni) crashes or lost its connection',
      'the control plane (ovnkube-master, kube-ovn-controller, its databases) is down or overloaded',
      'Open vSwitch does not run on this node',
    ],
    look: ['kubectl get pods -A -o wide | grep -E "ovn|ovs"', 'ovs-vsctl show'],
    cure:
      'bring the agent of this node up first, then the control plane; restarting the agent helps when only this ' +
      'node has it',
  },
  {
    id: 'antrea-agent',
    pattern: /antrea\/cni\.sock[^\n]{0,60}/,
    who: 'the antrea plugin',
    meaning: 'the antrea agent of this node does not answer on its socket',
    causes: ['its pod starts still, or crashes', 'Antrea was removed, and 10-antrea.conflist was left'],
    look: ['kubectl -n kube-system get pods -o wide -l component=antrea-agent', 'ls /etc/cni/net.d'],
    cure:
      `make the antrea agent of this node run: ${why}. Where it is gone, remove 10-antrea.conflist from ` +
      '/etc/cni/net.d',
  },
  {
    id: 'agent-socket',
    pattern:
      /dial (?:unix \/\S+|tcp 127\.0\.0\.1:\d+)[^\n]{0,20}connect: (?:no such file or directory|connection refused)/,
    who: 'a plugin that passes calls on to an agent',
    meaning: 'the agent behind the plugin does not answer on this node',
    causes: ['its pod crashes or starts still', 'it was removed, and its configuration was left in /etc/cni/net.d'],
    look: ['kubectl get pods -A -o wide --field-selector spec.nodeName=$(hostname)', 'ls /etc/cni/net.d'],
    cure: `make the agent run: ${why}`,
    needsNetwork: true,
    unless: /containerd\.sock|crio\.sock|docker\.sock|dockershim\.sock|kubelet\.sock/,
  },
]
