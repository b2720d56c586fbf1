// SPDX-License-Identifier: Apache-2.0
// Lists as public projects write or install them: what becomes of each. Facts only, written down anew: which plugins with
// which keys; names and addresses are not theirs.

type Json = Readonly<Record<string, unknown>>

/** `types`: what the converted list has. `warnings`: what is said to be lost. */
export interface PublicList {
  readonly from: string
  readonly plugins: readonly Json[]
  readonly types: readonly string[]
  readonly warnings: readonly string[]
}

const routes = [{ dst: '0.0.0.0/0' }]
const pool = { type: 'host-local', subnet: '10.88.0.0/16', routes }
const dual = {
  type: 'host-local',
  ranges: [[{ subnet: '10.88.0.0/16' }], [{ subnet: 'fd00:88::/64' }]],
  routes: [...routes, { dst: '::/0' }],
}
const ports = { capabilities: { portMappings: true } }
const toKubeProxy = { ...ports, externalSetMarkChain: 'KUBE-MARK-MASQ' }
const shaped = { type: 'bandwidth', capabilities: { bandwidth: true } }
const chain = 'portmap.externalSetMarkChain'
const calico = {
  type: 'calico',
  log_level: 'info',
  datastore_type: 'kubernetes',
  policy: { type: 'k8s' },
  kubernetes: { kubeconfig: '/etc/cni/net.d/calico-kubeconfig' },
}
const rates = { ingressRate: 1000000, ingressBurst: 1500000, egressRate: 1000000, egressBurst: 1500000 }

