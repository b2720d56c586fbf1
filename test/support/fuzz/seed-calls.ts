// SPDX-License-Identifier: Apache-2.0
// Calls as runtimes make them, for fuzzers to start from: every file of conf-examples, what CRI-O sent, and what
// containerd sends, each with everything a runtime may add.

import { readdirSync, readFileSync } from 'node:fs'
import { readNetworkList, requestConf } from '../network-list.ts'

/** A call: the environment and what is on stdin. */
export interface SeedCall {
  readonly name: string
  readonly env: Readonly<Record<string, string>>
  readonly conf: unknown
}

const verbs = ['ADD', 'DEL', 'CHECK', 'GC', 'STATUS'] as const

/** What the capabilities of the examples may bring. The keys of port mappings as containerd spells them. */
const capabilityArgs = {
  portMappings: [
    { HostPort: 18080, ContainerPort: 80, Protocol: 'tcp', HostIP: '' },
    { hostPort: 18053, containerPort: 53, protocol: 'udp', hostIP: '192.0.2.1' },
  ],
  ipRanges: [[{ subnet: '10.250.0.0/24', rangeStart: '10.250.0.10', gateway: '10.250.0.1' }]],
  bandwidth: { ingressRate: 1e8, ingressBurst: 1e7, egressRate: 1e8, egressBurst: 2147483647 },
  dns: { Servers: ['10.96.0.10'], Searches: ['svc.cluster.local'], Options: ['ndots:5'] },
  ips: ['10.250.0.40/24'],
  mac: '02:11:22:33:44:55',
}

/** What another plugin gave before. */
const previous = {
  cniVersion: '1.0.0',
  interfaces: [
    { name: 'cni9', mac: '0a:00:00:00:00:09' },
    { name: 'veth9', mac: '0a:00:00:00:00:08' },
    { name: 'eth0', mac: '0a:00:00:00:00:01', sandbox: '/run/netns/a' },
  ],
  ips: [
    { address: '10.252.0.2/24', gateway: '10.252.0.1', interface: 2 },
    { address: 'fd00:252::2/64', gateway: 'fd00:252::1', interface: 2 },
  ],
  routes: [{ dst: '0.0.0.0/0', gw: '10.252.0.1', mtu: 1400 }, { dst: '::/0' }],
  dns: { nameservers: ['10.96.0.10'], search: ['a.b'] },
}

const podArgs = 'IgnoreUnknown=1;K8S_POD_NAMESPACE=ns1;K8S_POD_NAME=web;K8S_POD_INFRA_CONTAINER_ID=c1;K8S_POD_UID=u-web'

function envOf(verb: string): Record<string, string> {
  return {
    CNI_COMMAND: verb,
    CNI_CONTAINERID: 'c1',
    CNI_NETNS: '/run/netns/a',
    CNI_IFNAME: 'eth0',
    CNI_ARGS: podArgs,
    CNI_PATH: '/opt/cni/bin',
  }
}

function exampleConfs(): readonly (readonly [string, unknown])[] {
  const files = readdirSync('conf-examples').filter((name) => /\.conf(list)?$/.test(name))
  return files.flatMap((file) => {
    const network = readNetworkList(readFileSync(`conf-examples/${file}`, 'utf8'))
    const own = network.plugins.filter((plugin) => plugin.type === 'trestle')
    return own.map((plugin) => {
      const isFirst = plugin === network.plugins[0]
      const injected = { capabilityArgs, ...(isFirst ? {} : { prevResult: previous }) }
      return [file, { ...requestConf(network, plugin, injected), args: { cni: { ips: [], mac: '' } } }] as const
    })
  })
}

/** Keys that no example has, each once. */
const rareConf = {
  cniVersion: '1.1.0',
  name: 'rare',
  type: 'trestle',
  bridge: 'br-rare',
  isDefaultGateway: true,
  macspoofchk: true,
  vlan: 100,
  vlanTrunk: [{ minID: 200, maxID: 210 }, { id: 300 }],
  preserveDefaultVlan: true,
  promiscMode: true,
  enabledad: true,
  mtu: 1400,
  nonMasqueradeCIDRs: ['192.0.2.0/24', '2001:db8::/32'],
  ipam: {
    type: 'host-local',
    ranges: [
      [{ subnet: '10.9.0.0/24', rangeStart: '10.9.0.10', rangeEnd: '10.9.0.20', gateway: '10.9.0.1' }],
      [{ subnet: 'fd00:9::/64' }],
    ],
    routes: [{ dst: '192.0.2.0/24', gw: '10.9.0.1', mtu: 1300, advmss: 1200, priority: 5, table: 99, scope: 0 }],
    exclude: ['10.9.0.12/31'],
  },
  portmap: { masqAll: true },
  firewall: { ingressPolicy: 'isolated' },
  bandwidth: { ingressRate: 1e6, egressRate: 1e6 },
  tuning: {
    sysctl: { 'net.ipv4.conf.IFNAME.arp_filter': '1' },
    mac: '02:11:22:33:44:66',
    mtu: 1380,
    promisc: true,
    allmulti: true,
    txQLen: 500,
  },
  sbr: { gateways: ['10.9.0.1'], addSourceHints: true },
  args: { cni: { ips: ['10.9.0.15'], sysctl: { 'net/core/somaxconn': '500' } } },
  runtimeConfig: capabilityArgs,
  'cni.dev/valid-attachments': [{ containerID: 'c1', ifname: 'eth0' }],
  prevResult: { ...previous, cniVersion: '1.1.0' },
  mode: 'bridge',
}

/** Another plugin delegates to us. */
const delegatingConf = {
  cniVersion: '1.0.0',
  name: 'macs',
  type: 'macvlan',
  master: 'eth0',
  ipam: { type: 'trestle', subnet: '10.11.0.0/24', routes: [{ dst: '0.0.0.0/0' }] },
}

/** Every call that a fuzzer starts from, in a fixed order. */
export function seedCalls(): readonly SeedCall[] {
  const crio = JSON.parse(readFileSync('test/support/fuzz/crio-calls.json', 'utf8')) as readonly {
    readonly verb: string
    readonly env: Record<string, string>
    readonly stdin: unknown
  }[]
  const own = [
    ...exampleConfs(),
    ['rare keys', rareConf] as const,
    ['chained', { ...rareConf, mode: 'chained', ipam: undefined }] as const,
    ['delegating', delegatingConf] as const,
  ].flatMap(([name, conf]) => verbs.map((verb) => ({ name: `${verb} ${name}`, env: envOf(verb), conf })))
  return [
    ...own,
    ...crio.map(({ verb, env, stdin }) => ({
      name: `${verb} of CRI-O`,
      env: { ...env, CNI_COMMAND: verb },
      conf: stdin,
    })),
  ]
}
