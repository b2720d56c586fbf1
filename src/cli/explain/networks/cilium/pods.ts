// SPDX-License-Identifier: Apache-2.0
// Of Cilium's plugin and of what its agent makes for a pod: the interface, the identity, the proxy.

import { type KnownError, oneOf } from '../../known/known-error.ts'

const agentLog =
  'kubectl -n kube-system logs ds/cilium -c cilium-agent --tail=50 | grep -i -e level=error -e level=warn'

/** Errors around one pod of Cilium. */
export const ciliumPodErrors: readonly KnownError[] = [
  {
    id: 'cilium-pod-network',
    pattern: oneOf(
      /unable to (?:set up|setup) (?:veth|netkit|link|ipvlan(?: slave)?) (?:on|in) (?:the )?(?:host|container|remote)[^\n]{0,160}/,
      /unable to move (?:veth|netkit) pair [^\n]{1,40} to netns[^\n]{0,160}|unable to (?:set up|setup) (?:interface|ipvlan|ENI) datapath[^\n]{0,120}/,
      /unable to configure interfaces in container namespace[^\n]{0,160}|unable to prepare (?:IP addressing for|endpoint configuration)[^\n]{0,160}/,
      /unable to (?:install ip rules and routes|parse routing info|find ifindex for interface MAC|find master device)[^\n]{0,120}/,
      /no interface found with MAC \S+|failed removing interface "[^"\n]{1,20}" from namespace[^\n]{0,120}/,
      /no link found inside container|link \S+ is not a veth interface|no address configured inside container/,
      /unable to (?:determine|retrieve) (?:name|index|MAC address|IP address|index interface) of (?:the container|(?:the )?veth|bridge interface)[^\n]{0,80}/,
      /type="cilium-cni"[^\n]{0,160}No valid IPv[46] address found|ENI master interface MAC address is not set/,
      /unable to configure congestion control[^\n]{0,80}|unable to set MAC address on interface \S+[^\n]{0,80}/,
    ),
    who: 'the cilium plugin',
    meaning: 'the pod has an address, and its interface, a route or a rule for it could not be made',
    causes: [
      'with ENI or Azure: the interface that the address belongs to is not attached to this node (any more), or not ' +
        'up yet',
      'an interface of the same name is left from the try before; the next try works',
      'chained (generic-veth): the plugin before it made no veth pair, or gave it no address',
      'the kernel lacks what the datapath of the pod wants (netkit, a congestion control)',
    ],
    look: ['ip -br link; ip rule; ip route show table all | head -60', agentLog],
    cure: 'do what the last words name; an interface of the cloud that is gone: restart the agent of this node',
    wraps: true,
    // The agent itself ended.
    unless: /level=fatal|daemon creation failed/,
  },
  {
    id: 'cilium-delete-queued',
    pattern: oneOf(
      /deletion queue directory \S+ has too many entries[^\n]{0,20}|(?:failed to|unable to) (?:acquire|create|list|open|lock)[^\n]{0,10} deletion queue[^\n]{0,160}/,
      /failed to open lockfile \S{1,80}deleteQueue[^\n]{0,120}|failed to write deletion file \S+[^\n]{0,120}|attempt to delete with no valid connection/,
      /Failed to connect to agent socket at [^\n]{1,120}|deleteQueue[^\n]{0,20}\/var\/run\/cilium[^\n]{0,100}/,
      /deletionQueue: (?:processQueuedDeletes|restorer promise) failed[^\n]{0,120}|Failed to (?:list|read|remove) queued CNI deletion[^\n]{0,120}|Failed to ensure CNI deletion queue directory[^\n]{0,120}/,
    ),
    who: 'the cilium plugin, by DEL',
    meaning: 'a pod was to be removed while the agent did not answer, and the note of it for later could not be made',
    causes: [
      'the agent of this node has been down for long, and /var/run/cilium/deleteQueue is full (256 entries)',
      'the directory cannot be written: a full disk, another owner',
    ],
    look: ['ls /var/run/cilium/deleteQueue | wc -l', 'kubectl -n kube-system get pods -o wide -l k8s-app=cilium'],
    cure: 'make the agent of this node run: it takes the notes in at its start, and kubelet tries the rest again',
    wraps: true,
  },
  {
    id: 'cilium-identity',
    pattern: oneOf(
      /(?:subsys=|cilium|endpoint)[^\n]{0,200}Unable to fetch kubernetes labels[^\n]{0,160}|Unable to fetch kubernetes labels[^\n]{0,200}(?:subsys=|cilium|endpoint)|unable to resolve identity[^\n]{0,160}|request cancelled while resolving identity|timed out waiting for node identity/,
      /out of local identity space|no more available IDs in configured space|IdentityAllocator not initialized/,
      /waiting for cilium-operator to allocate CiliumIdentity[^\n]{0,120}|failed to wait for initial global identities[^\n]{0,120}/,
      /Timeout while waiting for initial (?:allocator state|global identities)|initial global identity sync was cancelled/,
      /unable to allocate ID \S+ for key [^\n]{1,160}|failed to allocate (?:new )?identity (?:for|during)[^\n]{1,160}/,
      /(?:CRD|KVStore) backend failed to (?:allocate|release|delete|acquire|update)[^\n]{0,160}|Unable to initialize (?:Identity ?Allocator|Kubernetes CRD backend for identity)[^\n]{0,120}|Failed to allocate new identity after[^\n]{0,60}/,
    ),
    who: 'the cilium agent',
    meaning: 'the agent got no number (identity) for the labels of a pod, so no policy and no endpoint for it',
    causes: [
      'it does not reach what keeps them: the API server (CiliumIdentity), or etcd',
      'all numbers are used up: labels that differ for each pod (jobs, hashes) are part of the identity',
      'many pods with new labels start at once',
    ],
    look: ['kubectl get ciliumidentities | wc -l', 'kubectl -n kube-system get pods -l name=cilium-operator', agentLog],
    cure:
      'make the API server or etcd answer; leave such labels out of identities (the setting labels of Cilium), ' +
      'but none that a policy selects by: it would no longer fit; all agents and the operator have to be ' +
      'restarted for it',
    wraps: true,
  },
  {
    id: 'cilium-proxy',
    pattern: oneOf(
      /Envoy: (?:Binary|Proxy crashed|Version check failed|Failed to (?:open|start|serve|change mode)|Error (?:writing|marshaling))[^\n]{0,160}/,
      /Envoy version \S+ does not match[^\n]{0,80}|Truncated Envoy version[^\n]{0,60}|gRPC config: initial fetch timed out for[^\n]{0,120}/,
      /Unable to create (?:\w+ )?proxy(?:, retrying)?"[^\n]{0,160}|Can't install proxy rules[^\n]{0,120}|Datapath proxy redirection cannot be enabled[^\n]{0,80}/,
      /(?:while )?configuring proxy redirects(?:: [^\n]{1,120})?|proxy state changes failed[^\n]{0,80}|waiting for proxy updates: [^\n]{1,80}/,
      /unable to allocate (?:\w+ )?(?:visibility )?redirects[^\n]{0,120}/,
      /Timed out waiting for datapath updates of FQDN[^\n]{0,60}|DNS request cannot be associated with an existing endpoint/,
    ),
    who: 'the cilium agent, of its proxies',
    meaning:
      'the proxy of this node (Envoy for rules of HTTP and the like, the one for names in policies) does not run or ' +
      'did not take its settings',
    causes: [
      'the pod cilium-envoy of this node does not run, or is of another release than the agent',
      'it refuses the settings (a NACK earlier in the log says which), or is too slow to take them: "proxy state ' +
        'changes failed: context deadline exceeded"',
      'its ports or its sockets (/var/run/cilium/envoy) are taken, or left from before',
      'the agent is short of CPU: names that many pods ask for are learned too late',
    ],
    look: ['kubectl -n kube-system get pods -o wide -l k8s-app=cilium-envoy', agentLog],
    cure: 'make cilium-envoy of this node run, of the release of the agent; give the agent more CPU',
    wraps: true,
  },
]
