// SPDX-License-Identifier: Apache-2.0
// Of plugins and agents of any project, by what they all say in the same cases. Looked for last: the words of one
// project tell more.

import { type KnownError, oneOf } from '../known/known-error.ts'

/** Families of errors of plugins that no other entry knows by name. */
export const anyonesErrors: readonly KnownError[] = [
  {
    id: 'plugin-pool-full',
    pattern: oneOf(
      /\b(?:no|not enough|insufficient) (?:more|free|available|unallocated|unused) (?:(?:pod|IP|IPv[46]) )?(?:IPs?|address(?:es)?|address blocks?|CIDRs?)\b/,
      /\b(?:no|insufficient) (?:(?:pod|IP|IPv[46]) )?(?:IPs?|address(?:es)?|address blocks?|CIDRs?) (?:is |are )?(?:available|left|remaining|free|to allocate)\b/,
      /\bout of (?:free |available )?(?:(?:pod|IP|IPv[46]) )?(?:IPs|addresses|address space|blocks)\b/,
      /all (?:IP )?addresses (?:are|have been) (?:allocated|used|assigned|reserved)/,
      /\b(?:IPs?|pool|subnet|range|CIDR|address space)(?: ["\w./:-]{1,60})? (?:(?:is|are|has been) )?(?:exhausted|used up|full)\b/,
      /\bIPs? exhausted\b|no available addresses on this pool|could not find an available IP\b/,
      /failed to get (?:an )?available (?:IPv6 )?ip from the db/,
    ),
    who: 'an IPAM plugin, or the agent behind it',
    meaning: 'the pool of this network has no address for a further pod',
    causes: [
      'as many pods as addresses: the range, or the part of it that this node has, is small',
      'addresses of pods that are gone were not given back (a crash, a node removed by force)',
    ],
    look: [
      'kubectl get pods -A -o wide --field-selector spec.nodeName=NODE | wc -l',
      'kubectl get crds | grep -i -e pool -e ipam',
    ],
    cure: "free what has no pod any more by the plugin's own means, or give the pool a further range",
    needsNetwork: true,
    // These have entries of their own, which say whose pool it is and how it is cleared.
    unless: /cilium|calico|aws-|azure|terway|whereabouts|spiderpool|range set|antrea/i,
  },
  {
    id: 'agent-file-missing',
    pattern: oneOf(
      /(?:to network "[^"\n]*"|configuration load failed): (?:[^\n]{0,60}: )?(?:config file not found|error opening flat configuration file @)/,
      /(?:failed \(\w+\)|network(?: for sandbox "[^"]*")?|to network "[^"]*"|to CNI network "[^"]*"): [^\n]{0,200}?\b(?:open|stat|lstat|read) "?\/(?:var\/)?(?:run|lib)\/(?!netns\b|cni\b|containerd|docker|crio|kubelet|secrets|systemd|user\b|xtables|modules|x86_64)[\w.-]+\/[^\s:"]+"?: no such file or directory/,
    ),
    who: 'a plugin with an agent',
    meaning: 'a file that the agent of the plugin writes on each node is not there',
    causes: [
      'the agent (a DaemonSet) does not run on this node, or has not got that far',
      'it was removed, and its configuration was left in /etc/cni/net.d',
      'it writes the file into its own container: the directory of the host is not mounted',
    ],
    look: ['kubectl get pods -A -o wide --field-selector spec.nodeName=NODE', 'ls /etc/cni/net.d'],
    cure:
      "make the agent of this node run: the pod's events and its log say what it lacks; where it is gone, remove its " +
      'file from /etc/cni/net.d',
  },
  {
    id: 'agent-exception',
    pattern:
      /rpc error: code = Unknown desc = Exception (?:calling application|iterating (?:requests|responses))[^\n]{0,160}/,
    who: 'an agent written in Python, asked by its plugin over gRPC',
    meaning: 'the agent behind the plugin broke off with an exception: what stands behind is all that it tells',
    causes: [
      'it does not know the pod yet: the call came before the object of the pod had reached it',
      'a fault of its release, or an object that it does not expect',
    ],
    look: ['kubectl get pods -A -o wide | grep NODE', "journalctl -u kubelet --since '1 hour ago'"],
    cure: 'wait for the next try of kubelet; where that fails too, read the log of the agent on this node at that time',
    needsNetwork: true,
    unless: /\b(?:Mount|Unmount|Attach|Publish|Stage)\w*\.|\bvolume\b|\bpvc-|\bcsi\b/i,
  },
]
