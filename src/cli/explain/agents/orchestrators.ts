// SPDX-License-Identifier: Apache-2.0
// Of kubelet, kubeadm, k3s and Nomad themselves, before any plugin is called: addresses of nodes, ranges of clusters.

import { type KnownError, oneOf } from '../known/known-error.ts'

/** Errors of what starts pods and allocations. */
export const orchestratorErrors: readonly KnownError[] = [
  {
    id: 'kubelet-node-ip',
    pattern: oneOf(
      /failed to validate (?:secondary)?nodeIPs?: [^\n]{1,160}|node IP: "?[\d.a-f:]+"? not found in the host's network interfaces/,
      /nodeIP (?:can't be (?:a |an )?(?:loopback|multicast|link-local unicast|all zeros)|must be (?:a valid IP|IPv4 address))/,
      /failed to get node address from cloud provider that matches ip: \S*|has neither external ip nor internal ip/,
      /bad --node-ip "[^"]*"|(?:dual-stack )?--node-ip "[^"]*"[^\n]{0,40} not supported|invalid (?:value for )?--?node-ip\b[^\n]{0,80}/,
      /invalid (?:IP address )?for node-ip|invalid node-(?:external-)?ip: invalid ip format '[\w.:-]+|node-ip \S+ is not (?:a valid|in)[^\n]{0,60}/,
      /(?:host|node) IP unknown; known addresses: \[[^\]\n]*\](?<=kube-?proxy[^\n]{0,300}|proxier[^\n]{0,300}|node IPs?\W{1,4}err[^\n]{0,200})/,
    ),
    who: 'kubelet, also inside of k3s and rke2',
    meaning:
      'kubelet is to use an address that this node does not have, so its Node object has no address, or an old one',
    causes: [
      'the address of --node-ip was changed, or belongs to another machine that this one was copied from',
      'the interface of the address (a VPN, a second card) was not up yet when kubelet started, or has gone down',
      'the address is the public one, which the cloud translates: the machine itself does not have it',
    ],
    look: ['ip -br addr', 'grep -rn node-ip /etc/default/kubelet /etc/systemd/system /etc/rancher 2>/dev/null'],
    cure:
      'give --node-ip an address that `ip addr` shows (of each family one), or leave it out, and restart kubelet; ' +
      'let its unit start after the one that makes the interface',
  },
  {
    id: 'cluster-ranges',
    pattern: oneOf(
      /cluster-cidr(?:: [^\n]{1,120})?,? and (?:service-cidr|node-ip)(?:: [^\n]{1,120})?,? must share the same IP version/,
      /failed to validate (?:cluster|service)-cidr\b[^\n]{0,100}|(?:pod|service)Subnet: Invalid value: (?![^\n]{0,160}(?:couldn't parse|invalid CIDR))[^\n]{1,200}/,
      /expected one \(IPv4 or IPv6\) CIDR or two CIDRs from each family/,
      /service IP family "[^"]*" must match public address family "[^"]*"/,
      /pod cidrs should be IPv4\/IPv6 only or dualstack|is out the range of cluster cidr|Must specify --cluster-cidr if --allocate-node-cidrs/,
      /mask size of cluster CIDR must be less than[^\n]{0,60}/,
      /New CIDR set failed; the node CIDR size is too big|the size of pod subnet with mask \d+ is smaller than/,
      /has an allocated cidr: \S+ at index:\d+ that does not exist in cluster cidrs|CIDR: \S+ is out of the range of CIDR allocator/,
      /(?:len|length) of cluster(?:CIDR)?s (?:is)?:?(?:==)?\d+[^\n]{0,20}(?:more than max|> more than|are not configured as dual stack)|len of ClusterCIDRs==/,
      /serviceCIDR and secondaryServiceCIDR (?:are not dualstack|error)|usage of --node-cidr-mask-size\S* [^\n]{0,60}is not allowed/,
      /--(?:secondary-)?service-cluster-ip-range\S* [^\n]{0,60}(?:of different IP family|must (?:not )?contain|is too large)|service-cluster-ip-range value error/,
      /expected IPv[46] CIDR for IPv[46] family|only one CIDR allowed for single-stack networking|the passed CIDRs are routed in different interfaces/,
      /critical configuration (?:value )?mismatch[^\n]{0,60}(?:FlannelBackend|ClusterIPRange|ServiceIPRange|ClusterDNS|EgressSelector|DisableNPC)[^\n]{0,60}/,
      /must be a either a single CIDR or dual-stack pair of CIDRs/,
      /dual-stack or IPv6 are not supported (?:on|due to)[^\n]{0,60}|IPv6-only (?:clusters? )?(?:is|are) not supported[^\n]{0,60}/,
    ),
    who: 'kubeadm, k3s, rke2, the API server, the controller manager',
    meaning:
      'the ranges of pods and services, and the address of the node, do not fit each other: the cluster does not start',
    causes: [
      'one is IPv4 and another IPv6, or only some have both families',
      'the node has (or told by --node-ip) no address of a family that the ranges have',
      'the range of pods is not larger than the one that each node gets of it (/24), or is no range',
      'servers of k3s or rke2 that were started with different ranges, or another --flannel-backend',
      'the range was changed, or lost one of its families, and nodes still have theirs of before (spec.podCIDRs)',
    ],
    look: [
      'kubectl -n kube-system get cm kubeadm-config -o yaml | grep -i subnet',
      'grep -rn -e cidr -e node-ip /etc/rancher 2>/dev/null; ip -br addr',
    ],
    cure:
      'give --pod-network-cidr (cluster-cidr), --service-cidr and --node-ip the same families in the same order, on ' +
      'all servers alike; ranges of a cluster that runs cannot be changed so: put the one of before back',
  },
  {
    id: 'resolv-conf-missing',
    pattern: oneOf(
      /\/run\/systemd\/resolve\/(?:stub-)?resolv\.conf"?: no such file or directory/,
      /(?:copy|stat|read|open) (?:the )?(?:host's |host )?resolv\.conf\b[^\n]{0,120}: no such file or directory/,
      /sandbox config[^\n]{0,80}open \/etc\/resolv\.conf: no such file or directory/,
      /Could not open resolv conf file|ResolvConfPath "?[^"\n]{1,80}"? does not exist/,
      /type="[\w-]+"[^\n]{0,60} failed \(\w+\): open \/\S{0,60}resolv\.conf: no such file or directory/,
    ),
    who: 'kubelet, or host-local with `resolvConf`',
    meaning: 'the resolv.conf that kubelet is to give to pods is not on the node, so that pods are not made',
    causes: [
      'systemd-resolved does not run, and resolvConf of kubelet names its file: kubeadm writes it so',
      'the configuration comes from a node (kubeadm-config, an image) on which it runs',
    ],
    look: [
      'systemctl is-active systemd-resolved; ls -l /etc/resolv.conf',
      'grep -i resolv /var/lib/kubelet/config.yaml',
    ],
    cure:
      'start systemd-resolved, or set resolvConf: /etc/resolv.conf in /var/lib/kubelet/config.yaml and restart ' +
      'kubelet',
  },
  {
    id: 'nomad-network-missing',
    pattern: oneOf(
      /Constraint "missing (?:host )?network\b[^\n]{0,80}|missing host network "[^"]*" for port/,
      /Constraint "?\$\{attr\.plugins\.cni\.version\.[\w-]{1,30}\}[^\n]{0,60}/,
    ),
    who: 'Nomad',
    meaning: 'no client of Nomad has the network that the group asks for, so nothing is placed',
    causes: [
      'mode "bridge" (and "attr.plugins.cni"): the client found no plugins in cni_path (/opt/cni/bin), or no module ' +
        'bridge, when it started',
      'mode "cni/NAME": no file in cni_config_dir (/opt/cni/config) has this name, or the client runs since before it',
      '"config dir is not set": releases before 1.1.3 lose the default; set cni_path and cni_config_dir. Said at ' +
        'each start of a client without such networks, it is harmless',
      'host_network of a port: no client has a host_network block of this name',
    ],
    look: [
      'ls /opt/cni/bin /opt/cni/config; lsmod | grep bridge',
      'nomad node status -self -verbose | grep -i -e network -e cni',
    ],
    cure: 'install the plugins (modprobe bridge, name the host_network) and restart the client, which looks only then',
  },
]
