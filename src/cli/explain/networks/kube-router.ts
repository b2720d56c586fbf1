// SPDX-License-Identifier: Apache-2.0
// Of kube-router: its BGP by annotations and options, direct server return, addresses of services, and its loops.

import { type KnownError, oneOf } from '../known/known-error.ts'

/** Errors of kube-router. */
export const kubeRouterErrors: readonly KnownError[] = [
  {
    id: 'kube-router-bgp-settings',
    pattern: oneOf(
      /could not find ASN number for the node\. Node needs to be annotated[^\n]{0,80}/,
      /failed to parse (?:ASN number|rr\.(?:server|client) clusterId|number of times ASN)[^\n]{0,80}/,
      /failed to parse node's Peer (?:ASN Numbers|Addresses|Port Numbers|Passwords|Local Addresses) Annotation/,
      /invalid peer router config[,.] ?[^\n]{0,120}|(?:remoteip|remoteasn) cannot be empty/,
      /router-id must be specified (?:when primary node IP is|in ipv6 operation)[^\n]{0,40}/,
      /invalid ASN number for cluster ASN|reserved ASN number "?\d+"? for global BGP peer/,
      /BGPGracefulRestart(?:Deferral)?Time (?:should|must) be|incorrect BGP holdtime range/,
      /(?:processing|process|peer with) Global Peer Router(?:\(s\)| configs)[^\n]{0,120}|CLI Peer Passwords (?:flag|file)/,
      /specified in [`"]kube-router\.io\/bgp-local-addresses[`"][^\n]{0,60}/,
      /Both BFD and BGP Graceful Restart should not be enabled|\bbfd (?:port(?! node| is not enabled)|detection multiplier|desired min) [^\n]{1,80}/,
    ),
    who: 'kube-router',
    meaning:
      'the BGP server of kube-router does not start, or leaves a peer out: an annotation or option of it is wrong',
    causes: [
      'with --nodes-full-mesh=false each node wants the annotation kube-router.io/node.asn',
      'the lists of peers (addresses, ASNs, ports, passwords) are not of one length, or a password is no base64',
      'the first address of the node is IPv6, and --router-id is missing',
    ],
    look: [
      'kubectl describe node NODE | grep kube-router.io',
      'kubectl -n kube-system get ds kube-router -o yaml | grep -e -- --',
    ],
    cure:
      'correct the annotation or option that the message names; then delete the kube-router pod of that node; ' +
      'without --bgp-graceful-restart pods of the node are not reached until it is up',
  },
  {
    id: 'kube-router-service-ip',
    pattern: oneOf(
      /(?:IPv[46] address required, but )?no IPv[46] ranges (?:available|specified)/,
      /rejecting (?:all \d+ )?(?:externalIP|loadBalancerIP)s?\b[^\n]{0,160}/,
      /No --(?:service-external-ip|loadbalancer-ip)-range configured: all/,
    ),
    who: 'kube-router',
    meaning: 'kube-router does not serve an address of a service: it takes only those of the ranges that it was given',
    causes: [
      'newer releases refuse every externalIP that is in none of --service-external-ip-range (none: all of them)',
      'the address is in the range of cluster addresses, or is none',
    ],
    look: [
      "kubectl get svc -A -o custom-columns='NS:.metadata.namespace,NAME:.metadata.name,EXTERNAL:.spec.externalIPs," +
        "LB:.status.loadBalancer.ingress[*].ip' | grep -v '<none> *<none>'",
      'kubectl -n kube-system get ds kube-router -o yaml | grep ip-range',
    ],
    cure: 'name the range of these addresses: --service-external-ip-range, --loadbalancer-ip-range',
  },
  {
    id: 'kube-router-dsr',
    pattern: oneOf(
      /failed to (?:setup|cleanup) DSR (?:endpoint|service)[^\n]{0,80}|unable to setup DSR receiver inside pod/,
      /failed to prepare endpoint \S+ to do (?:direct server return|DSR)|so skipping preparing endpoint for DSR/,
      /If above error was 'no such file or directory' it may be that you haven't enabled 'hostPID=true'/,
      /failed to (?:get|enter) (?:to )?endpoint namespace\b[^\n]{0,80}|Skipping DSR endpoint set up/,
      /detected pod [^\n]{1,80} with hostNetwork: true while attempting to setup DSR/,
      /kube-router[^\n]{0,120}runtimeEndpoint is not specified/,
      /(?:tunnel interface in endpoint namespace|on kube-tunnel-if in the endpoint container)[^\n]{0,80}/,
    ),
    who: 'kube-router',
    meaning:
      'a pod of a service with direct server return (kube-router.io/service.dsr) did not get its tunnel interface',
    causes: [
      'kube-router runs without hostPID: true, or does not see the socket of the runtime',
      '--runtime-endpoint is missing: it asks docker then, and the node has containerd or CRI-O',
      'the pod has hostNetwork, or ended meanwhile',
    ],
    look: [
      'kubectl -n kube-system get ds kube-router -o yaml | grep -i -e hostPID -e runtime -e "\\.sock"',
      'kubectl get svc -A -o yaml | grep service.dsr',
    ],
    cure:
      'give the DaemonSet hostPID: true, --runtime-endpoint=unix:///run/containerd/containerd.sock and that socket ' +
      'as a volume; pods with hostNetwork cannot serve by DSR',
  },
  {
    id: 'kube-router-sync',
    pattern: oneOf(
      /route could not be replaced due to|error peering with peer router|Failed to (?:add|remove) node \S+ as peer due to/,
      /Aborting sync\. Failed to [^\n]{1,80}|Error during (?:periodic|full|ipvs|periodic ipvs) sync\b/,
      /Skipping sending heartbeat from network \w+ controller|Controller heartbeat missed/,
      /Error (?:setting up IPVS services|cleaning up stale(?! gateway)|syncing (?:ipvs svc iptables|hairpin iptables|network policy for))[^\n]{0,80}/,
      /failed to (?:create|peer with|start) (?:network (?:routing|services|policy) controller|node BGP server|BGP server)/,
      /Failed to run kube-router: ?|failed to perform initial full sync/,
      /[Ff]ailed to (?:add|list|clear|create|delete|verify|run)\b[^\n]{0,80}\bKUBE-(?:ROUTER|POD-FW|NWPLCY|NETWORK-POLICY)[^\n]{0,80}\bdue to\b|failed to assign external ip \S+ to dummy interface/,
      /[Ff]ailed to (?:run iptables command|allocate IPv[46] ip(?:tables|set) handler|initialize ip(?:sets?|tables) (?:command )?(?:executor|handler))/,
      /failed to assign cluster ip\b|(?:kube-router|network_services_controller\.go|linux_networking\.go)[^\n]{0,160}failed to (?:get|add|create|creating|bring) dummy interface/,
      /Failed to (?:enable (?:required policy based routing|FoU|IP forwarding of traffic from pods)|bring kube-bridge interface up|inject routes due to|set MTU for kube-bridge)/,
      /failed to insert (?:IPv[46] )?[`"](?:subnet|mtu)[`"][^\n]{0,40}into CNI conf file|failed to write (?:into )?CNI (?:conf )?file/,
      /nftables: (?:\d+ policy chain|failed to sync|could not list|couldn't (?:ensure|setup chain|setup \S+ chain))/,
      /failed to get IPAM details from the CNI conf file/,
      /did not find rt_tables in any of the expected locations|failed to update rt_tables file/,
      /failed to (?:setup|verify)[^\n]{0,40}(?:policy routing|mangle table rule)[^\n]{0,80}/,
      /masquerade (?:all )?outbound (?:IPVS )?traffic(?: from pods)?: ?/,
    ),
    who: 'kube-router',
    meaning: 'kube-router could not bring the routes, rules or services of this node up to date; it tries again',
    causes: [
      'iptables, ipset or nft failed: another program has the lock, or a module is missing',
      'the API server does not answer, or the node has no range for pods',
      'after several in a row its check fails ("heartbeat missed"), and kubelet restarts it',
    ],
    look: [
      'kubectl -n kube-system logs ds/kube-router --tail=60 | grep -e ^E -e ^F',
      'ipvsadm -Ln | head; ipset list -n',
    ],
    cure: 'do what the words behind it say, or the error before it in the log',
    wraps: true,
  },
]
