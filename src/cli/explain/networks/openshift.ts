// SPDX-License-Identifier: Apache-2.0
// Of OpenShift's network operator: what it does not take, and what it waits for.

import { type KnownError, oneOf } from '../known/known-error.ts'

/** Conditions of the ClusterOperator `network`. */
export const openshiftErrors: readonly KnownError[] = [
  {
    id: 'openshift-ovs-configuration',
    pattern: oneOf(
      /ovs-configuration(?:\.service)?: (?:Failed with result|Main process exited|Control process exited|start operation timed out)[^\n]{0,80}|Failed to start (?:ovs-configuration\.service - )?Configures OVS with proper host networking[^\n]{0,40}/,
      /configure-ovs(?:\.sh)?\b[^\n]{0,80}(?:ERROR|Error): (?!No such file)[^\n]{1,160}/,
      /(?:Failed to activate|Cannot bring up|cannot find) connection (?:for interface: \S{1,20}|ovs-(?:if|port)-\S{1,30}|br-ex)[^\n]{0,60}|could not find ovs-if-\S{1,20} conn file after cloning/,
      /Connection activation failed: [^\n]{1,100}\bovs-(?:if|port)-\S{1,20}|Cannot bring up any slave interface for master interface: \S{1,20}/,
      /(?:configure-ovs|ovs-configuration)[^\n]{0,160}Unable to find default gateway interface\b|unable to enable IP forwarding\. (?:IP hint file|Cannot detect valid interface)[^\n]{0,100}/,
    ),
    who: 'configure-ovs.sh of OpenShift (ovs-configuration.service), before kubelet starts',
    meaning:
      'the network card of the node could not be put under the bridge br-ex, so kubelet of this node does not start',
    causes: [
      'br-ex got no address: the DHCP server knows another MAC or client id, or does not answer in time',
      'no default route, or two: the script does not find the card that carries the node',
      'the card is a bond, team or VLAN whose connection in NetworkManager is not as the script expects it, or a ' +
        'part of it does not come up',
      'the configuration was half made by an earlier start, or by nmstate at the same time',
    ],
    look: [
      'journalctl -b -u ovs-configuration | tail -60',
      'nmcli con show; ip -br addr; ip route show default; ovs-vsctl show',
    ],
    cure:
      'with a console at hand, and without running pods (oc adm drain, where the node is Ready), since the node ' +
      'loses its network meanwhile: give it one default route and its card one connection, then systemctl restart ' +
      'ovs-configuration; the script takes its own half-made state back first',
  },
  {
    id: 'openshift-network-config',
    pattern: oneOf(
      /Not applying unsafe configuration change: [^\n]{1,240}|configuration is invalid \([^\n]{1,300}network\.(?:config|operator)\.openshift\.io/,
      /spec\.(?:cluster|service)Network (?:must|and spec)[^\n]{1,80}|cannot change (?:ovn-kubernetes|default network type|primary \w+Network|ServiceNetwork)[^\n]{0,60}/,
      /invalid Migration\.MTU[^\n]{0,100}|invalid configuration: \[[^\n]{0,200}hostPrefix \d+ is (?:larger|too small)[^\n]{0,80}/,
      /(?:modifying|reducing)[^\n]{1,60}clusterNetwork[^\n]{1,60}is unsupported|unsupported change to ServiceNetwork/,
    ),
    who: 'cluster-network-operator of OpenShift',
    meaning: 'the operator refuses the configuration of the network, and leaves the cluster as it was',
    causes: [
      'a key that may not change in a running cluster was changed: a range, the MTU, the port, the kind of network',
      'the MTU changes only by spec.migration.mtu, a clusterNetwork only by a shorter mask',
      'a hostPrefix that does not fit its range, or families of pods and services that differ',
    ],
    look: ['oc get co network -o yaml | grep message', 'oc get network.config,network.operator cluster -o yaml'],
    cure:
      'take the change back (oc edit network.operator cluster, oc edit network.config cluster), or make it as a ' +
      'migration',
  },
  {
    id: 'openshift-network-rollout',
    pattern:
      /(?:DaemonSet|Deployment|StatefulSet) "\/?openshift-(?:ovn-kubernetes|sdn|multus|network-[a-z-]{3,30}|cloud-network-config-controller|kube-proxy|frr-k8s|host-network)\/[\w-]{1,60}" (?:rollout is not making progress|is not available \(awaiting|is not yet scheduled|is waiting for other operators|update is (?:rolling out|being processed))[^\n]{0,160}/,
    who: 'cluster-network-operator of OpenShift',
    meaning: 'pods of the network do not get ready on some nodes: the operator waits for them, and is not at fault',
    causes: [
      'a node is down or not ready: its pod is counted',
      'a pod of the DaemonSet that is named ends again and again: its log says why',
      'an update of the nodes (machine config) is under way',
    ],
    look: [
      'oc get pods -A -o wide | grep -e openshift-ovn -e openshift-multus -e openshift-network | grep -v Running',
      'oc -n NAMESPACE logs POD --all-containers --previous --tail=30',
      'oc get nodes; oc get mcp',
    ],
    cure: 'bring the node or the pod that is not ready up, by what its own log says; the operator goes on by itself',
    wraps: true,
  },
]
