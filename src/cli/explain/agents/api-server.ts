// SPDX-License-Identifier: Apache-2.0
// Of plugins that ask the API server: it refuses them, or they do not reach it.

import { type KnownError, oneOf } from '../known/known-error.ts'

const common = { needsNetwork: true } as const
const refused = { ...common, innermost: true } as const

/** Errors between a plugin and the API server. */
export const apiServerErrors: readonly KnownError[] = [
  {
    id: 'api-certificate',
    pattern: oneOf(
      /x509: [^\n"\]]{5,160}/,
      /https:\/\/[^\n\s]{1,200}"?: (?:remote error: )?tls: (?:bad certificate|unknown certificate|certificate (?:expired|required)|handshake failure|failed to (?:parse|verify) certificate)[^\n]{0,60}/,
    ),
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
    ...refused,
  },
  {
    id: 'api-unauthorized',
    pattern: oneOf(
      /: Unauthorized\b(?<=(?:failed|unable|err\w*=|could not|cannot|error)[^\n]{0,300}: Unauthorized)/,
      /\berr(?:or)?="?Unauthorized\b|\bnetwork: "?Unauthorized\b|the server has asked for the client to provide credentials/,
      /must be logged in to the server|invalid bearer token|token (?:has|is) expired/,
    ),
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
    ...refused,
  },
  {
    id: 'api-forbidden',
    pattern: oneOf(
      /\bcannot (?:get|list|watch|create|update|patch|delete|deletecollection) resource "[^"\n]{1,80}" in API group "[^"\n]{0,60}"/,
      /\bUser "[\w:.@-]{1,120}" cannot (?:get|list|watch|create|update|patch|delete) [\w./-]{2,60}[^\n]{0,60}/,
      /is forbidden: User "?[^\s"]+"? cannot \w+/,
      /the server does not allow (?:access to|this method on) the requested resource(?: \([^)\n]{1,100}\))?/,
      /\bUser "system:(?:(?:serviceaccount|node):[^"]+|anonymous)" cannot \w+|Get "?https:\/\/[^\n]{1,200}: Forbidden\b/,
      /(?:pods|nodes|clusterinformations?|ippools?)\S* [^\n]{0,80}is forbidden: User "[^"]*" cannot/,
      /no permission to wat?c?h resource \S+/,
    ),
    who: 'a plugin that asks the API server',
    meaning: 'the request was refused: by a proxy in between, or because its role lacks the right',
    causes: [
      'a bare "Forbidden" behind the URL: the runtime has HTTP_PROXY, and the proxy refuses the service address',
      '"is forbidden: User …", "does not allow access": the ClusterRole of the plugin is missing, or of another ' +
        'version: a manifest from before RBAC, or without its part for it',
    ],
    look: ['systemctl show containerd crio -p Environment', 'kubectl get clusterrolebindings -o wide | grep -i cni'],
    cure:
      "add the service range, the pods' range and the nodes to NO_PROXY of the runtime and restart it; or apply " +
      "the plugin's manifest again",
    ...refused,
  },
  {
    id: 'api-slow',
    pattern: oneOf(
      /the server was unable to return a response in the time allotted[^\n]{0,100}/,
      /an error on the server \("(?!\s{0,4}<)[^\n]{0,120}has prevented the request|the server responded with the status code 50[03]\b/,
      /the server has received too many requests and has asked us to try again later/,
      /Timeout: request did not complete within[^\n]{0,40}|etcdserver: too many requests/,
      /is forbidden: not yet ready to handle request/,
    ),
    who: 'the API server, asked by a plugin or agent',
    meaning: 'the API server was reached, and did not do what was asked for in time',
    causes: [
      'etcd behind it is slow: its disk, a full database, a change of its leader',
      'it has too little CPU or memory for the requests that it gets: many pods start at once, or a controller loops',
    ],
    look: [
      "kubectl get --raw '/readyz?verbose' | tail",
      "kubectl get --raw /metrics | grep -c '^etcd_request'",
      'uptime',
    ],
    cure: 'wait: kubelet tries again. When it stays, find what asks so much, and give etcd a faster disk',
    ...common,
  },
  {
    id: 'api-unreachable',
    pattern: oneOf(
      /(?:Get|Post|Put|Patch|Delete|GET|POST) "?https:\/\/[^\n"\s]{1,160}"?:? [^\n]{0,120}?(?:i\/o timeout|(?:connect|getsockopt): (?:connection (?:refused|timed out)|no route to host|network is unreachable|operation not permitted)|context deadline exceeded|TLS handshake timeout|(?:unexpected )?EOF\b|no such host|http2: [^\n]{1,60}|request canceled[^\n]{0,80}|connection reset by peer|read: connection timed out|operation was canceled|broken pipe|server misbehaving)/,
      /dial tcp \S+:6443: [^\n]{1,60}|client rate limiter Wait returned an error[^\n]{0,60}/,
      /fail(?:ed)? to dial api-?server: [^\n]{1,80}|timed out dialing (?:api-?server|host) "[^"]*"|Unable to contact k8s api-?server|(?:connection to the server|server) \S+ (?:was refused|refused)/,
      /etcdserver: (?:request timed out|leader changed|no leader)|the server is currently unable to handle/,
      /https:\/\/\[?(?:[\w.-]+|[\da-f:]+)\]?(?::\d+)?\/apis?\b[^\n]{0,200}?(?:i\/o timeout|(?:connect|getsockopt): (?:connection refused|no route to host|network is unreachable)|context deadline exceeded|TLS handshake timeout|cannot ?connect|: (?:unexpected )?EOF\b|no such host)/,
      /failed to get pod annotation:? ?\(['"]?Connection [^\n]{0,60}/,
      /unexpected error when reading response body|http2: client connection lost/,
      /(?:timeout contacting|(?:unable|failed|not able) to (?:reach|contact|connect(?: to)?|communicate with)|(?:could|can)(?: ?not|'t) (?:reach|connect to|contact))(?: the)? (?:kube-?api\w*|api-?server|k8s server|kubernetes (?:api|server)\w*)[^\n]{0,60}/,
      /(?:node ?controller|clusterCIDR) (?:sync )?(?:not completed within|to sync state: (?:context deadline|timed out))[^\n]{0,60}/,
      /Timed out waiting for node ?controller sync/,
      /HTTPS?ConnectionPool\(host=[^\n]{1,80}Max retries exceeded with url: \/apis?\b[^\n]{0,200}/,
      /failed \(\w+\): [^\n]{0,160}(?:etcdserver: |the server is currently unable|TLS handshake timeout)/,
      /(?<!https?:\/\/[a-z][^\n]{0,300})dial tcp (?:10\.(?:3|32|43|68|96|100|233|245|254)\.0|10\.152\.183|172\.(?:20|30)\.0)\.1:443: (?:i\/o timeout|connect: (?:connection (?:refused|timed out)|no route to host|network is unreachable))/,
      /Establishing connection to apiserver"(?![^\n]{0,320}Connected to apiserver)[^\n]{0,200}\s[^\n]{0,120}Establishing connection to apiserver/,
      /Heartbeat timed out, restarting client connections|Network status error received, restarting client/,
    ),
    who: 'a plugin or agent that asks the API server',
    meaning:
      'the API server does not answer at the address that the plugin uses, mostly the first of the service range',
    causes: [
      'kube-proxy (or what replaces it) does not run on this node: nobody translates the service address',
      'a firewall, or a route of the pods or of a VPN that covers the service range',
      'the API server is down',
      '"operation not permitted": a rule of this node drops it; or Cilium in place of kube-proxy knows no server ' +
        'behind the service address any more, and its own agent asks there: set k8sServiceHost to a real address',
    ],
    look: [
      'curl -k https://10.96.0.1:443/healthz',
      'kubectl -n kube-system get pods -o wide -l k8s-app=kube-proxy',
      'ip route get 10.96.0.1',
    ],
    cure:
      'make the curl answer from this node (with the address of the message): start kube-proxy, open the port ' +
      '6443, or correct the route',
    ...refused,
    unless:
      /\b(?:ec2|sts|ecs|vpc)\.[\w.-]{0,40}(?:amazonaws|aliyuncs)\.com|\/v1-(?:k3s|rke2)\/|\/cacerts\b|Remotedialer proxy/,
  },
  {
    id: 'crd-missing',
    pattern: oneOf(
      /the server could not find the requested resource(?: \((?:get|post|put|patch|list) [^)\n]{1,80}\))?/,
      /no matches for kind "(?!(?:DaemonSet|Deployment|StatefulSet|ReplicaSet|PodSecurityPolicy|CustomResourceDefinition|PodDisruptionBudget|(?:Cluster)?Role(?:Binding)?|CronJob|Ingress|NetworkPolicy|APIService)")\w+" in (?:version|group)[^\n]{0,60}/,
      /customresourcedefinitions?\S* "[^"]+" not found/,
      /(?:unable to find all|waiting for Cilium Operator to register the following) (?:Cilium )?CRDs[^\n]{0,100}/,
      /could not find the CRD[^\n]{0,60}|ENIConfig\S* "[^"]*" not found/,
      /(?<![\w.])(?!(?:workloadendpoint|ipamhandle|ciliumendpoint|overlappingrangeipreservation|spiderendpoint|ips\.kubeovn)s?\b)[a-z]{3,30}\.(?:[\w-]{1,30}\.){0,3}(?:projectcalico\.org|kubeovn\.io|cilium\.io|antrea\.io|cni\.cncf\.io|k8s\.aws|amazonaws\.com|openshift\.io|ovn\.org|spidernet\.io|danm\.k8s\.io|networking\.alibaba\.com) "[^"]+" not found/,
      /No ENIConfig could be found for this node/,
      /Unable to register CRDs\b|Required GatewayAPI resources are not found|determine if CiliumEndpoint CRD is installed/,
    ),
    who: 'a plugin or agent that keeps its data in the API server',
    meaning:
      'the cluster does not know a kind of object (CRD), or has not the object, that the network keeps its data in',
    causes: [
      'the CRDs were not installed with this release: helm installs those of a chart once, and never updates them',
      'the operator that makes them does not run (Cilium)',
      'they were deleted, or the network was removed and its configuration left on the node',
    ],
    look: [
      'kubectl get crds | grep -e cilium -e calico -e multus -e whereabouts -e k8s.cni -e eniconfig -e ovn',
      'kubectl get pods -A -o wide | grep -i -e operator -e controller',
    ],
    cure: 'apply the CRDs of the installed release (or start its operator), then restart the DaemonSet of the network',
    ...common,
  },
  {
    id: 'api-webhook',
    pattern: oneOf(
      /(?:plugin type="[^"]*"|CNI network "[^"]*"|network for sandbox|failed \(\w+\):|SetNetworkStatus|annotat\w+ (?:the )?pod)[^\n]{0,400}(?:failed calling webhook "[^"]*"|failed to call webhook|admission webhook "[^"]*" denied the request)[^\n]{0,160}/,
      /failed calling webhook "[^"]*(?:spider|multus|kube-?ovn|cilium|calico|antrea|net-?attach|sriov|whereabouts|hybridnet|nsx|kubemacpool)[^"]*"[^\n]{0,400}/,
      /ovnkube-node on node: \S+ is not allowed to modify[^\n]{0,80}/,
    ),
    who: 'the API server, to a plugin that writes to it',
    meaning:
      'the plugin may not write to the API server: a webhook of the cluster refuses the change, or does not answer',
    causes: [
      'the program behind the webhook is a pod that waits for this very network',
      'a policy (Kyverno, Gatekeeper) forbids changes of pods by this service account',
    ],
    look: ['kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations'],
    cure:
      'let the webhook leave kube-system and the objects of the network alone (namespaceSelector, or failurePolicy: ' +
      'Ignore); until its pod runs, delete its configuration',
  },
  {
    id: 'informer-not-synced',
    pattern:
      /Timed out waiting for pre-existing resources[^\n]{0,80}|Unable to start K8s watchers[^\n]{0,80}|(?:timed out waiting for|failed to (?:wait for|sync)|error in syncing)[^\n]{0,60}\b(?:caches?|informer(?: cache)?s?)\b(?: to sync| sync\w*)?[^\n]{0,40}/i,
    who: 'the agent of a network',
    meaning: 'the agent did not get the lists that it watches from the API server in time',
    causes: [
      'the API server does not answer at the address that the agent uses',
      'its role may not list one of the kinds, or a CRD is missing: newer images want more than the old manifest has',
    ],
    look: [
      'kubectl get ds -A',
      'kubectl -n NAMESPACE logs ds/NAME --tail=50 | grep -i -e forbidden -e "failed to list"',
    ],
    cure: 'look above it for "forbidden", "failed to list" or a time-out; apply role and CRDs of the release',
    wraps: true,
    needsNetwork: true,
  },
]
