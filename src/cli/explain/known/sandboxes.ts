// SPDX-License-Identifier: Apache-2.0
// Of sandboxes: their network namespace, their address, and pods that are gone.

import { type KnownError, oneOf } from './known-error.ts'

/** Errors of sandboxes and of pods. */
export const sandboxErrors: readonly KnownError[] = [
  {
    id: 'no-pod-address',
    pattern: oneOf(
      /failed to find network info for sandbox|default network not found for: /,
      /failed to get network status for sandbox[^\n]{0,80}Device "[^"]*" does not exist/,
      /failed to configure network: no interfaces? (?:found|with an address)/,
      /invalid IP configuration \((?:nil|interface number)|cni didn't report ipv4/,
      /Pod Sandbox (?:Status doesn't have network information|reported an unparseable)[^\n]{0,40}/,
      /failed to get valid (?:ip|ipv[46]) address for sandbox \S+|hostport mapping for [^\n]{1,120}: invalid or missing IP of pod/,
    ),
    who: 'containerd, CRI-O, kubelet',
    meaning: 'the result of ADD has no address on eth0',
    causes: [
      'no IPAM is configured',
      'the plugin names another interface, or a chained plugin does not pass on the result before it',
      '`ips` has no `interface` index of eth0',
      'the cluster has IPv6 alone, and the runtime is from before it knew that (CRI-O up to 1.13)',
    ],
    look: ['trestle lint', 'crictl info | grep -A2 lastCNILoadStatus'],
    cure: "use podcidr or ipam in the first plugin; see the plugin's result with cnitool add",
  },
  {
    id: 'sandbox-gone',
    pattern: oneOf(
      /PodSandbox networking namespace is closed|neither IPv4 nor IPv6 found when retrieving network status/,
      /empty networking namespace|Unexpected command output (?:Device|nsenter)[^\n]{0,80}/,
      /an error occurred when try(?:ing)? to find sandbox(?: \S+)?: not found/,
      /network namespace for sandbox \S+ is closed|Cannot find network namespace for the terminated container/,
      /specified (?:pod )?sandbox not found|failed on the status hook for pod/,
      /failed to read (?:sandbox|pod)[^\n]{0,100} IP from plugin/,
      /nsenter: cannot open (?:\S*ns\S*)? ?: No such file/,
      /failed to get sandbox (?:ip|status)[^\n]{0,120}(?:closed|not found)|could not find sandbox \S+/,
      /network namespace path: Error: No such container|Couldn't find network status for \S+ through plugin/,
      /cannot find (?:the network namespace|pod IPs in the network namespace), skipping pod network status/,
      /cannot join network of a non running container|it's probably been stopped already/,
    ),
    who: 'kubelet, containerd',
    meaning: 'somebody asked for a sandbox that had just gone: harmless',
    causes: [
      'kubelet and the runtime remove a pod at the same time, and ask once more',
      'the pod failed to start for another reason, and this is said while it is cleaned away',
    ],
    look: ['kubectl describe pod POD', 'crictl pods --name POD'],
    cure: 'nothing. When the pod does not start, look for another error a few lines above',
    wraps: true,
  },
  {
    id: 'dockershim-checkpoint-damaged',
    pattern: oneOf(
      /Failed to unmarshal checkpoint "[\da-f]{8,64}"[^\n]{0,200}|Checksum of checkpoint "[\da-f]{8,64}" is not valid/,
      /could not retrieve port mappings: (?:checkpoint is corrupted|[^\n]{0,60}checksum is not valid)[^\n]{0,60}/,
      /could not retrieve port mappings: (?:unexpected end of JSON input|invalid character [^\n]{1,60})/,
      /Checkpoint checksum is not valid\. Checkpoint \w{5,7} is likely to be corrupted/,
      /checkpoint for sandbox "?[\da-f]{4,64}"?: (?!(?:checkpoint|key) is not)[^\n]{1,80}/,
      /\/(?:dockershim|cri-dockerd)\/sandbox\/[\da-f.]{8,80}[^\n]{0,40}: (?:unexpected end of JSON|structure needs cleaning|input\/output error)/,
    ),
    who: 'kubelet with docker (dockershim), cri-dockerd',
    meaning:
      'the note that kubelet keeps of a sandbox (its host ports) is damaged, so the sandbox cannot be stopped, and ' +
      'no new one is made for its pod',
    causes: [
      'the node lost power or was reset while the file was written: it is empty or cut short',
      'kubelet was updated, and computes the checksum in another way than the one that wrote the file (1.10 to 1.13)',
      'the disk is full or damaged',
    ],
    look: [
      'ls -l /var/lib/dockershim/sandbox /var/lib/cri-dockerd/sandbox 2>/dev/null',
      'df -h /var/lib; docker ps -a --filter name=k8s_POD_ --filter status=exited',
    ],
    cure:
      'move the file with the id of the message away (mv /var/lib/dockershim/sandbox/ID /root/), and kubelet goes ' +
      'on; newer releases remove such a file themselves',
  },
  {
    id: 'netns-gone',
    pattern: oneOf(
      /nsenter: reassociate to namespaces failed: (?:Invalid|Bad)[^\n]{0,40}/,
      /is not of type NSFS|no network namespace detected on/,
      /stat netns path "?[^"\n]{0,120}"?[^"\n]{0,120}: no such file or directory/,
      /(?<!cannot )(?:lstat|stat|open|readlink):? "?\/proc\/\d+\/ns\/net"?: no such (?:file|process)/,
      /nsenter: reassociate to namespace (?![^\n]{0,60}(?:not permitted|denied))[^\n]{0,60}/,
      /(?<!Unexpected command output )nsenter: cannot open \/proc\/\d+\/ns\/net\b[^\n]{0,30}No such file or directory/,
      /nsenter: cannot open \/proc\/\d+\/ns\/(?:ipc|uts|mnt|pid): No such file or directory(?=[\s\S]{0,300}(?:netplugin|\bCNI\b))/,
      /failed to (?!get namespace(?<=(?:type="calico|(?:ipam_plugin|loadbalancer_controller|component)\.go)[^\n]{0,160}))(?:open|get) (?:current )?(?:netns|namespace(?! [\w-]{1,63}[:,]))(?! for LoadBalancer)(?![^\n]{0,300}(?:permission denied|operation not permitted))[^\n]{0,200}/,
      /failed to Statfs "[^"]*(?:netns|\/ns\/net)[^"]*"(?!: (?:permission denied|operation not permitted))[^\n]{0,30}/,
      /unknown FS magic on "[^"]*(?:netns|\/ns\/net)[^"]*"|failed get network namespace "[^"]*"/,
      /Cannot open network namespace "[^"]*"|setting the network namespace "[^"]*" failed: Invalid argument/,
      /unknown FS magic on "[^"]*"/,
      /invalid namespace path: (?:IO error: )?No such file or directory|(?<!cannot )open (?:container netns|the netns file|\S*netns|\/proc\/\S+\/ns\/net)[^\n]{0,100}No such file or directory/,
      /error switching to ns \S+: (?:no such|bad file)/,
      /Couldn't open (?:network|user) namespace \S+: No such[a-z ]{1,30}|container netns not found: [^\n]{1,60}|Peer netns reference is invalid/,
      /network namespace: (?:l?stat|open) \S+: no such file or directory/,
      /may not access \/proc\/\d+\/ns\/net: No such file or directory|joining net namespace "[^"]*": [^\n]{0,60}no such file/,
      /Failed to join network namespace: netns: (?:No such file|Bad file|Invalid argument)[^\n]{0,20}/,
      /cannot setup namespace using "\S*netns\S*": No such file/,
    ),
    who: 'a plugin',
    meaning: 'the network namespace of the pod is gone or no namespace',
    causes: [
      'the pod ended meanwhile: its process died at the start (no memory, a bad command), or kubelet gave it up',
      'the caller runs in another mount or PID namespace: an agent in a pod without /run/netns or hostPID, docker ' +
        'beside containerd',
      'a restart of the machine emptied /run: a DEL for a pod from before',
      'a plugin that is very old for the kernel ("unknown FS magic")',
    ],
    look: ['findmnt -R /run/netns', 'ls -l /run/netns', 'crictl pods'],
    cure:
      'nothing when it is one pod, or a DEL; else see that /run/netns is mounted shared into the caller ' +
      '(mountPropagation: HostToContainer)',
  },
  {
    id: 'probe-times-out',
    pattern:
      /(?:liveness|readiness|startup) probe failed(?!: Error (?:verifying datastore|reaching apiserver|initializing datastore))[^\n]{0,300}?(?:i\/o timeout|context deadline exceeded|Client\.Timeout|connection timed out|no route to host)/i,
    who: 'kubelet',
    meaning: 'the node gets no answer from a pod that may be well',
    causes: [
      'the program in the pod is slower than timeoutSeconds of the probe ("awaiting headers": it was connected)',
      'the kernel drops the answer: rp_filter 1 where the way back is another interface',
      'a firewall of the node between node and pods ("dial tcp … i/o timeout": never connected)',
    ],
    look: [
      'nstat -az TcpExtIPReversePathFilter',
      'curl -m 5 http://POD-IP:PORT/ from the node',
      'nft list ruleset | grep -n drop',
    ],
    cure:
      'when the counter rises: sysctl -w net.ipv4.conf.all.rp_filter=2; else look at nft and iptables drops; a ' +
      'slow program: raise timeoutSeconds',
  },
  {
    id: 'netns-busy',
    pattern: oneOf(
      /failed to (?:remove|umount) netns[^\n]{0,160}|network namespace "[^"]*" is not fully closed|rm: cannot remove ['"]?\/(?:var\/)?run\/\S*netns\/\S+: Device or resource busy|(?:unlinkat|remove|unlink|umount|unmount\w*)(?: NS)?:?(?: at)? \/(?:var\/)?run\/\S*netns\/\S+:? (?:device or resource busy|target is busy)/,
      /Cannot remove namespace file "[^"\n]{1,80}": Device or resource busy/,
    ),
    who: 'containerd, CRI-O',
    meaning: "the pod's network namespace is still mounted somewhere, so its file cannot be removed",
    causes: [
      'a program copied the mounts of the node while the pod ran (a DaemonSet that mounts / or /run without ' +
        'propagation, a service with PrivateMounts)',
      '/run/netns is no shared mount, or is mounted twice',
    ],
    look: ['grep -l /run/netns/NAME /proc/*/mountinfo', 'findmnt -R -o TARGET,PROPAGATION /run/netns'],
    cure: 'restart the program whose mountinfo names it; mount the host with mountPropagation: HostToContainer there',
  },
  {
    id: 'pod-gone',
    pattern: oneOf(
      /(?:CNI|network|plugin|multus|calico|cilium|ovn)[^\n]{0,300}\b(?:pods?|namespaces?) "[^"]*" not found/,
      /pod (?:was )?deleted (?:while|before|during)|canceled waiting for|pod sandbox \S* ?(?:is )?being deleted/,
      /pod deleted before sandbox \S+ operation began|canceled old pod sandbox[^\n]{0,160}/,
      /expected pod (?:\S+ )?UID "[^"]*" but got|pod UID mismatch/,
      /error (?:waiting for|getting) pod: pods? "[^"]*" not found/,
      /failed to \[?(?:query|update)[\w/\]]* the pod \S+ in out of cluster comm: pods? "[^"]*" not\b/,
      /pod not found during Multus GetPod|OVS sandbox port \S+ is no longer active|setting the networks status, pod was already deleted/,
      /(?:network for sandbox "[^"]*"|to CNI network "[^"]*"|failed \(\w+\)): pods? "[^"]*" not found/,
    ),
    who: 'Multus, OVN-Kubernetes, aws-cni',
    meaning: 'the pod was deleted, or made anew under its name, while its network was being set up: harmless',
    causes: [
      'a StatefulSet, a job or a drain replaced it in that moment',
      'the call before took minutes, and the pod did not wait',
      'the sandbox was made by hand (crictl runp), and the plugin asks the API server for a pod of that name',
    ],
    look: ['kubectl get pod POD -o wide'],
    cure: 'nothing: the call for the pod of now comes by itself. When it is often, look for what makes calls slow',
  },
]
