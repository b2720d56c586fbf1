// SPDX-License-Identifier: Apache-2.0
// Every error of others that is known, the telling ones first: of two whose words overlap the first one counts.

import type { KnownError as KnownDiagnosis } from '../../../catalogue/diagnosis.ts'
import { agentStateErrors } from '../agents/agent-states.ts'
import { anyonesErrors } from '../agents/anyone.ts'
import { answerErrors } from '../agents/api-answers.ts'
import { apiServerErrors } from '../agents/api-server.ts'
import { cloudErrors } from '../agents/clouds.ts'
import { hostSettingErrors } from '../agents/host-settings.ts'
import { installErrors } from '../agents/installs.ts'
import { lxcErrors } from '../agents/lxc.ts'
import { machineErrors } from '../agents/machines.ts'
import { manifestErrors } from '../agents/manifests.ts'
import { meshErrors } from '../agents/meshes.ts'
import { nodeAgentErrors } from '../agents/node-agents.ts'
import { orchestratorErrors } from '../agents/orchestrators.ts'
import { otherAgentErrors } from '../agents/other-agents.ts'
import { podmanErrors } from '../agents/podman.ts'
import { secondNetworkErrors } from '../agents/second-networks.ts'
import { agentErrors } from '../agents/sockets.ts'
import { startErrors } from '../agents/starts.ts'
import { windowsErrors } from '../agents/windows.ts'
import { nameErrors } from '../engines/names.ts'
import { engineRequestErrors } from '../engines/requests.ts'
import { addressErrors } from '../known/addresses.ts'
import { betweenPluginsErrors } from '../known/between-plugins.ts'
import { clusterAddressErrors } from '../known/cluster-addresses.ts'
import { configurationErrors } from '../known/configuration.ts'
import { deviceErrors } from '../known/devices.ts'
import { dhcpErrors } from '../known/dhcp.ts'
import { engineErrors } from '../known/engines.ts'
import { firewallErrors } from '../known/firewalls.ts'
import { iptablesErrors } from '../known/iptables.ts'
import { kernelErrors } from '../known/kernel.ts'
import type { KnownError } from '../known/known-error.ts'
import { limitErrors } from '../known/limits.ts'
import { linkErrors } from '../known/links.ts'
import { netlinkErrors } from '../known/netlink.ts'
import { programErrors } from '../known/programs.ts'
import { reachErrors } from '../known/reach.ts'
import { runtimeErrors } from '../known/runtime.ts'
import { sandboxErrors } from '../known/sandboxes.ts'
import { settingErrors } from '../known/settings.ts'
import { valueErrors } from '../known/values.ts'
import { betweenNodesErrors } from '../networks/between-nodes.ts'
import { bgpErrors } from '../networks/bgp.ts'
import { calicoClusterErrors } from '../networks/calico/cluster.ts'
import { calicoNodeErrors } from '../networks/calico/node.ts'
import { calicoOperatorErrors } from '../networks/calico/operator.ts'
import { calicoErrors } from '../networks/calico/plugin.ts'
import { ciliumClusterErrors } from '../networks/cilium/clusters.ts'
import { ciliumNodeErrors } from '../networks/cilium/nodes.ts'
import { ciliumPodErrors } from '../networks/cilium/pods.ts'
import { ciliumStartErrors } from '../networks/cilium/start.ts'
import { ciliumTrafficErrors } from '../networks/cilium/traffic.ts'
import { flannelErrors } from '../networks/flannel/flannel.ts'
import { flannelNodeErrors } from '../networks/flannel/node.ts'
import { smallClusterErrors } from '../networks/kindnet.ts'
import { kubeRouterErrors } from '../networks/kube-router.ts'
import { openshiftErrors } from '../networks/openshift.ts'
import { ovnErrors } from '../networks/ovn/databases.ts'
import { kubeOvnErrors } from '../networks/ovn/kube-ovn.ts'
import { ovnKubernetesErrors } from '../networks/ovn/ovn-kubernetes.ts'
import { spiderpoolErrors } from '../networks/spiderpool.ts'
import { weaveErrors } from '../networks/weave.ts'
import { awsErrors } from '../platforms/aws.ts'
import { azureErrors } from '../platforms/azure.ts'
import { virtualFunctionErrors } from '../platforms/virtual-functions.ts'
import { virtualMachineErrors } from '../platforms/virtual-machines.ts'
import { kubeletWordErrors } from '../steps/kubelet-words.ts'
import { podStepErrors } from '../steps/pod-steps.ts'
import { toolErrors } from '../steps/tools.ts'

/** An error of trestle without an id, as releases before ids print it: what to make of it. Looked for last. */
export const unknownOwnError = asDiagnosis({
  id: 'trestle-failed',
  pattern: /type="trestle[^"]*"(?: name=\S+)? failed \(\w+\): \S/,
  who: 'trestle',
  meaning: 'trestle refused the call, or something that it runs failed',
  causes: [
    'the words behind "failed (…): " name what failed and on what; those behind the first semicolon are its details',
  ],
  look: ['trestle explain'],
  cure: 'do what the details say; `trestle explain` without words lists all codes',
})

/** All families. */
const families: readonly KnownError[] = [
  ...hostSettingErrors,
  ...engineErrors,
  ...engineRequestErrors,
  ...machineErrors,
  ...lxcErrors,
  ...flannelErrors,
  ...calicoErrors,
  ...calicoClusterErrors,
  ...nodeAgentErrors,
  ...bgpErrors,
  ...ciliumPodErrors,
  ...ciliumNodeErrors,
  ...ciliumClusterErrors,
  ...ciliumTrafficErrors,
  ...smallClusterErrors,
  ...calicoNodeErrors,
  ...calicoOperatorErrors,
  ...flannelNodeErrors,
  ...kubeRouterErrors,
  ...weaveErrors,
  ...manifestErrors,
  ...startErrors,
  ...ciliumStartErrors,
  ...orchestratorErrors,
  ...otherAgentErrors,
  ...ovnErrors,
  ...meshErrors,
  ...agentErrors,
  ...agentStateErrors,
  ...awsErrors,
  ...cloudErrors,
  ...azureErrors,
  ...secondNetworkErrors,
  ...spiderpoolErrors,
  ...kubeOvnErrors,
  ...ovnKubernetesErrors,
  ...openshiftErrors,
  ...betweenNodesErrors,
  ...virtualFunctionErrors,
  ...virtualMachineErrors,
  ...windowsErrors,
  ...podmanErrors,
  ...nameErrors,
  ...deviceErrors,
  ...dhcpErrors,
  ...linkErrors,
  ...settingErrors,
  ...valueErrors,
  ...configurationErrors,
  ...betweenPluginsErrors,
  ...podStepErrors,
  ...kubeletWordErrors,
  ...programErrors,
  ...installErrors,
  ...iptablesErrors,
  ...firewallErrors,
  ...addressErrors,
  ...clusterAddressErrors,
  ...netlinkErrors,
  ...kernelErrors,
  ...limitErrors,
  ...answerErrors,
  ...apiServerErrors,
  ...sandboxErrors,
  ...runtimeErrors,
  ...reachErrors,
  ...toolErrors,
  ...anyonesErrors,
]

/** A known error with the keys of a diagnosis. */
export type KnownEntry = KnownError & KnownDiagnosis

function asDiagnosis(known: KnownError): KnownEntry {
  const findings = known.checks === undefined ? {} : { findings: known.checks }
  return { ...known, ...findings, program: known.who, family: 'known' }
}

export const knownErrors: readonly KnownEntry[] = families.map(asDiagnosis)
