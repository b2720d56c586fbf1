// SPDX-License-Identifier: Apache-2.0
// Of answers that do not come from the API server or etcd as they should: of a proxy, or in the other protocol.

import { type KnownError, oneOf } from '../known/known-error.ts'

/** Errors where somebody else answers, or in another way than it is asked. */
export const answerErrors: readonly KnownError[] = [
  {
    id: 'proxy-in-the-way',
    pattern:
      /connection to "[^"]*" uses proxy "[^"]*"|(?:client: )?response is invalid json\. The endpoint is probably not valid etcd|Get "?\[?https:\/\/[^\n]{1,240}: (?:Service Unavailable|Bad Gateway|Gateway Time-?out|proxyconnect[^\n]{0,80}|Proxy Authentication Required|Tunnel Connection Failed)|an error on the server \("\s{0,4}<[^\n]{0,200}|the server responded with the status code (?:407|502|504)\b|(?:error getting \w+|Get "?https?:[^\n]{1,160}): invalid character '<' looking[^\n]{0,30}/i,
    who: 'a plugin that asks the API server',
    meaning: 'a proxy answers in place of the API server: plugins inherit HTTP_PROXY and HTTPS_PROXY of the runtime',
    causes: [
      'NO_PROXY of containerd or CRI-O (kubelet, where it calls plugins itself) lacks the service range',
      '502, 504 or a page of HTML: the balancer before the API servers reaches none of them',
      'of etcd ("response is invalid json"): the same, or another program answers at the address of etcd',
    ],
    look: ['systemctl show containerd crio kubelet -p Environment', 'curl -v http://ETCD:2379/version'],
    cure:
      "add the service range (10.96.0.0/12 with kubeadm), the pods' range, the nodes, .svc and .cluster.local to " +
      "NO_PROXY in the runtime's unit, daemon-reload, restart it",
    needsNetwork: true,
    innermost: true,
  },
  {
    id: 'http-and-https',
    pattern: oneOf(
      /http: server gave HTTP response to HTTPS client|Client sent an HTTP request to an HTTPS server/,
      /malformed HTTP response "(?:\\{0,31}x1[56]|\S{0,4}\u0015)[^"\n]{0,80}/,
      /tls: first record does not look like a TLS handshake/,
    ),
    who: 'a plugin or agent that asks the API server, etcd or its own agent',
    meaning: 'one side speaks http and the other https: the address has the wrong one of both, or the wrong port',
    causes: [
      'the endpoint of etcd (ETCD_ENDPOINTS, --etcd-endpoints) says http:// and etcd has certificates, or the other ' +
        'way round',
      'the server of the kubeconfig says http:// with the port 6443, or https:// with 8080',
      'a proxy or a balancer in between answers without TLS',
    ],
    look: [
      'grep -rn -e server: -e etcd_endpoints /etc/cni/net.d',
      'curl -vk https://ADDRESS:PORT/ 2>&1 | head; curl -v http://ADDRESS:PORT/ 2>&1 | head',
    ],
    cure: 'write the one that answers to curl, with its port, into the setting of the network, and restart its agent',
    needsNetwork: true,
    innermost: true,
    unless: /\/v2\/|oci:\/\/|docker pull/,
  },
]
