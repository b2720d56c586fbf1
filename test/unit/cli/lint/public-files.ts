// SPDX-License-Identifier: Apache-2.0
// Configuration files as public projects ship them and as people posted them in issues: facts only, written down anew.
// What lint has to find in each above a note; nothing in good ones.

type Json = Readonly<Record<string, unknown>>

/** Where it is from, its text, and the ids of errors and warnings. `name`: of the file. */
export interface PublicFile {
  readonly from: string
  readonly text: string
  readonly found: readonly string[]
  readonly name: string
}

const conflist = (from: string, plugins: readonly Json[], more: Json = {}): PublicFile => {
  const text = JSON.stringify({ cniVersion: '1.0.0', name: 'net', ...more, plugins }, undefined, 2)
  return { from, text, found: [], name: '10-net.conflist' }
}
const conf = (from: string, plugin: Json): PublicFile => {
  const text = JSON.stringify({ cniVersion: '0.3.1', name: 'net', ...plugin }, undefined, 2)
  return { from, text, found: [], name: '10-net.conf' }
}
const withFound = (file: PublicFile, ...found: readonly string[]): PublicFile => ({ ...file, found })
const asText = (from: string, text: string, ...found: readonly string[]): PublicFile => {
  return { from, text, found, name: '10-net.conflist' }
}
/** A NetworkAttachmentDefinition; `config`: as it stands behind "config: ", quotes and indents included. */
const definition = (from: string, config: string, ...found: readonly string[]): PublicFile => {
  const head = 'apiVersion: "k8s.cni.cncf.io/v1"\nkind: NetworkAttachmentDefinition\nmetadata:\n  name: net'
  return { from, text: `${head}\nspec:\n  config: ${config}\n`, found, name: 'net.yaml' }
}

const routes = [{ dst: '0.0.0.0/0' }]
const local = { type: 'host-local', subnet: '10.88.0.0/16', routes }
const bridge = { type: 'bridge', bridge: 'cni0', isGateway: true, ipMasq: true, ipam: local }
const portmap = { type: 'portmap', capabilities: { portMappings: true } }
const flannel = { type: 'flannel', delegate: { hairpinMode: true, isDefaultGateway: true } }
const whereabouts = { type: 'whereabouts', range: '192.168.2.0/24' }

