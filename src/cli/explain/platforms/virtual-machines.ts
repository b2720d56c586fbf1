// SPDX-License-Identifier: Apache-2.0
// Of virtual machines in pods: what KubeVirt does not take, and where it cannot make their network.

import { type KnownError, oneOf } from '../known/known-error.ts'

/** Errors of KubeVirt's networks. */
export const virtualMachineErrors: readonly KnownError[] = [
  {
    id: 'kubevirt-binding-refused',
    pattern: oneOf(
      /(?:Masquerade|PasstBinding|Slirp|Macvtap) interface only implemented with pod network/,
      /(?:Slirp|Macvtap|Passt)[\w ]{0,20} (?:support )?has been (?:discontinued|deprecated)|slirp interface is (?:deprecated|not enabled)/i,
      /(?:Bridge|Slirp) (?:on pod network configuration|interface) is not enabled|\w feature gate is not enabled[^\n]{0,40}interface/i,
      /more than one interface is connected to a pod network|Multus CNI should only have one default network/,
      /Pod network cannot be defined when Multus default network is defined|CNI delegating plugin must have a networkName/,
      /Only one interface can be connected to one specific network|every network must have a unique name/,
      /should have (?:only one|a) network type|must have exactly one binding method(?: or binding plugin)?/,
      /unable to find the network binding plugin '[^']*'|couldn't find configuration for network binding: \S+/,
      /(?:devices\.interfaces|spec\.networks)\[\d+\]\.name '[^']*' not found|interface \S+ has malformed (?:MAC|PCI) address/,
      /MAC address is reserved for the in-pod bridge|interface's state "\w*" is (?:not supported|supported only)/,
      /(?:InterfaceNotLiveMigratable|cannot migrate VMI which does not use masquerade)[^\n]{0,160}/,
      /portRanges (?:are only supported on masquerade|is specified on interface but)|macvtap feature gate is not enabled/i,
      /interface \S+ uses model \S+ that is not supported/,
    ),
    who: "KubeVirt (its webhook), of a virtual machine's interfaces and networks",
    meaning: 'the virtual machine has an interface or a network that KubeVirt does not take, or not together',
    causes: [
      'masquerade goes with the pod network alone; a Multus network takes bridge, sriov or a binding plugin',
      'an interface names a network that is not in spec.networks, or two interfaces name one',
      'slirp, macvtap and passt are gone since v1.3: they are binding plugins now, which KubeVirt has to be given',
      'live migration: the pod network by bridge keeps a machine on its node',
    ],
    look: [
      "kubectl get vm VM -o jsonpath='{.spec.template.spec.networks}{.spec.template.spec.domain.devices.interfaces}'",
      'kubectl get kubevirt -A -o yaml | grep -A12 network:',
    ],
    cure:
      'use masquerade for the pod network and bridge for the others, one interface for each network; or allow what ' +
      'is refused in spec.configuration of KubeVirt',
  },
  {
    id: 'kubevirt-network',
    pattern: oneOf(
      /Critical network error: [^\n]{1,200}|failed to configure vmi network[^\n]{0,200}/,
      /(?:setup-nat: )?pod link \(\S*\) is missing|virt-launcher[^\n]{0,120}failed to configure pod network/,
      /preparation for networks \S+ cannot be restarted|type collision on link \S+: actual|passt-repair socket not found/,
      /could not find the pod interface (?:ordinal )?name for network|failed to locate network attachment definition \S+/,
      /(?:virt-launcher|virt-handler)[^\n]{0,200}failed to (?:run|start) DHCP(?:v6)? Server[^\n]{0,120}/,
      /failed (?:plugging|preparing) (?:nic )?(?:at )?phase ?\d[^\n]{0,120}/,
      /SyncVMI failed: [^\n]{0,120}(?:LibvirtError|virError)\([^\n]{0,120}(?:interface|network|bridge)[^\n]{0,120}/,
    ),
    who: 'KubeVirt (virt-handler and virt-launcher)',
    meaning: 'the pod of the virtual machine runs, and its network could not be handed to the machine',
    causes: [
      'the pod has no such interface: its NetworkAttachmentDefinition or Multus did not make it',
      'nft or iptables, /dev/net/tun or /dev/vhost-net are missing on the node, or SELinux forbids them',
      'an earlier try was cut short: KubeVirt does not begin twice in one pod',
    ],
    look: [
      'kubectl get events -A --field-selector reason=SyncFailed',
      'kubectl -n kubevirt logs ds/virt-handler --tail=30',
      'kubectl get pod POD -o yaml | grep -A20 k8s.v1.cni.cncf.io/network-status',
    ],
    cure: 'do what the words behind it name; then start the machine anew (virtctl restart VM), which takes another pod',
    wraps: true,
    // Of a tap device tap-refused says more, where its words are known.
    unless: /\btap device\b/,
  },
  {
    id: 'mac-pool',
    pattern: oneOf(
      /kubemacpool\.io" denied the request[^\n]{0,240}|Failed to allocate mac to the vm object[^\n]{0,160}/,
      /failed to allocate requested mac address[^\n]{0,80}|Failed to (?:create|update) virtual machine allocation error[^\n]{0,160}/,
      /\bMACCollision\b[^\n]{0,120}|MAC [\da-f:]{17}: Collision between|duplicate MAC address \S+ found on interfaces/,
    ),
    who: 'kubemacpool, which gives MAC addresses to virtual machines',
    meaning: 'the virtual machine gets no MAC address, so it is not made',
    causes: [
      'the MAC that it asks for is in use by another machine, or by one that was deleted a moment ago',
      'the range is full, or two clusters were given one range',
    ],
    look: [
      'kubectl get cm -A | grep kubemacpool; kubectl get pods -A -o wide | grep kubemacpool',
      "kubectl get vm -A -o yaml | grep -i 'macAddress:' | sort | uniq -d",
    ],
    cure: 'leave macAddress out, or take a free one; a larger range: RANGE_START and RANGE_END of kubemacpool',
  },
]