export const publicLists: readonly PublicList[] = [
  {
    from: 'kubernetes/website, troubleshooting-cni-plugin-related-errors: containerd',
    plugins: [
      { type: 'bridge', bridge: 'cni0', isGateway: true, ipMasq: true, promiscMode: true, ipam: dual },
      { type: 'portmap', ...toKubeProxy },
    ],
    types: ['trestle'],
    warnings: [chain],
  },
  {
    from: 'containerd, script/setup/install-cni: 10-containerd-net.conflist',
    plugins: [
      { type: 'bridge', bridge: 'cni0', isGateway: true, ipMasq: true, promiscMode: true, ipam: dual },
      { type: 'portmap', ...ports },
    ],
    types: ['trestle'],
    warnings: [],
  },
  {
    from: 'kubenet of AKS (Azure/AKS)',
    plugins: [
      {
        type: 'bridge',
        bridge: 'cbr0',
        mtu: 1500,
        addIf: 'eth0',
        isGateway: true,
        ipMasq: false,
        promiscMode: true,
        hairpinMode: false,
        ipam: { type: 'host-local', ranges: [[{ subnet: '10.10.1.0/24' }]], routes },
      },
      { type: 'portmap', ...toKubeProxy },
    ],
    types: ['trestle'],
    warnings: ['bridge.addIf', chain],
  },
  {
    from: 'kubernetes/minikube, pkg/minikube/cni/bridge.go',
    plugins: [
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
      { type: 'portmap', ...ports },
      { type: 'firewall' },
    ],
    types: ['trestle'],
    warnings: ['bridge.addIf'],
  },
  {
    from: 'kubernetes/website, network-plugins: hostPort with calico',
    plugins: [
      { ...calico, ipam: { type: 'host-local', subnet: 'usePodCidr' } },
      { type: 'portmap', ...toKubeProxy },
    ],
    types: ['calico', 'trestle'],
    warnings: [chain],
  },
  {
    from: 'projectcalico/calico#8187: 10-canal.conflist',
    plugins: [
      { ...calico, mtu: 1450, ipam: { type: 'host-local', ranges: [[{ subnet: 'usePodCidr' }]] } },
      { type: 'portmap', snat: true, ...ports },
      shaped,
    ],
    types: ['calico', 'trestle'],
    warnings: [],
  },
  {
    from: 'k3s-io/k3s, pkg/agent/flannel',
    plugins: [
      { type: 'flannel', delegate: { hairpinMode: true, forceAddress: true, isDefaultGateway: true } },
      { type: 'portmap', ...ports },
      shaped,
    ],
    types: ['flannel', 'trestle'],
    warnings: [],
  },
  {
    from: 'flannel-io/flannel, kube-flannel.yml',
    plugins: [
      { type: 'flannel', delegate: { hairpinMode: true, isDefaultGateway: true } },
      { type: 'portmap', ...ports },
    ],
    types: ['flannel', 'trestle'],
    warnings: [],
  },
  {
    from: 'Azure/kube-egress-gateway, cni installer',
    plugins: [
      { type: 'bridge', bridge: 'cbr0', isGateway: true, mtu: 1500, promiscMode: true, ipam: pool },
      { type: 'kube-egress-cni', excludedCIDRs: ['10.1.0.0/16'], socketPath: 'localhost:5051' },
      { type: 'portmap', ...toKubeProxy },
    ],
    types: ['trestle', 'kube-egress-cni'],
    warnings: [chain],
  },
  {
    from: 'AliyunContainerService/terway, docs: a chain of its own',
    plugins: [{ type: 'terway' }, { type: 'cilium-cni' }, { type: 'portmap', ...toKubeProxy }],
    types: ['terway', 'cilium-cni', 'trestle'],
    warnings: [chain],
  },
  {
    from: 'a plugin that dumps its input, README',
    plugins: [
      { type: 'bridge', bridge: 'cni0', isGateway: true, ipMasq: true, ipam: pool },
      { type: 'portmap', ...toKubeProxy },
      { type: 'dump', file: '/tmp/cni_dump.log' },
    ],
    types: ['trestle', 'dump'],
    warnings: [chain],
  },
  {
    from: 'containernetworking/plugins, firewall README',
    plugins: [{ type: 'bridge', bridge: 'cni0', isGateway: true, ipMasq: true, ipam: pool }, { type: 'firewall' }],
    types: ['trestle'],
    warnings: [],
  },
  {
    from: 'a provisioning script with loopback at the end',
    plugins: [
      {
        type: 'bridge',
        isGateway: true,
        ipMasq: true,
        ipam: dual,
        dns: { nameservers: ['10.90.0.1'], search: ['x.local'] },
      },
      { type: 'firewall' },
      { type: 'loopback' },
    ],
    types: ['trestle'],
    warnings: [],
  },
  {
    from: 'rivet-gg, job runner: loopback in front, a chain of the administrator',
    plugins: [
      { type: 'loopback' },
      { type: 'ptp', ipMasq: true, ipam: dual, dns: { nameservers: ['8.8.8.8'], options: ['rotate', 'edns0'] } },
      { type: 'firewall', backend: 'iptables', iptablesAdminChainName: 'JOB-ADMIN' },
      { type: 'portmap', ...ports, snat: true },
    ],
    types: ['trestle'],
    warnings: ['firewall.iptablesAdminChainName'],
  },
  {
    from: 'firecracker with tc-redirect-tap',
    plugins: [
      {
        type: 'bridge',
        bridge: 'fc-br0',
        isDefaultGateway: true,
        ipMasq: true,
        hairpinMode: true,
        mtu: 1500,
        ipam: {
          type: 'host-local',
          subnet: '192.168.128.0/24',
          resolvConf: '/etc/resolv.conf',
          dataDir: '/var/run/cni',
        },
      },
      { type: 'firewall' },
      { type: 'tc-redirect-tap' },
    ],
    types: ['trestle', 'tc-redirect-tap'],
    warnings: [],
  },
  {
    from: 'sourcegraph executor on ignite: limits of nothing',
    plugins: [
      {
        type: 'bridge',
        bridge: 'ignite0',
        isGateway: true,
        isDefaultGateway: true,
        promiscMode: false,
        ipMasq: true,
        ipam: pool,
      },
      { type: 'portmap', ...ports },
      { type: 'firewall' },
      { type: 'isolation' },
      { name: 'slowdown', type: 'bandwidth', ingressRate: 0, ingressBurst: 0, egressRate: 0, egressBurst: 0 },
    ],
    types: ['trestle', 'isolation'],
    warnings: [],
  },
  {
    from: 'a course: limits for every pod',
    plugins: [
      { type: 'bridge', isGateway: true, ipMasq: true, hairpinMode: true, ipam: pool },
      { type: 'portmap', ...ports, snat: true },
      { type: 'bandwidth', ...rates },
    ],
    types: ['trestle'],
    warnings: [],
  },
  {
    from: 'a guide to writing plugins',
    plugins: [
      { type: 'my-cni-plugin', subnet: '10.244.0.0/16', ipam: { type: 'host-local', subnet: '10.244.0.0/24' } },
      { type: 'bandwidth', ...rates },
      { type: 'portmap', ...ports },
    ],
    types: ['my-cni-plugin', 'trestle'],
    warnings: [],
  },
  {
    from: 'podman, 87-podman.conflist',
    plugins: [
      { type: 'bridge', bridge: 'cni-podman0', isGateway: true, ipMasq: true, hairpinMode: true, ipam: pool },
      { type: 'portmap', ...ports },
      { type: 'firewall' },
      { type: 'tuning' },
    ],
    types: ['trestle'],
    warnings: [],
  },
  {
    from: 'containerd/nerdctl, pkg/netutil',
    plugins: [
      { type: 'bridge', bridge: 'nerdctl0', isGateway: true, ipMasq: true, hairpinMode: true, ipam: pool },
      { type: 'portmap', ...ports },
      { type: 'firewall', ingressPolicy: 'same-bridge' },
      { type: 'tuning' },
    ],
    types: ['trestle'],
    warnings: [],
  },
  {
    from: 'openfaas/faasd, pkg/cninetwork',
    plugins: [
      {
        type: 'bridge',
        bridge: 'openfaas0',
        isGateway: true,
        ipMasq: true,
        ipam: { ...pool, dataDir: '/var/run/cni' },
      },
      { type: 'firewall' },
    ],
    types: ['trestle'],
    warnings: [],
  },
  {
    from: 'kubernetes-sigs/kind, images/kindnetd',
    plugins: [
      { type: 'ptp', ipMasq: false, mtu: 1500, ipam: { ...dual, dataDir: '/run/cni-ipam-state' } },
      { type: 'portmap', ...ports },
    ],
    types: ['trestle'],
    warnings: [],
  },
  {
    from: 'cri-o, contrib/cni/10-crio-bridge.conflist',
    plugins: [{ type: 'bridge', bridge: 'cni0', isGateway: true, ipMasq: true, hairpinMode: true, ipam: dual }],
    types: ['trestle'],
    warnings: [],
  },
  {
    from: 'containernetworking/plugins#138: a limit as runtimeConfig in the file',
    plugins: [
      { type: 'ptp', ipam: pool },
      { ...shaped, runtimeConfig: { bandwidth: rates } },
    ],
    types: ['trestle'],
    warnings: ['bandwidth.runtimeConfig'],
  },
  {
    from: 'containernetworking/plugins#359: mesos',
    plugins: [
      {
        type: 'bridge',
        bridge: 'test-br0',
        isGateway: false,
        ipMasq: false,
        ipam: { type: 'host-local', subnet: '192.168.124.0/24' },
      },
      { type: 'firewall' },
    ],
    types: ['trestle'],
    warnings: [],
  },
  {
    from: 'aws/amazon-vpc-cni-k8s, misc/10-aws.conflist',
    plugins: [
      { type: 'aws-cni', vethPrefix: 'eni', mtu: '9001', podSGEnforcingMode: 'strict', pluginLogLevel: 'DEBUG' },
      {
        type: 'egress-cni',
        mtu: '9001',
        enabled: 'false',
        ipam: { type: 'host-local', ranges: [[{ subnet: '169.254.172.0/22' }]] },
      },
      { type: 'portmap', ...ports, snat: true },
    ],
    types: ['aws-cni', 'egress-cni', 'trestle'],
    warnings: [],
  },
  {
    from: 'a NixOS module: macvlan with host ports',
    plugins: [
      { type: 'macvlan', master: 'enp35s0', ipam: {} },
      { type: 'portmap', snat: true, ...ports },
    ],
    types: ['macvlan', 'trestle'],
    warnings: [],
  },
]
