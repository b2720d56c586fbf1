// SPDX-License-Identifier: Apache-2.0
// Of kubelet and the runtimes: what they say around the network, and of pods that are gone.

import { type KnownError, otherMatters } from './known-error.ts'

/** Errors of the runtime and of pods. */
export const runtimeErrors: readonly KnownError[] = [
  {
    id: 'no-pod-address',
    pattern:
      /failed to find network info for sandbox|default network not found for: |failed to get network status for sandbox[^\n]{0,80}Device "[^"]*" does not exist/,
    who: 'containerd',
    meaning: 'the result of ADD has no address on eth0',
    causes: [
      'no IPAM is configured',
      'the plugin names another interface, or a chained plugin does not pass on the result before it',
      '`ips` has no `interface` index of eth0',
    ],
    look: ['trestle lint', 'crictl info | grep -A2 lastCNILoadStatus'],
    cure: "use podcidr or ipam in the first plugin; see the plugin's result with cnitool add",
  },
  {
    id: 'sandbox-gone',
    pattern:
      /PodSandbox networking namespace is closed|neither IPv4 nor IPv6 found when retrieving network status|empty networking namespace|Unexpected command output (?:Device|nsenter)[^\n]{0,80}|an error occurred when try(?:ing)? to find sandbox(?: \S+)?: not found|network namespace for sandbox \S+ is closed|Cannot find network namespace for the terminated container|specified (?:pod )?sandbox not found|failed on the status hook for pod|failed to read (?:sandbox|pod)[^\n]{0,100} IP from plugin|nsenter: cannot open (?:\S*ns\S*)? ?: No such file|failed to get sandbox (?:ip|status)[^\n]{0,120}(?:closed|not found)|could not find sandbox \S+/i,
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
    id: 'netns-gone',
    pattern:
      /is not of type NSFS|no network namespace detected on|stat netns path "?[^"\n]{0,120}: no such file or directory|(?<!cannot )(?:lstat|stat|open|readlink):? "?\/proc\/\d+\/ns\/net"?: no such (?:file|process)|nsenter: reassociate to namespace [^\n]{0,60}|failed to (?:open|get) (?:current )?(?:netns|namespace)[^\n]{0,200}|failed to Statfs "[^"]*(?:netns|\/ns\/net)[^"]*"[^\n]{0,30}|unknown FS magic on "[^"]*(?:netns|\/ns\/net)[^"]*"/i,
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
    id: 'cache-damaged',
    pattern:
      /failed to get network "[^"]*" cached result[^\n]{0,160}|decoding version from network config: unexpected end of JSON input|could not parse prevResult: unexpected end of JSON input|(?:unmarshal|read) (?:CNI cache file|cached network)[^\n]{0,160}/,
    who: 'libcni',
    meaning: 'the file in which libcni keeps the result of ADD is empty or damaged, so the DEL fails again and again',
    causes: ['the machine lost power, or its disk was full, while the file was written'],
    look: ['find /var/lib/cni/results /var/lib/cni/cache -type f -size 0'],
    cure: 'remove the empty files: the next DEL works. Newer runtimes (libcni 1.2) do not stop at them',
    run: 'find /var/lib/cni/results /var/lib/cni/cache -type f -size 0 -delete',
  },
  {
    id: 'hostport-family',
    pattern: /HostPortManager IP family mismatch[^\n]{0,60}|no HostPort support for IPv[46]/,
    who: 'CRI-O',
    meaning: 'CRI-O itself (not the plugin) sets up host ports, and knew one family only',
    causes: [
      'a host port on a dual-stack cluster with CRI-O 1.18',
      'iptables and nft of the node do not work for that family (IPv6 is off, a module is missing)',
    ],
    look: ['crio --version', 'crio config | grep -i hostport'],
    cure: 'update CRI-O; where a plugin does host ports set disable_hostport_mapping = true in crio.conf',
  },
  {
    id: 'interface-twice',
    pattern: /requested interface name "[^"]*" already assigned/,
    who: 'CRI-O',
    meaning: 'two networks of the pod want the same interface name: CRI-O calls no plugin then',
    causes: [
      'the network that it has in its cache and the default network of today are two to it: the file of the ' +
        'configuration was made anew or changed its name while the pod lived',
      'the annotation or the request names a network twice',
    ],
    look: ['ls -l /etc/cni/net.d /etc/kubernetes/cni/net.d', 'ls /var/lib/cni/results'],
    cure:
      'keep one file for the network, under one name; a pod that stays goes with kubectl delete pod --force, and ' +
      'what it had on the node with the next restart of the machine',
  },
  {
    id: 'host-port-taken',
    pattern:
      /rootlessport[^\n]{0,120}address already in use|(?:cannot open hostport|start sandbox container|hostport mapping|userland proxy|external connectivity|cannot listen on the (?:TCP|UDP) port)[^\n]{0,240}address already in use|bind for \S+ failed: port is already allocated/i,
    who: 'CRI-O, docker, podman',
    meaning: 'a process of the node listens on the host port that the pod wants',
    causes: [
      'another program, or kube-proxy for a NodePort of the same number',
      'a pod of before on this node whose port was not given back: the runtime still holds its socket',
    ],
    look: ['ss -Hlntup | grep :PORT'],
    cure:
      'end what listens, or use another host port; NodePorts (30000-32767) are not for host ports. A port that the ' +
      'runtime itself holds is freed by its restart',
  },
  {
    id: 'name-reserved',
    pattern: /failed to reserve sandbox name|error reserving (?:pod|ctr) name|name \S+ is reserved for/,
    who: 'containerd, CRI-O',
    meaning: 'kubelet asks again for a pod that the runtime still works on: the try before took too long',
    causes: [
      'the first try hangs: in a plugin, in the storage, or because the node is overloaded. Its error counts, not ' +
        'this one',
    ],
    look: [
      "journalctl -u containerd -u crio --since '1 hour ago' | grep -i -e deadline -e timeout",
      'ps -eo pid,etime,args | grep /opt/cni',
      'uptime; iostat -x 2 3',
    ],
    cure:
      'find what hangs: a plugin that still runs shows in ps; a slow disk in iostat. Restarting the runtime frees ' +
      'the name',
    wraps: true,
  },
  {
    id: 'call-too-long',
    pattern:
      /(?:RunPodSandbox|StopPodSandbox|pod sandbox|(?:setup|destroy) network|Error (?:adding|deleting) network|netplugin failed|plugin type="[^"]*")(?:[^\n]{0,600}?(?:desc =|code =|network|failed \(\w+\):|sandbox(?: "[^"]*"| \S+)?:|no error message:|network:|err=|error=|"))? ?"?:? ?(?:context deadline exceeded|context canceled|signal: killed|DeadlineExceeded)/,
    who: 'kubelet, containerd, CRI-O',
    meaning: 'a call took longer than its caller waits',
    causes: [
      'the node is loaded, or its disk is slow',
      'a plugin waits: for its agent, the API server, a lock',
      'iptables has very many rules',
    ],
    look: ['ps -eo pid,etime,args | grep /opt/cni', 'uptime', 'iptables-save | wc -l'],
    cure:
      'look at the load of the node and at what the plugin waits for; a trestle that was killed is put right by ' +
      'the next call on the network',
    wraps: true,
    unless: otherMatters,
  },
  {
    id: 'cni-not-initialized',
    pattern:
      /cni plugin not initialized|CNI plugin not ready: plugin status uninitialized|server shutdown before CNI plugin was ready|cni config load failed|cni config uninitialized/i,
    who: 'containerd, cri-dockerd',
    meaning: 'the runtime has no network configuration, so no pod can start or be removed',
    causes: [
      'no file in /etc/cni/net.d: the network add-on is not installed, or its DaemonSet does not run yet',
      'a broken first file: containerd takes none then',
      'the directory was replaced while containerd ran: it watches the old one',
      'the runtime reads another directory (k3s, rke2, k0s, microk8s have their own)',
    ],
    look: ['trestle lint', 'ls -l /etc/cni/net.d', 'crictl info | grep -i -A2 lastCNILoadStatus', 'kubectl get ds -A'],
    cure:
      '`trestle lint` names the reason; containerd loads a corrected file at once, a replaced directory after a ' +
      'restart (systemctl restart containerd)',
    checks: ['dir-missing', 'dir-empty', 'containerd-stops', 'dir-not-watched'],
    wraps: true,
  },
  {
    id: 'plugin-status',
    pattern: /failed \(status\): [^\n]{1,160}|Network plugin returns error: (?!cni (?:plugin|config))[^\n]{1,160}/,
    who: 'a plugin, by STATUS',
    meaning: 'the plugin itself says that it cannot take pods; its words are quoted',
    causes: ['the agent behind it is not up', 'what the quoted words say'],
    look: ['kubectl get ds -A', 'trestle lint'],
    cure: "look at the plugin's own log or agent; for a STATUS of trestle see `trestle explain 50`",
    wraps: true,
  },
  {
    id: 'network-not-ready',
    pattern:
      /NetworkPluginNotReady|NetworkReady=false|network (?:plugin )?is not ready|container runtime network not ready/i,
    who: 'kubelet',
    meaning: 'the runtime says that it has no network; the node is not ready',
    causes: [
      'the words after it say why; most often "cni plugin not initialized", or a plugin that answers STATUS with 50',
    ],
    look: ['trestle lint', 'crictl info | grep -i -A2 lastCNILoadStatus'],
    cure: 'run `trestle lint`; for a STATUS of trestle see the message itself',
    checks: ['dir-empty', 'containerd-stops'],
    wraps: true,
  },
  {
    id: 'probe-times-out',
    pattern:
      /(?:liveness|readiness|startup) probe failed[^\n]{0,300}?(?:i\/o timeout|context deadline exceeded|Client\.Timeout|connection timed out|no route to host)/i,
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
    pattern:
      /failed to (?:remove|umount) netns[^\n]{0,160}|(?:unlinkat|remove|unlink|umount|unmount\w*):? \/(?:var\/)?run\/\S*netns\/\S+ (?:device or resource busy|target is busy)/,
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
    pattern:
      /(?:CNI|network|plugin|multus|calico|cilium|ovn)[^\n]{0,300}\b(?:pods?|namespaces?) "[^"]*" not found|pod (?:was )?deleted (?:while|before|during)|canceled waiting for|pod sandbox \S* ?(?:is )?being deleted|pod deleted before sandbox \S+ operation began|canceled old pod sandbox[^\n]{0,160}|expected pod (?:\S+ )?UID "[^"]*" but got|pod UID mismatch|error (?:waiting for|getting) pod: pods? "[^"]*" not found|failed to (?:query|update) the pod \S+ in out of cluster comm: pods "[^"]*" not found|pod not found during Multus GetPod|(?:network for sandbox "[^"]*"|to CNI network "[^"]*"|failed \(\w+\)): pods? "[^"]*" not found/,
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
  {
    id: 'network-plugin-unknown',
    pattern: /didn't find compatible (?:CNI|network) plugin with given settings/,
    who: 'cri-dockerd, older kubelets',
    meaning: '--network-plugin names something that is none of "cni", "kubenet" and nothing',
    causes: ['the name of an add-on (calico, flannel) was given: they all are "cni"'],
    look: ['systemctl cat cri-docker kubelet | grep network-plugin'],
    cure: 'use --network-plugin=cni: which plugin is called stands in /etc/cni/net.d',
  },
]
