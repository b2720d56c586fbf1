// SPDX-License-Identifier: Apache-2.0
// Of kubelet and the runtime: the name servers that they give to pods, and ports that they pass on into one.

import { type KnownError, oneOf } from '../known/known-error.ts'

/** Errors of a pod that has its network: of its resolv.conf, and of kubectl port-forward. */
export const kubeletWordErrors: readonly KnownError[] = [
  {
    id: 'resolv-conf-limits',
    pattern: oneOf(
      /(?:Nameserver|Search Line) limits (?:were|are) exceeded[^\n]{0,160}|DNSOption\.Searches has more than \d+ domains/,
      /Resolv\.conf file '[^'\n]{1,80}' contains (?:search line|a nameserver)[^\n]{0,120}/,
    ),
    who: 'kubelet, containerd',
    meaning: "the node's resolv.conf has more than a pod can have, so the rest is left out: mostly harmless",
    causes: [
      'more than 3 name servers: DHCP or a VPN of the node adds some, each family its own',
      'more search domains than 6 (32 since Kubernetes 1.28) with those of the cluster, or over 256 (2048) letters',
    ],
    look: ['cat /etc/resolv.conf /run/systemd/resolve/resolv.conf', 'grep -i resolv /var/lib/kubelet/config.yaml'],
    cure:
      'nothing where names resolve; else give kubelet a shorter file (resolvConf), or fewer servers and domains to ' +
      'the node',
  },
  {
    id: 'node-network-unavailable',
    pattern: oneOf(
      /(?:untolerated|had) taints? \{(?:node\.kubernetes\.io|k8s\.ovn\.org)\/network-unavailable[^\n]{0,60}|Taints: {1,20}\S{0,80}network-unavailable:NoSchedule/,
      /taints? \{(?:cni\.istio\.io|kuma\.io)\/not-ready[^\n]{0,40}|Taints: {1,20}\S{0,80}(?:cni\.istio\.io|kuma\.io)\/not-ready/,
      /agent-not-ready=\w{0,8}:\w{4,12}|taints? \{node\.cilium\.io\/agent-not-ready[^\n]{0,60}|Taints: {1,20}\S{0,80}cilium\.io\/agent-not-ready:\w{4,12}/,
      /NetworkUnavailable +True\b(?![^\n]{0,120}NoRouteCreated)[^\n]{0,160}|\b(?:Calico|Cilium|Flannel|Weave)IsDown\b/,
      /(?:calico|cilium) is not running on this node|Calico is shutting down on this node/,
    ),
    who: 'the scheduler, of the taints and conditions that agents and clouds give to a node',
    meaning: 'the node is marked as one without a network for pods, so no pod is put there but those of agents',
    causes: [
      'the agent of the network does not run on this node, or never got as far as to take the mark away',
      'the network was replaced, and the mark is of the agent of before',
      'a cloud: its route controller has made no route for the node yet, or none is wanted (a network with a tunnel)',
    ],
    look: [
      "kubectl get nodes -o custom-columns='N:.metadata.name,T:.spec.taints[*].key'",
      'kubectl describe node NODE | grep -A8 ^Conditions; kubectl get pods -A -o wide --field-selector ' +
        'spec.nodeName=NODE',
    ],
    cure:
      'make the agent of the network run on this node; the taints of Cilium, Istio and Kuma are taken away by ' +
      'cilium-operator, istiod or the control plane: look at those, too. A taint of a network that is gone: kubectl ' +
      'taint nodes NODE KEY-, once the new agent is ready there; a cloud whose routes are not needed: ' +
      '--configure-cloud-routes=false for its controller manager',
    wraps: true,
  },
  {
    id: 'cluster-dns-missing',
    pattern: /kubelet does not have ClusterDNS IP configured[^\n]{0,120}|\bMissingClusterDNS\b/,
    who: 'kubelet',
    meaning: 'kubelet does not know the name server of the cluster, so pods get that of the node',
    causes: ['clusterDNS is not set in its configuration: it was started by hand or by a tool that has no DNS yet'],
    look: ['grep -A2 -i clusterDNS /var/lib/kubelet/config.yaml', 'kubectl -n kube-system get svc kube-dns'],
    cure: 'set clusterDNS (the address of the service kube-dns) and clusterDomain for kubelet, and restart it',
  },
  {
    id: 'exec-in-stopped-container',
    pattern:
      /cannot exec in a stopped (?:container|state)[^\n]{0,60}|cannot exec a container that has (?:run and )?stopped[^\n]{0,60}/,
    who: 'runc, for a probe or kubectl exec',
    meaning: 'the program of the container had ended before the command could run in it: a consequence, no cause',
    causes: [
      'the agent or program in the container crashed: its own last words say why',
      'containerd 1.7.20 and later: resolvConf of kubelet names an empty file, so an agent on the host network ' +
        '(aws-node) has no name server and ends',
    ],
    look: [
      'kubectl logs POD --previous --tail=30',
      'grep -i resolv /var/lib/kubelet/config.yaml; cat /etc/resolv.conf',
    ],
    cure: 'look at the log of the container that ended; this line needs no cure',
    wraps: true,
    needsNetwork: true,
  },
  {
    id: 'port-forward-refused',
    pattern: oneOf(
      /failed to connect to localhost:\d+ inside namespace[^\n]{0,240}/,
      /failed to execute portforward in network namespace[^\n]{0,160}(?:refused|socat command returns error)[^\n]{0,120}/,
      /error forwarding port \d+ to pod \S+ uid ?:?[^\n]{0,160}(?:Connection refused|exit status 1:? \d{4}\/)[^\n]{0,160}/,
    ),
    who: 'containerd or CRI-O, for kubectl port-forward',
    meaning: "nothing in the pod listens on that port of 127.0.0.1: the pod's network itself works",
    causes: [
      'the program listens on another port, has not started yet, or died',
      'it listens on the address of the pod alone: port-forward goes to localhost',
    ],
    look: ['kubectl logs POD', 'kubectl exec POD -- ss -ltn'],
    cure: 'forward to the port on which it listens, and let it listen on 0.0.0.0 or localhost as well',
  },
]
