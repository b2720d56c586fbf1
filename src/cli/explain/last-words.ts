// SPDX-License-Identifier: Apache-2.0
// Of an error that is not known: whose words they are, and what the last of them say, which are mostly the kernel's
// or Go's.

import { all } from './layers.ts'

/** Plugins whose words are often met: who is behind them, and where they write. */
const speakers: readonly (readonly [type: RegExp, agent: string, look: string])[] = [
  [/^calico/, 'calico-node', 'tail /var/log/calico/cni/cni.log'],
  [/^cilium/, 'the cilium agent', 'kubectl -n kube-system logs ds/cilium -c cilium-agent --tail=30'],
  [/^flannel/, 'flanneld', 'kubectl -n kube-flannel logs ds/kube-flannel-ds --tail=30'],
  [/^multus/, 'Multus', 'kubectl -n kube-system logs ds/kube-multus-ds --tail=30'],
  [/^aws-cni|^egress-cni/, 'ipamd', 'tail /var/log/aws-routed-eni/plugin.log /var/log/aws-routed-eni/ipamd.log'],
  [/^azure/, 'azure-cns', 'tail /var/log/azure-vnet*.log /var/log/azure-cns*.log'],
  [/^antrea/, 'antrea-agent', 'kubectl -n kube-system logs ds/antrea-agent -c antrea-agent --tail=30'],
  [/^kube-ovn/, 'kube-ovn-cni', 'kubectl -n kube-system logs ds/kube-ovn-cni --tail=30'],
  [/^ovn-k8s/, 'ovnkube-node', 'kubectl get pods -A -o wide | grep ovnkube-node'],
  [/^whereabouts/, 'the API server', 'tail /var/log/whereabouts.log'],
  [/^weave/, 'weave', 'kubectl -n kube-system logs ds/weave-net -c weave --tail=30'],
  [/^(?:istio|linkerd)-cni/, 'its DaemonSet', 'kubectl get ds -A | grep -i cni'],
]

/** What such words mean whoever prints them. */
const meanings: readonly (readonly [words: RegExp, meaning: string])[] = [
  [/no such file or directory/i, 'a file, a socket or (of the network) a thing that the call names is not there'],
  [/no such (?:device|process)|Link not found/i, 'the interface, route or process that the call names is not there'],
  [/file exists/i, 'what should be made is there already'],
  [/permission denied/i, 'the right is missing, or (of an IPv6 address) IPv6 is off'],
  [/operation not permitted/i, 'a capability is missing (CAP_NET_ADMIN, CAP_SYS_ADMIN), or seccomp forbids the call'],
  [
    /operation not supported|not implemented/i,
    'the kernel has no such thing: its module is not there, or it is too old',
  ],
  [/device or resource busy/i, 'another owner has it'],
  [/invalid argument|numerical result out of range/i, 'a value is one that the kernel does not take'],
  [/no space left on device/i, 'a disk, its inodes or a limit of the kernel is used up'],
  [/too many open files/i, 'file descriptors or inotify instances are used up'],
  [/address already in use/i, 'the address, MAC or port has an owner'],
  [/network is unreachable|no route to host/i, 'no route leads there'],
  [/connection refused/i, 'nobody listens there: the program behind that address or socket does not run'],
  [/i\/o timeout|context deadline exceeded|timed out[^\n]{0,60}/i, 'who was asked did not answer in time'],
  [/unexpected EOF|\bEOF\b|connection reset by peer/, 'the other side ended the connection in the middle'],
  [/signal: killed/i, 'the kernel killed it for memory, or its caller at a deadline'],
  [/exit status \d+/, 'a program that it ran failed; its own words are before or in its log'],
]

/**
 * Sentences for a text in which no error is known, each a line. `plugin`: the type of the innermost plugin that the
 * text names.
 */
export function hintsOf(text: string, plugin: string | undefined): readonly string[] {
  const speaker = speakers.find(([type]) => plugin !== undefined && type.test(plugin))
  const found = meanings.flatMap(([words, meaning]) => {
    const match = all(text, words).at(-1)
    return match === undefined ? [] : [{ at: match.index, said: match[0].replace(/\s+/g, ' '), meaning }]
  })
  const last = found.toSorted((a, b) => b.at - a.at)[0]
  return [
    ...(speaker === undefined ? [] : [`behind ${plugin} is ${speaker[1]}; look at: ${speaker[2]}`]),
    ...(last === undefined ? [] : [`"${last.said}" in it means: ${last.meaning}`]),
  ]
}
