// SPDX-License-Identifier: Apache-2.0
// Of kind's own network (kindnet), and of what k3s and rke2 run inside of themselves.

import { type KnownError, oneOf } from '../known/known-error.ts'

/** Errors of kindnet and of k3s' own parts. */
export const smallClusterErrors: readonly KnownError[] = [
  {
    id: 'kindnet-database',
    pattern: oneOf(
      /\bcni database \S+ ?: [^\n]{1,120}|no ranges configured, can not allocate IPs for Pods|failed to configure network ranges[^\n]{0,120}/,
      /error (?:querying|inserting|scanning) (?:IP|port map)[^\n]{0,160}|error updating container ID and IP[^\n]{0,120}/,
      /\bkindnet[^\n]{0,200}(?:error starting transaction|error executing statement|error preparing statement|error deleting pod entry): [^\n]{1,100}/,
      /address \S+ allready allocated|\bcni-kindnet[^\n]{0,200}(?:no IPs available|not available addresses|allocator full|database is locked)/,
    ),
    who: 'the cni-kindnet plugin',
    meaning: 'kindnet keeps addresses in a database of each node (/var/lib/cni-kindnet), and could not use it',
    causes: [
      'the node has no podCIDR yet, or kindnetd has not written the configuration with it',
      'the file is locked by a call that hangs, cannot be written, or is damaged after a full disk',
      'as many pods as addresses',
    ],
    look: ['ls -l /var/lib/cni-kindnet; df /var/lib', 'kubectl -n kube-system logs ds/kindnet --tail=30'],
    cure:
      'free disk space, make kindnetd run; a damaged database: drain the node, remove the file and restart the ' +
      'node, or pods of DaemonSets keep addresses that new pods get again',
    needsNetwork: true,
  },
  {
    id: 'kindnet-start',
    pattern: oneOf(
      /error (?:creating (?:masquerading|nat64|dnsCacheAgent|fastpath|nflog) agent|running routes controller)[^\n]{0,160}/,
      /(?:fastpath|kindnet ipa?ms?q|portmap) failure, can not start nftables[^\n]{0,120}|Can't synchronize rules after \d+ attempts[^\n]{0,160}/,
      /hostIP\(= ?"[^"\n]{0,40}"\) != podIP\(= ?"[^"\n]{0,40}"\)|missing environment variable POD_SUBNET|podSubnets ClusterCIDR\/Pod_Subnet/,
      /failed to (?:create|add) kindnet-\w+ table[^\n]{0,120}|fail to disable source\/destination check[^\n]{0,120}/,
    ),
    who: 'kindnetd',
    meaning: 'the agent of kindnet ended, or one of its parts (masquerade, NAT64, DNS cache) did not start',
    causes: [
      'nft or iptables fails in the node: a module of the host is missing',
      'its pod is not on the network of the host, or lacks HOST_IP, POD_IP or POD_SUBNET of its manifest',
    ],
    look: [
      'kubectl -n kube-system get pods -o wide | grep kindnet',
      'kubectl -n kube-system logs POD --previous --tail=30',
      'nft list tables; iptables --version',
    ],
    cure: 'do what the last words name; apply the manifest of the same release as the image',
    wraps: true,
  },
  {
    id: 'kind-network',
    pattern: oneOf(
      /failed to (?:ensure (?:docker|podman|nerdctl) network|apply overlay network)[^\n]{0,200}/,
      /failed to decode networks list[^\n]{0,120}|container addresses should have 2 values, got \d+ values/,
    ),
    who: 'kind',
    meaning: 'kind could not make its network of the engine, or not put kindnet into the new cluster',
    causes: [
      'the network `kind` of docker or podman is left with another driver, or without addresses of one family',
      'no range is free: a VPN or other networks cover them',
      'the API server of the new cluster did not answer yet: too little memory, disk or inotify watches',
    ],
    look: [
      'docker network inspect kind 2>/dev/null || podman network inspect kind',
      'kind export logs; df -h; free -m',
    ],
    cure: 'with no cluster left: docker network rm kind, and create the cluster anew; free memory and disk',
    wraps: true,
  },
  {
    id: 'netd-rules',
    pattern: oneOf(
      /found an error for \S+: [^\n]{1,160} when ensuring|Failed to create policy routing config set[^\n]{0,160}/,
      /failed to (?:add|delete duplicated|get) (?:ip rule|IP rule count for rule): [^\n]{1,200}, error: [^\n]{1,80}/,
      /failed to (?:append rule|clean chain|delete chain) [^\n]{1,120} in table \S{1,20}[^\n]{0,160}|configure local rule destinations from node: [^\n]{1,120}/,
      /failed to get route for IP: \S+ \([^\n]{1,80}|failed to get the link by index: \S+ \([^\n]{1,80}/,
    ),
    who: 'netd, on nodes of GKE',
    meaning: 'netd could not write its rules for the traffic of pods (policy routing, exceptions from masquerade)',
    causes: [
      'another program holds the lock of iptables, or removes its rules',
      'the node has no default route, or its Node object no range, yet',
    ],
    look: ['ip rule; ip route show table all | head -30', 'kubectl -n kube-system logs ds/netd --tail=30'],
    cure: 'netd tries again by itself; a node that stays so is best drained and made anew',
    wraps: true,
    needsNetwork: true,
  },
  {
    id: 'k3s-network',
    pattern: oneOf(
      /level=\w+ msg="failed to start networking: [^\n]{1,200}|\bflannel (?:exited|failed to (?:set address annotations|wait for RBAC))[^\n]{0,200}|failed to check netMode for flannel[^\n]{0,120}/,
      /unable to initialize network policy controller[^\n]{0,200}|Skipping network policy controller start[^\n]{0,160}|Failed to start (?:netpol|network policy controller)[^\n]{0,160}/,
      /Flannel error checking netMode[^\n]{0,80}|Flannel configuration not defined/,
    ),
    who: 'k3s, of flannel and the controller for policies that run inside of it',
    meaning: 'a part of the network that runs inside of k3s did not start: flannel, or the controller for policies',
    causes: [
      'flannel finds no interface, or its backend lacks a module (vxlan, wireguard)',
      'ipset or iptables is missing on the node, or fails: then NetworkPolicies are without effect',
      'the node has no podCIDR, or the API server does not answer',
    ],
    look: ['journalctl -u k3s -u k3s-agent --no-pager | grep -i -e flannel -e netpol -e "network policy" | tail -20'],
    cure: 'do what the last words name, then restart k3s or k3s-agent of this node',
    wraps: true,
  },
  {
    id: 'k3s-server',
    pattern: oneOf(
      /Waiting to retrieve (?:agent|kube-proxy) configuration; server is not ready: [^\n]{1,200}|Failed to validate connection to cluster at [^\n]{1,200}/,
      /Failed to retrieve list of apiservers from server: [^\n]{1,160}|No servers in load balancer proxy list|no servers configured for load balancer/i,
      /failed to get CA certs: [^\n]{1,200}|failed to retrieve configuration from server: [^\n]{0,200}\/v1-(?:k3s|rke2)\/[^\n]{0,120}/,
    ),
    who: 'the agent of k3s or rke2',
    meaning: 'the agent does not reach a server (6443, rke2: 9345), by whose answers it sets up the node',
    causes: [
      'the server is down, starts still, or has another address than K3S_URL (--server) says',
      'a firewall is between both, or a proxy is asked for it',
      '127.0.0.1:6444 is the balancer in the agent: behind it no server answers',
    ],
    look: ['curl -vk https://SERVER:6443/cacerts', 'journalctl -u k3s-agent -u rke2-agent --no-pager | tail -20'],
    cure: 'make the curl answer from this node; put the address of the server into NO_PROXY; correct --server',
    wraps: true,
  },
  {
    id: 'k3s-tunnel',
    pattern: oneOf(
      /Remotedialer proxy error[^\n]{0,240}|wss:\/\/\S{1,80}\/v1-(?:k3s|rke2)\/connect[^\n]{0,160}/,
      /proxy error from \S{1,60} while dialing \S{1,60}(?:, code \d+[^\n]{0,60})?|failed to find Session for client (?!stv-|c-m-|c-[a-z\d]{5}\b)\S+/,
      /Sending HTTP\S{0,4} 50[23] response to \S{1,60}: [^\n]{1,160}|Failed to connect to proxy(?:\. Empty dialer response)?" error=[^\n]{1,120}/,
      /Tunnel (?:context canceled while waiting|watches failed to wait|(?:endpoint )?watch failed)[^\n]{0,120}/,
    ),
    who: 'k3s or rke2, of the tunnel from each agent to the servers',
    meaning: 'the tunnel by which the API server reaches a node is down: logs, exec and metrics of its pods fail',
    causes: [
      'the agent of that node is down or was just restarted: it connects again by itself',
      'the agent reaches the server at the address of joining, and not at the addresses that servers tell ' +
        '(--advertise-address, --node-ip)',
      'the certificates of the node are of an earlier cluster, or expired',
    ],
    look: [
      'journalctl -u k3s-agent -u rke2-agent --no-pager | grep -i -e remotedialer -e tunnel | tail',
      'kubectl get endpoints kubernetes',
    ],
    cure: 'let the node reach every address of that endpoint (6443, rke2: 9345), then restart its agent',
    wraps: true,
  },
  {
    id: 'k3s-resolv-conf',
    pattern: /Host resolv\.conf includes loopback(?: or multicast)? nameservers?[^\n]{0,120}/,
    who: 'k3s or rke2',
    meaning: "the node's resolv.conf names itself, so pods get 8.8.8.8 in its place",
    causes: ['a name server of the node itself (127.0.0.53 of systemd-resolved, dnsmasq) stands in /etc/resolv.conf'],
    look: ['cat /etc/resolv.conf /run/systemd/resolve/resolv.conf 2>/dev/null'],
    cure:
      'give k3s --resolv-conf with a file that names your servers; without it pods do not resolve names of your ' +
      'own network, and ask Google for all others',
  },
  {
    id: 'single-node-network',
    pattern: /Cluster was created without any CNI, adding a node to it might cause broken networking/,
    who: 'minikube',
    meaning:
      'the cluster has the bridge of a single node, and a node was added: pods of two nodes do not reach each other',
    causes: [
      'minikube start was called for one node, which takes its own bridge instead of a network of several nodes',
      'an older minikube says it too where a network was chosen: harmless then',
    ],
    look: [
      'kubectl get pods -n kube-system -o wide',
      "kubectl get nodes -o custom-columns='N:.metadata.name,R:.spec.podCIDR'",
    ],
    cure: 'make the cluster anew with --nodes or --cni kindnet (minikube delete removes all that is in it)',
  },
]