/** Of projects' manifests, templates filled in, and of documentation; nothing is wrong with them. */
export const goodFiles: readonly PublicFile[] = [
  conflist('podman, cni/87-podman-bridge.conflist with dnsname', [
    { ...bridge, bridge: 'cni-podman0', hairpinMode: true },
    portmap,
    { type: 'firewall', backend: '' },
    { type: 'tuning' },
    { type: 'dnsname', domainName: 'dns.podman', capabilities: { aliases: true } },
  ]),
  conflist(
    'nerdctl, with its own keys beside plugins',
    [bridge, portmap, { type: 'firewall', ingressPolicy: 'same-bridge' }, { type: 'tuning' }],
    {
      nerdctlID: 'f510b1557a',
      nerdctlLabels: {},
    },
  ),
  conflist('calico-node, install-cni', [
    {
      type: 'calico',
      log_level: 'info',
      log_file_path: '/var/log/calico/cni/cni.log',
      datastore_type: 'kubernetes',
      nodename: 'node1',
      mtu: 0,
      ipam: { type: 'calico-ipam' },
      policy: { type: 'k8s' },
      kubernetes: { kubeconfig: '/etc/cni/net.d/calico-kubeconfig' },
    },
    { ...portmap, snat: true },
    { type: 'bandwidth', capabilities: { bandwidth: true } },
  ]),
  conflist('tigera operator: calico with tuning', [
    { type: 'calico', ipam: { type: 'calico-ipam' }, container_settings: { allow_ip_forwarding: false } },
    { ...portmap, snat: true },
    { type: 'tuning', sysctl: { 'net.ipv4.tcp_keepalive_time': '40' } },
  ]),
  conflist('cilium, install-cni', [
    { type: 'cilium-cni', 'enable-debug': false, 'log-file': '/var/run/cilium/cilium-cni.log' },
  ]),
  conflist('cilium, generic veth chaining', [
    { type: 'calico', ipam: { type: 'calico-ipam' } },
    portmap,
    { type: 'cilium-cni' },
  ]),
  conf('cilium before 1.10, 05-cilium.conf', { name: 'cilium', type: 'cilium-cni', 'enable-debug': false }),
  conflist('flannel, kube-flannel.yml', [flannel, portmap]),
  conflist('k3s, flannel with a bandwidth plugin', [
    flannel,
    portmap,
    { type: 'bandwidth', capabilities: { bandwidth: true } },
  ]),
  conflist('kindnet', [
    {
      type: 'ptp',
      ipMasq: false,
      mtu: 1500,
      ipam: {
        type: 'host-local',
        dataDir: '/run/cni-ipam-state',
        routes,
        ranges: [[{ subnet: '10.244.0.0/24' }]],
      },
    },
    portmap,
  ]),
  conflist('aws-vpc-cni', [
    { type: 'aws-cni', vethPrefix: 'eni', mtu: '9001', pluginLogFile: '/var/log/aws-routed-eni/plugin.log' },
    {
      type: 'egress-cni',
      mtu: '9001',
      enabled: 'false',
      ipam: { type: 'host-local', ranges: [[{ subnet: '169.254.172.0/22' }]] },
    },
    { ...portmap, snat: true },
  ]),
  conflist('azure-vnet', [
    {
      type: 'azure-vnet',
      mode: 'transparent',
      ipsToRouteViaHost: ['169.254.20.10'],
      ipam: { type: 'azure-vnet-ipam' },
    },
    { ...portmap, snat: true },
  ]),
  conflist('cilium with azure-ipam (AKS)', [
    { type: 'cilium-cni', ipam: { type: 'azure-ipam' }, 'enable-debug': true },
  ]),
  conflist('kubenet of AKS', [
    { ...bridge, bridge: 'cbr0', mtu: 1500, addIf: 'eth0', ipMasq: false, promiscMode: true, hairpinMode: false },
    { ...portmap, externalSetMarkChain: 'KUBE-MARK-MASQ' },
  ]),
  conflist('minikube, 1-k8s.conflist', [
    {
      type: 'bridge',
      bridge: 'bridge',
      addIf: 'true',
      isDefaultGateway: true,
      forceAddress: false,
      ipMasq: true,
      hairpinMode: true,
      ipam: { type: 'host-local', subnet: '10.244.0.0/16' },
    },
    portmap,
  ]),
  conflist('antrea', [
    { type: 'antrea', ipam: { type: 'host-local' } },
    portmap,
    { type: 'bandwidth', capabilities: { bandwidth: true } },
  ]),
  conf('ovn-kubernetes', {
    cniVersion: '1.1.0',
    type: 'ovn-k8s-cni-overlay',
    ipam: {},
    dns: {},
    logFile: '/var/log/ovn.log',
    'logfile-maxsize': 100,
  }),
  conflist('kube-ovn', [
    {
      type: 'kube-ovn',
      server_socket: '/run/openvswitch/kube-ovn-daemon.sock',
      ipam: { type: 'kube-ovn', provider: 'ovn' },
    },
    portmap,
  ]),
  conflist('kube-router', [
    {
      type: 'bridge',
      bridge: 'kube-bridge',
      isDefaultGateway: true,
      mtu: 1480,
      ipam: { type: 'host-local', subnet: '10.244.1.0/24' },
    },
    { ...portmap, snat: true },
  ]),
  conflist('weave', [
    { type: 'weave-net', hairpinMode: true },
    { ...portmap, snat: true },
  ]),
  conf('multus thick, 00-multus.conf', {
    type: 'multus-shim',
    clusterNetwork: '/host/etc/cni/net.d/10-flannel.conflist',
    capabilities: { portMappings: true },
    logToStderr: true,
  }),
  conf('multus with delegates', {
    name: 'multus-cni-network',
    type: 'multus',
    kubeconfig: '/etc/cni/net.d/multus.d/multus.kubeconfig',
    delegates: [{ cniVersion: '0.3.1', name: 'default', plugins: [flannel, portmap] }],
  }),
  conf('genie', { type: 'genie', log_level: 'info', default_plugin: 'calico', policy: { type: 'k8s' } }),
  conf('cri-o, 200-loopback.conf', { name: 'loopback', type: 'loopback' }),
  conf('containernetworking/cni, README: 10-mynet.conf', { ...bridge, name: 'mynet' }),
  conf('kubernetes the hard way, 10-bridge.conf', {
    ...bridge,
    bridge: 'cnio0',
    ipam: { type: 'host-local', ranges: [[{ subnet: '10.200.0.0/24' }]], routes },
  }),
  conf('plugins, macvlan README', { type: 'macvlan', master: 'eth0', linkInContainer: false, ipam: { type: 'dhcp' } }),
  conf('plugins, ipvlan README', {
    type: 'ipvlan',
    master: 'eth0',
    ipam: { type: 'host-local', subnet: '10.1.2.0/24' },
  }),
  conf('plugins, vlan README', {
    type: 'vlan',
    master: 'eth0',
    vlanId: 5,
    mtu: 1500,
    ipam: { type: 'host-local', subnet: '10.1.1.0/24' },
    dns: { nameservers: ['10.1.1.1'] },
  }),
  conf('plugins, host-device README', { type: 'host-device', device: 'enp0s1' }),
  conf('plugins, host-device by address', { type: 'host-device', pciBusID: '0000:3d:00.1' }),
  conf('plugins, ptp README', {
    type: 'ptp',
    ipam: { type: 'host-local', subnet: '10.1.1.0/24' },
    dns: { nameservers: ['10.1.1.1', '8.8.8.8'] },
  }),
  conf('plugins, static README, but for the router of its second route', {
    type: 'bridge',
    ipam: {
      type: 'static',
      addresses: [
        { address: '10.10.0.1/24', gateway: '10.10.0.254' },
        { address: '3ffe:ffff:0:01ff::1/64', gateway: '3ffe:ffff:0::1' },
      ].slice(0, 1),
      routes: [{ dst: '0.0.0.0/0' }, { dst: '192.168.0.0/16', gw: '10.10.0.5' }],
      dns: { nameservers: ['8.8.8.8'], domain: 'example.com', search: ['example.com'] },
    },
  }),
  conf('plugins, host-local README: several range sets', {
    type: 'ptp',
    ipam: {
      type: 'host-local',
      ranges: [
        [
          { subnet: '10.10.0.0/16', rangeStart: '10.10.1.20', rangeEnd: '10.10.3.50', gateway: '10.10.0.254' },
          { subnet: '172.16.5.0/24' },
        ],
        [{ subnet: 'fd00:a::/64', rangeStart: 'fd00:a::10', rangeEnd: 'fd00:a::1f' }],
      ],
      routes: [{ dst: '0.0.0.0/0' }, { dst: '192.168.0.0/16', gw: '10.10.5.1' }],
    },
  }),
  conflist('plugins, vrf README', [
    { type: 'macvlan', master: 'eth0', ipam: { type: 'host-local', subnet: '10.1.2.0/24' } },
    { type: 'vrf', vrfname: 'blue' },
  ]),
  conflist('plugins, sbr README', [
    { type: 'macvlan', master: 'eth1', ipam: { type: 'host-local', subnet: '10.1.2.0/24' } },
    { type: 'sbr' },
  ]),
  conflist('plugins, tuning README', [
    { type: 'ptp', ipam: local },
    { type: 'tuning', sysctl: { 'net.core.somaxconn': '500' }, mac: 'c2:b0:57:49:47:f1', promisc: true, mtu: 1454 },
  ]),
  conflist('plugins, portmap README: conditions', [
    { type: 'ptp', ipam: local },
    { ...portmap, conditionsV4: ['!', '-d', '192.0.2.0/24'], conditionsV6: ['!', '-d', 'fc00::/7'] },
  ]),
  conflist('plugins, firewall README', [
    bridge,
    { type: 'firewall', backend: 'iptables', iptablesAdminChainName: 'MY-ADMIN' },
  ]),
  conflist('faasd', [
    { ...bridge, bridge: 'openfaas0', ipam: { ...local, dataDir: '/var/run/cni' } },
    { type: 'firewall' },
  ]),
  conflist('firecracker-containerd', [
    { type: 'ptp', ipam: { type: 'host-local', subnet: '192.168.1.0/24', resolvConf: '/etc/resolv.conf' } },
    { type: 'tc-redirect-tap' },
  ]),
  conflist('nomad, its bridge network', [
    { type: 'loopback' },
    { ...bridge, bridge: 'nomad', forceAddress: true, hairpinMode: false },
    { type: 'firewall', backend: 'iptables', iptablesAdminChainName: 'NOMAD-ADMIN' },
    { ...portmap, snat: true },
  ]),
  conflist('sourcegraph executor', [
    { ...bridge, bridge: 'ignite0', isDefaultGateway: true },
    portmap,
    { type: 'firewall' },
    { type: 'isolation' },
    { name: 'slowdown', type: 'bandwidth', ingressRate: 0, ingressBurst: 0, egressRate: 0, egressBurst: 0 },
  ]),
  conflist('istio-cni, chained', [
    flannel,
    portmap,
    { type: 'istio-cni', log_level: 'info', kubernetes: { kubeconfig: '/etc/cni/net.d/ZZZ-istio-cni-kubeconfig' } },
  ]),
  conflist('linkerd-cni, chained', [
    { type: 'calico', ipam: { type: 'host-local', subnet: 'usePodCidr' } },
    { type: 'linkerd-cni', linkerd: { 'incoming-proxy-port': 4143 } },
  ]),
  conf('multus quick start: macvlan', {
    type: 'macvlan',
    master: 'eth0',
    mode: 'bridge',
    ipam: {
      type: 'host-local',
      subnet: '192.168.1.0/24',
      rangeStart: '192.168.1.200',
      rangeEnd: '192.168.1.216',
      routes,
      gateway: '192.168.1.1',
    },
  }),
  conf('whereabouts', { type: 'macvlan', master: 'eth1', mode: 'bridge', ipam: whereabouts }),
  conf('sr-iov', {
    type: 'sriov',
    vlan: 100,
    spoofchk: 'off',
    ipam: { type: 'host-local', subnet: '10.56.217.0/24', routes, gateway: '10.56.217.1' },
  }),
  conf('ovs', { type: 'ovs', bridge: 'br1', vlan: 100 }),
  conf('kubevirt, bridge for layer 2', {
    type: 'cnv-bridge',
    bridge: 'br10',
    macspoofchk: true,
    vlan: 100,
    preserveDefaultVlan: false,
  }),
  conf('a static address by the pod (multus)', {
    type: 'macvlan',
    capabilities: { ips: true },
    master: 'eth1',
    mode: 'bridge',
    ipam: { type: 'static', routes: [{ dst: '0.0.0.0/0', gw: '10.1.1.1' }] },
  }),
  conflist("containernetworking/cni, plugins/debug README: commands with the plugin's environment", [
    bridge,
    { type: 'debug', cniOutput: '/tmp/cni.log', addHooks: [['sh', '-c', 'ip link set $CNI_IFNAME promisc on']] },
  ]),
  conflist('azure-container-networking, cns: a runtimeConfig without a value, as its generator writes it', [
    { type: 'azure-vnet', mode: 'transparent', ipam: { type: 'azure-cns' }, dns: {}, runtimeConfig: { dns: {} } },
    { ...portmap, snat: true },
  ]),
  conflist('nex and firecracker-go-sdk: the guest takes its default route from the gateway of the result', [
    {
      type: 'ptp',
      ipMasq: true,
      ipam: { type: 'host-local', subnet: '192.168.127.0/24', resolvConf: '/etc/resolv.conf' },
    },
    { type: 'firewall' },
    { type: 'tc-redirect-tap' },
  ]),
  conf('keys of the bridge plugin in other letters, which Go takes', {
    type: 'bridge',
    isgateway: true,
    ipam: { type: 'host-local', Subnet: '10.10.0.0/24', routes },
  }),
  definition(
    'sriov-cni, README: quoted text that is indented as its key is',
    `'{\n  "cniVersion": "0.3.1",\n  "type": "sriov",\n  "vlan": 1000,\n  "ipam": {\n    "type": "host-local",
    "subnet": "10.56.217.0/24",\n    "routes": [{\n      "dst": "0.0.0.0/0"\n    }],\n    "gateway": "10.56.217.1"\n  }\n}'`,
  ),
  definition(
    'multus, how-to-use: the closing line is indented as the key is',
    `'{\n            "cniVersion": "0.3.0",\n            "type": "macvlan",\n            "master": "eth1",
            "mode": "bridge",\n            "ipam": { "type": "host-local", "ranges": [ [ { "subnet": "10.10.0.0/16" } ] ] }
  }'`,
  ),
  definition(
    'CNI-Genie, weave: the closing lines are not indented',
    `'{\n      "name": "weave",\n      "cniVersion": "0.3.0",\n      "plugins": [\n        { "type": "weave-net" }\n      ]\n}\n'`,
  ),
  definition(
    'antrea, secondary networks: the closing line is indented less than a blank more than its key',
    `'{\n      "cniVersion": "0.3.0",\n      "type": "antrea",\n      "networkType": "vlan",
      "ipam": { "type": "antrea", "ippools": ["pool1"] }\n  }'`,
  ),
]

