// SPDX-License-Identifier: Apache-2.0
// Of plugins that ask the API server: it refuses them, or they do not reach it.

import type { KnownError } from '../known/known-error.ts'

const common = { needsNetwork: true } as const

/** Errors between a plugin and the API server. */
export const apiServerErrors: readonly KnownError[] = [
  {
    id: 'api-certificate',
    pattern: /x509: [^\n"\]]{5,160}/,
    who: 'a plugin that asks the API server',
    meaning: "the plugin does not trust the API server's certificate",
    causes: [
      'the cluster was set up anew, and the kubeconfig in /etc/cni/net.d is left from the one before',
      'its certificate-authority-data is empty, or of another cluster',
      'a certificate expired, or does not name the address that the plugin uses (the first of the service range)',
    ],
    look: [
      'ls -l /etc/cni/net.d/*kubeconfig* /etc/cni/net.d/*.d/',
      'openssl s_client -connect 10.96.0.1:443 </dev/null 2>/dev/null | openssl x509 -noout -issuer -dates -ext ' +
        'subjectAltName',
    ],
    cure:
      'restart the DaemonSet of the plugin, which writes the kubeconfig anew; a certificate without the address: ' +
      'kubeadm init phase certs apiserver',
    ...common,
  },
  {
    id: 'api-unauthorized',
    pattern:
      /(?:failed|unable|err\w*=|could not)[^\n]{0,160}: Unauthorized\b|the server has asked for the client to provide credentials|must be logged in to the server|invalid bearer token|token (?:has|is) expired|(?:failed \(\w+\)|error [^\n]{0,100}): Unauthorized\b/,
    who: 'a plugin that asks the API server (istio-cni, linkerd-cni and others)',
    meaning: 'the API server refuses the token that the plugin has from its kubeconfig in /etc/cni/net.d',
    causes: [
      'the token expired or its key was rotated, and the DaemonSet that renews it cannot start: its own pod needs ' +
        'this plugin',
      'the DaemonSet was removed, and its entry was left in the list',
    ],
    look: ['ls -l /etc/cni/net.d', 'kubectl get ds -A | grep -i cni'],
    cure:
      "take the plugin's entry out of the list in /etc/cni/net.d on that node: its DaemonSet's pod starts then, " +
      'writes a new token and puts itself in again',
    ...common,
  },
  {
    id: 'api-forbidden',
    pattern:
      /is forbidden: User "?[^\s"]+"? cannot \w+|Get "?https:\/\/[^\n]{1,200}: Forbidden\b|(?:pods|nodes|clusterinformations?|ippools?)\S* [^\n]{0,80}is forbidden: User "[^"]*" cannot/i,
    who: 'a plugin that asks the API server',
    meaning: 'the request was refused: by a proxy in between, or because its role lacks the right',
    causes: [
      'a bare "Forbidden" behind the URL: the runtime has HTTP_PROXY, and the proxy refuses the service address',
      '"is forbidden: User …": the ClusterRole of the plugin is missing, or of another version',
    ],
    look: ['systemctl show containerd crio -p Environment', 'kubectl get clusterrolebindings -o wide | grep -i cni'],
    cure:
      "add the service range, the pods' range and the nodes to NO_PROXY of the runtime and restart it; or apply " +
      "the plugin's manifest again",
    ...common,
  },
  {
    id: 'proxy-in-the-way',
    pattern:
      /Get "?https:\/\/[^\n]{1,200}: (?:Service Unavailable|Bad Gateway|Gateway Time-?out|proxyconnect[^\n]{0,80}|Proxy Authentication Required)/i,
    who: 'a plugin that asks the API server',
    meaning: 'a proxy answers in place of the API server: plugins inherit HTTP_PROXY and HTTPS_PROXY of the runtime',
    causes: ['NO_PROXY of containerd or CRI-O lacks the service range'],
    look: ['systemctl show containerd crio -p Environment'],
    cure:
      "add the service range (10.96.0.0/12 with kubeadm), the pods' range, the nodes, .svc and .cluster.local to " +
      "NO_PROXY in the runtime's unit, daemon-reload, restart it",
    ...common,
  },
  {
    id: 'api-unreachable',
    pattern:
      /(?:Get|Post|Put|Patch|Delete|GET|POST) "?https:\/\/[^\n"\s]{1,160}"?:? [^\n]{0,120}?(?:i\/o timeout|connect: (?:connection (?:refused|timed out)|no route to host|network is unreachable)|context deadline exceeded|TLS handshake timeout|(?:unexpected )?EOF\b|no such host|http2: [^\n]{1,60}|request canceled[^\n]{0,80})|dial tcp \S+:6443: [^\n]{1,60}|client rate limiter Wait returned an error[^\n]{0,60}|Unable to contact k8s api-?server|(?:connection to the server|server) \S+ (?:was refused|refused)|etcdserver: (?:request timed out|leader changed|no leader)|the server (?:was unable to return a response|is currently unable to handle)|https:\/\/\[?(?:[\w.-]+|[\da-f:]+)\]?(?::\d+)?\/apis?\b[^\n]{0,200}?(?:i\/o timeout|connect: (?:connection refused|no route to host|network is unreachable)|context deadline exceeded|TLS handshake timeout|cannot ?connect|: (?:unexpected )?EOF\b|no such host)|failed to get pod annotation:? ?\(['"]?Connection [^\n]{0,60}|unexpected error when reading response body|http2: client connection lost|failed \(\w+\): [^\n]{0,160}(?:etcdserver: |the server (?:was unable|is currently unable)|TLS handshake timeout)/,
    who: 'a plugin or agent that asks the API server',
    meaning:
      'the API server does not answer at the address that the plugin uses, mostly the first of the service range',
    causes: [
      'kube-proxy (or what replaces it) does not run on this node: nobody translates the service address',
      'a firewall, or a route of the pods or of a VPN that covers the service range',
      'the API server is down',
    ],
    look: [
      'curl -k https://10.96.0.1:443/healthz',
      'kubectl -n kube-system get pods -o wide -l k8s-app=kube-proxy',
      'ip route get 10.96.0.1',
    ],
    cure:
      'make the curl answer from this node (with the address of the message): start kube-proxy, open the port ' +
      '6443, or correct the route',
    ...common,
  },
]
