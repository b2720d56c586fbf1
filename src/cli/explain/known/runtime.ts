// SPDX-License-Identifier: Apache-2.0
// Of kubelet and the runtimes: what they say of themselves, of host ports and of calls that take too long.

import { type KnownError, oneOf, otherMatters } from './known-error.ts'

/** Errors of the runtime. */
export const runtimeErrors: readonly KnownError[] = [
  {
    id: 'cache-damaged',
    pattern: oneOf(
      /failed to get network "[^"]*" cached result[^\n]{0,160}/,
      /decoding version from network config: unexpected end of JSON input/,
      /could not parse prevResult: unexpected end of JSON input/,
      /(?:unmarshal|read) (?:CNI cache file|cached network)[^\n]{0,160}/,
    ),
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
    pattern: oneOf(
      /(?:rootlessport|bind host port|PortManager\.AddPort|failed to expose port|docker-proxy)[^\n]{0,200}address already in use/,
      /to bind port \d+ \(Address already in use\)[^\n]{0,60}|slirp_add_hostfwd failed/,
      /Failed to bind any port for '-[tu] (?:[\d.]+\/)?\d{4,5}[^\n]{0,40}/,
      /cannot expose port \d+[^\n]{0,80}address already in use/,
      /(?:(?:cannot|failed to) open hostport|start sandbox container|hostport mapping|userland proxy|external connectivity|cannot listen on the (?:TCP|UDP) port)[^\n]{0,240}address already in use/,
      /can't open (?:port )?"(?:nodePort|hostPort|externalIP) for [^\n]{0,160}address already in use/,
      /network: (?:reserved )?port collision[^\n]{0,40}|collision when reserving port for (?:alloc|node|network) [^\n]{1,160}|(?:unexpected|reserved) (?:node|alloc) port collision|\bhostport is occupied|there is not enough \d+ free ports/,
      /Failed to start device "[^"]*": [^\n]{0,200}bind: address already in use/,
      /Ports are not available: [^\n]{0,160}(?:address already in use|Only one usage of each socket|port is already allocated)/,
      /bind for \S+ failed: port is already allocated|(?:external connectivity|userland proxy)[^\n]{0,200}(?:EADDRINUSE|all ports are allocated)|all ports in range \S+ are already allocated/,
      /cannot reserve the port [^\n]{0,160}address already in use/,
    ),
    who: 'CRI-O, docker, podman',
    meaning: 'a process of the node listens on the host port that the pod wants',
    causes: [
      'another program, or kube-proxy for a NodePort of the same number; with Nomad another allocation, or the ' +
        'reserved_ports of the client',
      'a pod of before on this node whose port was not given back: the runtime still holds its socket',
    ],
    look: ['ss -Hlntup | grep :PORT'],
    cure:
      'end what listens, or use another host port; NodePorts (30000-32767) are not for host ports. A port that the ' +
      'runtime itself holds is freed by its restart',
  },
  {
    id: 'host-address-missing',
    pattern: oneOf(
      /(?:(?:cannot|failed to) open hostport|hostport mapping|userland proxy|external connectivity|rootlessport|failed to bind (?:host )?port|cannot listen on the (?:TCP|UDP) port|PortManager\.AddPort|docker-proxy)[^\n]{0,240}(?:cannot assign requested address|EADDRNOTAVAIL)/,
      /to bind port \d+ \(Cannot assign requested address\)[^\n]{0,60}/,
    ),
    who: 'CRI-O, docker, podman',
    meaning: 'a port is to be published at an address that the node does not have',
    causes: [
      'the address belongs to a router or a NAT in front of the node (the public one of a cloud machine)',
      'the interface that had it is down, or got its address after the runtime started',
      'an IPv6 address on a node without IPv6',
    ],
    look: ['ip -br addr'],
    cure: 'publish at 0.0.0.0 or at an address that `ip addr` shows',
  },
  {
    id: 'name-reserved',
    pattern: /failed to reserve sandbox name|error reserving (?:pod|ctr) name|\bname (?:\S+ )?is reserved for/,
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
    pattern: oneOf(
      /(?:RunPodSandbox|StopPodSandbox|pod sandbox|(?:setup|destroy) network|Error (?:adding|deleting) network|netplugin failed|plugin type="[^"]*")(?:[^\n]{0,600}?(?:desc =|code =|network|failed \(\w+\):|sandbox(?: "[^"]*"| \S+)?:|no error message:|network:|err=|error=|"))? ?"?:? ?(?:context deadline exceeded|context canceled|signal: killed|DeadlineExceeded)/,
      /failed to \w+ (?:a )?sandbox (?:container )?for pod "[^"]*": operation timeout: context deadline exceeded/,
      /\b(?:Status|Version|\w{3,8}PodSandbox\w{0,6}) from runtime service failed[^\n]{0,120}context deadline exceeded/,
      /attaching to network failed, make sure your network options are correct[^\n]{0,60}: context deadline exceeded/,
      /failed \((?:add|delete|check|cmd\w+)\): [^\n]{1,600}: context deadline exceeded(?=["'\],;)]|\s*$)/,
    ),
    who: 'kubelet, containerd, CRI-O, docker with swarm',
    meaning: 'a call took longer than its caller waits',
    causes: [
      'the node is loaded, or its disk is slow',
      'a plugin waits: for its agent, the API server, a lock',
      '"attaching to network failed": docker asked the managers of the swarm for the network, and none gave it: ' +
        'their log says why (no leader, port 2377 or 7946 closed)',
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
    pattern: oneOf(
      /cni plugin not initialized|CNI plugin not ready: plugin status uninitialized/,
      /server shutdown before CNI plugin was ready|cni config load failed|cni config uninitialized/,
      /cni (?:config )?not initialized|failed to initialize cni\b|plugin status uninitialized/,
      /cni config unintialized/,
    ),
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
    checks: ['dir-missing', 'dir-empty', 'json-syntax', 'containerd-stops', 'dir-not-watched'],
    wraps: true,
  },
  {
    id: 'plugin-status',
    pattern:
      /failed \(status\): [^\n]{1,160}|Network plugin returns error: (?!cni (?:plugin|config))[^\n]{1,160}|CNI plugin (?:status check failed|unhealthy beyond grace period)[^\n]{0,160}/,
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
    checks: ['dir-empty', 'json-syntax', 'containerd-stops'],
    wraps: true,
  },
  {
    id: 'network-plugin-unknown',
    pattern: /didn't find compatible (?:CNI|network) plugin with given settings|\bnetwork plugin "[^"]*" not found\b/i,
    who: 'cri-dockerd, older kubelets',
    meaning: '--network-plugin names something that is none of "cni", "kubenet" and nothing',
    causes: ['the name of an add-on (calico, flannel) was given: they all are "cni"'],
    look: ['systemctl cat cri-docker kubelet | grep network-plugin'],
    cure: 'use --network-plugin=cni: which plugin is called stands in /etc/cni/net.d',
  },
  {
    id: 'cache-missing',
    pattern: /network "?[^\s"]+"? not found in CNI cache|Missing CNI cache file/i,
    who: 'CRI-O, podman',
    meaning: 'libcni has no note of how this container was connected, so its configuration of now is used: harmless',
    causes: [
      'the container was started by another release, or connected and disconnected since',
      '/var/lib/cni was cleared',
    ],
    look: ['ls /var/lib/cni/results'],
    cure: 'nothing, when the container goes; where it stays, look for the error after this one',
    wraps: true,
  },
]