/** With a fault of the file. */
export const faultyFiles: readonly PublicFile[] = [
  withFound(
    conf('rkt/rkt#863: routes as texts', {
      type: 'ipvlan',
      master: 'enp0s20',
      ipam: { type: 'host-local', subnet: '192.168.2.0/24', gateway: '192.168.2.254', routes: ['192.168.3.0/24'] },
    }),
    'wrong-type',
  ),
  withFound(
    {
      ...conflist('containerd/containerd#8514: a list in a .conf', [bridge, { type: 'loopback' }]),
      name: '10-containerd-net.conf',
    },
    'list-in-conf',
  ),
  asText(
    'cri-o/cri-o#6541: a single plugin in a .conflist',
    '{"cniVersion": "1.0.0", "name": "loopback", "type": "loopback"}',
    'plugins-missing',
  ),
  asText(
    'containernetworking/plugins#551: a comma too many in the dhcp example',
    '{"cniVersion":"0.3.1","name":"n","plugins":[{"type":"macvlan","master":"eth0","ipam":{"type":"dhcp",}}]}',
    'json-syntax',
  ),
  asText(
    'k8snetworkplumbingwg/whereabouts#243: a typographic quote',
    '{"cniVersion":"0.3.0","name":"n","plugins":[{"type":"macvlan","master":"eth1","ipam":{"type": “host-local", "subnet": "192.168.1.224/28"}}]}',
    'json-syntax',
  ),
  asText(
    'k8snetworkplumbingwg/multus-cni#146: a second plugin without a key',
    '{"cniVersion":"0.3.0","name":"n","type":"flannel","delegate":{"hairpinMode":true},{"type":"portmap"}}',
    'json-syntax',
  ),
  asText(
    'kernelkit/infix#366: a generated list with a brace too many',
    '{"cniVersion":"0.4.0","name":"veth1a","plugins":[{{"type":"host-device","device":"veth1a"}}]}',
    'json-syntax',
  ),
  withFound(
    conf('moby/libnetwork#2566: keys of whereabouts in host-local', {
      type: 'macvlan',
      master: 'eth0',
      mode: 'bridge',
      ipam: {
        type: 'host-local',
        datastore: 'kubernetes',
        subnet: '192.169.1.0/24',
        gateway: '192.169.1.1',
        log_file: '/tmp/w.log',
        log_level: 'debug',
      },
    }),
    'unknown-key',
    'unknown-key',
    'unknown-key',
  ),
  asText(
    'a course: comments and dots',
    '{"cniVersion":"1.0.0","name":"n","plugins":[{"type":"ptp","ipam":{"type":"host-local","subnet":"10.1.0.0/24"}},{"type":"bandwidth","ingressRate":10485760, // 10 Mbps\n"ingressBurst":1048576}]}',
    'json-syntax',
  ),
  asText(
    'a README: dots for the rest',
    '{"cniVersion":"1.0.0","name":"n","plugins":[{"type":"bridge", ... }]}',
    'json-syntax',
  ),
  withFound(
    conflist('flannel values, capabilities one level too high', [
      flannel,
      { type: 'portmap', capabilities: null, portMappings: true },
    ]),
    'unknown-key',
  ),
  withFound(
    conflist('rivet: a template of the shell', [
      { type: 'ptp', ipMasq: true, ipam: { type: 'host-local', ranges: [[{ subnet: '$SUBNET_IPV4' }]], routes } },
    ]),
    'placeholder',
  ),
  withFound(
    conflist('calico manifest, not filled in', [
      {
        type: 'calico',
        nodename: '__KUBERNETES_NODE_NAME__',
        mtu: 1440,
        ipam: { type: 'calico-ipam' },
        kubernetes: { kubeconfig: '__KUBECONFIG_FILEPATH__' },
      },
      portmap,
    ]),
    'placeholder',
    'placeholder',
  ),
  asText(
    'calico manifest: the MTU without quotes',
    '{"cniVersion":"0.3.1","name":"k8s","plugins":[{"type":"calico","mtu":__CNI_MTU__,"ipam":{"type":"calico-ipam"}}]}',
    'placeholder',
  ),
  withFound(
    conflist('an Ansible template', [{ ...bridge, ipam: { type: 'host-local', subnet: '{{ pod_cidr }}' } }]),
    'placeholder',
  ),
  asText(
    "containerd, contrib/gce/cni.template: lists of Go's templates",
    '{"cniVersion":"1.0.0","name":"k8s","plugins":[{"type":"ptp","ipam":{"type":"host-local","ranges":[{{range $i, $r := .PodCIDRRanges}}{{if $i}}, {{end}}[{"subnet": "{{$r}}"}]{{end}}]}}]}',
    'placeholder',
  ),
  {
    ...asText(
      'romana: words in brackets',
      '{"cniVersion":"0.3.0","name":"romana","type":"romana","mtu": <mtu>,"use_policy": <policies-enabled>}',
      'placeholder',
      'placeholder',
    ),
    name: '10-net.conf',
  },
  asText(
    'GoogleCloudPlatform/netd: @words, two in a row',
    '{"cniVersion":"0.3.1","name":"gke","plugins":[{"type":"@cniType","mtu": @mtu,"ipam":{"ranges":[@ipv4Subnet@ipv6Optional]}}]}',
    'placeholder',
    'placeholder',
    'placeholder',
  ),
  asText(
    'kubespray, calico: parts of Jinja',
    '{"cniVersion":"0.3.1","name":"{{ name }}","plugins":[{\n{% if store == "kdd" %}\n"datastore_type":"kubernetes",\n{% endif %}\n"type":"calico"}]}',
    'placeholder',
  ),
  asText(
    'danm: a template with quotes in quotes',
    '{"cniVersion":"0.3.1","name":"danm","plugins":[{"type":"danm","kubeconfig":"{{ getenv "CNI_DIR" }}/kubeconfig"}]}',
    'placeholder',
  ),
  definition(
    "openshift: a variable of Go's templates between keys",
    `'{\n    "cniVersion": "0.4.0",\n    "type": "egress-router",\n    "ip": {\n      "destinations": {{.Allowed}},
      {{ $ip := .Fallback}} {{ if ne $ip "" }}\n        "fallbackIP": "{{$ip}}",\n      {{ end }}\n      "gateway": "10.1.1.1" } }'`,
    'placeholder',
  ),
  {
    from: 'istio, helm chart of its definition',
    text: '{{- if eq .Values.scope "all" }}\n{{- if eq .Values.provider "multus" }}\napiVersion: k8s.cni.cncf.io/v1\nkind: NetworkAttachmentDefinition\nmetadata:\n  name: {{ template "name" . }}\n  namespace: default\n{{- end }}\n{{- end }}\n',
    found: ['placeholder'],
    name: 'net.yaml',
  },
  {
    from: 'an issue of multus: metadata is indented below kind',
    text: "apiVersion: k8s.cni.cncf.io/v1\nkind: NetworkAttachmentDefinition\n  metadata:\n name: m\nspec:\n  config: '{}'\n",
    found: ['yaml-syntax'],
    name: 'net.yaml',
  },
  definition(
    'ovn-kubernetes: quotes behind the sign of a block, and no comma',
    `> '{\n        "cniVersion": "0.3.1",\n        "type": "ovn-k8s-cni-overlay"\n        "netAttachDefName": "a/b"\n    }'`,
    'yaml-syntax',
  ),
  definition(
    'multus: a static address that nobody gives, in quotes that are not indented',
    `'{\n"cniVersion": "0.3.1",\n"type": "macvlan",\n"master": "eth1",\n"ipam": {\n"type": "static"\n}\n}'`,
    'addresses-missing',
  ),
  withFound(
    conf("kube-router, 10-kuberouter.conf: until its agent writes the node's subnet ADD is refused", {
      type: 'bridge',
      bridge: 'kube-bridge',
      isDefaultGateway: true,
      ipam: { type: 'host-local' },
    }),
    'range-invalid',
  ),
  withFound(
    conflist('the same without an agent that writes the range', [
      { type: 'bridge', bridge: 'cni0', isDefaultGateway: true, ipam: { type: 'host-local' } },
    ]),
    'range-invalid',
  ),
  withFound(
    conflist("a variable of an installer beside the plugin's own", [{ ...bridge, log: '$CNI_IFNAME of $CNI_MASTER' }]),
    'unknown-key',
    'placeholder',
  ),
  withFound(
    conflist('a bridge that is no gateway, in other letters', [
      { type: 'bridge', ISGATEWAY: false, ipam: { type: 'host-local', Subnet: '10.10.0.0/24', Routes: routes } },
    ]),
    'gateway-of-nobody',
  ),
  withFound(
    conflist('containernetworking/plugins#359: masquerade and nobody is the gateway', [
      { type: 'bridge', bridge: 'test-br0', ipMasq: true, ipam: { type: 'host-local', subnet: '192.168.124.0/24' } },
    ]),
    'no-default-route',
  ),
  withFound(
    conflist('kubernetes-sigs/kind#1223 and like: a subnet with host bits', [
      { ...bridge, ipam: { type: 'host-local', subnet: '10.88.0.1/16' } },
    ]),
    'range-invalid',
  ),
  withFound(
    conflist('an address for a subnet', [{ ...bridge, ipam: { type: 'host-local', subnet: '10.88.0.0' } }]),
    'range-invalid',
  ),
  withFound(
    conflist('ranges as a list of ranges, not of sets', [
      { ...bridge, ipam: { type: 'host-local', ranges: [{ subnet: '10.88.0.0/16' }] } },
    ]),
    'wrong-type',
  ),
  withFound(
    conflist('a range that ends before it begins', [
      { ...bridge, ipam: { ...local, rangeStart: '10.88.9.9', rangeEnd: '10.88.1.1' } },
    ]),
    'range-invalid',
  ),
  withFound(
    conflist('a range outside of its subnet', [{ ...bridge, ipam: { ...local, rangeStart: '10.89.0.10' } }]),
    'range-invalid',
  ),
  withFound(
    conflist('a gateway of another subnet', [{ ...bridge, ipam: { ...local, gateway: '10.99.0.1' } }]),
    'gateway-outside-subnet',
  ),
  withFound(conflist('portmap first', [portmap, bridge]), 'chained-first'),
  withFound(
    conflist('two plugins that make eth0', [bridge, { type: 'macvlan', master: 'eth0', ipam: { type: 'dhcp' } }]),
    'two-main-plugins',
  ),
  withFound(
    conflist('a rate in words', [bridge, { type: 'bandwidth', ingressRate: '10M', ingressBurst: 800 }]),
    'wrong-type',
  ),
  withFound(conflist('an mtu in quotes', [{ ...bridge, mtu: '1450' }]), 'wrong-type'),
  withFound(
    conflist('a bridge whose name is too long', [{ ...bridge, bridge: 'my-very-long-bridge' }]),
    'invalid-value',
  ),
  withFound(
    conflist('a mode of ipvlan in macvlan', [{ type: 'macvlan', master: 'eth0', mode: 'l2', ipam: { type: 'dhcp' } }]),
    'invalid-value',
  ),
  withFound(
    conflist('a firewall backend that does not exist', [bridge, { type: 'firewall', backend: 'nftables' }]),
    'invalid-value',
  ),
  withFound(
    conflist('a policy that does not exist', [bridge, { type: 'firewall', ingressPolicy: 'isolate' }]),
    'invalid-value',
  ),
  withFound(
    conflist('a misspelt key', [{ ...bridge, isGateway: undefined, isgatway: true, isDefaultGateway: true }]),
    'unknown-key',
  ),
  withFound(
    conflist('a sysctl as a number', [bridge, { type: 'tuning', sysctl: { 'net.core.somaxconn': 500 } }]),
    'wrong-type',
  ),
  withFound(conflist('keys of a plugin beside plugins', [{ type: 'ptp' }], { ipam: local }), 'unknown-key'),
  withFound(
    conflist('a static plugin without an address (multus)', [
      { type: 'macvlan', master: 'eth0', ipam: { type: 'static' } },
    ]),
    'addresses-missing',
  ),
  withFound(
    conflist('a static address without a length', [
      { type: 'macvlan', master: 'eth0', ipam: { type: 'static', addresses: [{ address: '10.10.0.5' }] } },
    ]),
    'range-invalid',
  ),
  withFound(
    conflist('runtimeConfig in the file', [
      bridge,
      {
        type: 'bandwidth',
        capabilities: { bandwidth: true },
        runtimeConfig: { bandwidth: { ingressRate: 8000, ingressBurst: 800 } },
      },
    ]),
    'runtime-config-in-file',
  ),
  withFound(
    conflist('a capability that nobody sends', [bridge, { type: 'portmap', capabilities: { portMapping: true } }]),
    'capability-unknown',
  ),
  withFound(conflist('a version of the plugins, not of CNI', [bridge], { cniVersion: '1.3.0' }), 'cni-version-unknown'),
  asText(
    'k8snetworkplumbingwg: a resource of Kubernetes',
    'apiVersion: k8s.cni.cncf.io/v1\nkind: NetworkAttachmentDefinition\nmetadata:\n  name: m\nspec:\n  config: |\n    {"type":"macvlan"}\n',
    'network-attachment',
  ),
]
