// SPDX-License-Identifier: Apache-2.0
// Files of the reference plugins whose fault the file alone shows, though ADD may go well: what libcni refuses, what
// nobody reads, and what the kernel refuses. Beside each what is like it and right.

import { type cases, upstream } from './file-cases.ts'

const pool = { type: 'host-local', subnet: '10.1.2.0/24' }
const ptp = { type: 'ptp', ipam: pool }
const chained = (plugin: object) =>
  `{"cniVersion":"1.1.0","name":"n","plugins":[\n${JSON.stringify(ptp)},\n${JSON.stringify(plugin)}]}`

/** libcni: types.PluginConf, FindInPath. */
const ofLibcni: typeof cases = [
  [
    'capabilities as a list',
    chained({ type: 'portmap', capabilities: ['portMappings'] }),
    ['wrong-type ["portMappings" plugins[1].capabilities: ["portMappings"] is not an object'],
  ],
  [
    'ipam as text',
    upstream({ type: 'bridge', ipam: 'host-local' }),
    ['wrong-type "host-local" plugins[0].ipam: "host-local" is not an object'],
  ],
  [
    'a type of ipam that is no text, of a plugin that lint does not know',
    upstream({ type: 'calico', ipam: { type: ['calico-ipam'] } }),
    ['wrong-type ["calico-ipam" plugins[0].ipam.type: ["calico-ipam"] is not text'],
  ],
  [
    'a nameserver as text',
    upstream({ ...ptp, dns: { nameservers: '8.8.8.8' } }),
    ['wrong-type "8.8.8.8" plugins[0].dns.nameservers: "8.8.8.8" is not a list of texts'],
  ],
  ['dns that is whole, in the case of Windows', upstream({ ...ptp, DNS: { Nameservers: ['8.8.8.8'] } }), []],
  ['capabilities, ipam and dns of null', upstream({ type: 'x', capabilities: null, ipam: null, dns: null }), []],
  [
    'a nameserver of a template',
    upstream({ type: 'calico', DNS: { Nameservers: [0] } }).replace('[0]', '[__DNS__]'),
    ['placeholder __DNS__ __DNS__ was not replaced'],
  ],
  [
    'a path as type',
    upstream({ ...ptp, type: '/opt/bin/ptp' }),
    ['invalid-value "/opt/bin/ptp" plugins[0].type: "/opt/bin/ptp" is a path, and has to be the name of a file'],
  ],
  [
    'a path as type of ipam',
    upstream({ type: 'ptp', ipam: { ...pool, type: './host-local' } }),
    ['invalid-value "./host-local" plugins[0].ipam.type: "./host-local" is a path, and has to be the name of a file'],
  ],
]

/** What is beside the keys of a plugin. */
const ofPlugins: typeof cases = [
  [
    'containernetworking/plugins#432: ranges, and no type in ipam',
    upstream({ type: 'macvlan', mode: 'bridge', ipam: { ranges: [[{ subnet: '192.168.2.0/24' }]] } }),
    ['ipam-type-missing "ipam" ipam has "ranges" and no type: macvlan reads none of it'],
  ],
  [
    'the same of ptp, which refuses it',
    upstream({ type: 'ptp', ipam: { subnet: '10.1.2.0/24', type: '' } }),
    ['ipam-type-missing "ipam" ipam has "subnet" and no type: ptp reads none of it'],
  ],
  ['an empty ipam, for layer 2', upstream({ type: 'macvlan', master: 'eth0', ipam: {} }), []],
  ['ipam with an empty type, for layer 2', upstream({ type: 'macvlan', master: 'eth0', ipam: { type: '' } }), []],
  ['ipam without a type of a plugin that lint does not know', upstream({ type: 'x', ipam: { pool: 'p' } }), []],
]

const fixed = (address: string) => upstream({ type: 'ipvlan', ipam: { type: 'static', addresses: [{ address }] } })

/** Addresses that no host has. */
const ofAddresses: typeof cases = [
  [
    'a fixed address that is that of the network',
    fixed('10.1.2.0/24'),
    ['range-edge "10.1.2.0/24" ipam.addresses[0].address: 10.1.2.0 is the network address of 10.1.2.0/24'],
  ],
  [
    'a fixed address for broadcast',
    fixed('10.1.2.255/24'),
    ['range-edge "10.1.2.255/24" ipam.addresses[0].address: 10.1.2.255 is the broadcast address of 10.1.2.0/24'],
  ],
  ['a fixed address alone', fixed('10.1.2.0/32'), []],
  ['a fixed address of a pair', fixed('10.1.2.0/31'), []],
]

const masquerading = (ipam: object) => upstream({ type: 'bridge', isGateway: true, ipMasq: true, ipam })
const defaultRoute = { routes: [{ dst: '0.0.0.0/0' }] }

/** Routes of ipam, with which pods reach others all the same. */
const ofRoutes: typeof cases = [
  [
    'no route at all behind a masquerade',
    masquerading(pool),
    ['no-default-route "ipMasq" ipMasq is set, and pods have no default route'],
  ],
  ['routes to some networks behind a masquerade', masquerading({ ...pool, routes: [{ dst: '10.0.0.0/8' }] }), []],
  [
    'a default route over a bridge that is no gateway',
    upstream({ type: 'bridge', ipam: { ...pool, ...defaultRoute } }),
    ['gateway-of-nobody "routes" the default route goes to 10.1.2.1, which does not exist: the bridge is no gateway'],
  ],
  [
    'the same of static, which assumes no gateway',
    upstream({ type: 'bridge', ipam: { type: 'static', addresses: [{ address: '10.1.2.7/24' }], ...defaultRoute } }),
    [],
  ],
]

const pool6 = { type: 'host-local', ranges: [[{ subnet: '10.1.2.0/24' }], [{ subnet: 'fd00:1::/64' }]] }

/** What a plugin refuses although each value is one of its kind (plugins 1.9.1, tried). */
const ofRefusals: typeof cases = [
  [
    'hairpinMode with promiscMode',
    upstream({ type: 'bridge', hairpinMode: true, promiscMode: true, ipam: pool }),
    ['invalid-value "promiscMode" plugins[0].promiscMode: excludes hairpinMode'],
  ],
  ['promiscMode alone', upstream({ type: 'bridge', hairpinMode: false, PromiscMode: true, ipam: pool }), []],
  ...['bridge', 'ptp'].map((type): (typeof cases)[number] => [
    `an MTU of ${type} that IPv6 does not have`,
    upstream({ type, mtu: 1000, ipam: pool6 }),
    [
      'invalid-value "mtu" plugins[0].mtu: 1000 is too short for the IPv6 addresses of ipam: the kernel wants 1280 bytes',
    ],
  ]),
  ['the shortest MTU of IPv6', upstream({ type: 'ptp', mtu: 1280, ipam: pool6 }), []],
  ['a short MTU for IPv4', upstream({ type: 'ptp', mtu: 1000, ipam: pool }), []],
  [
    'a rate without a burst, and a burst without a rate',
    chained({ type: 'bandwidth', ingressRate: 1000, ingressBurst: 0, egressBurst: 1000 }),
    [
      'invalid-value "ingressRate" plugins[1].ingressRate: needs ingressBurst',
      'invalid-value "egressBurst" plugins[1].egressBurst: needs egressRate',
    ],
  ],
  ['rates of 0', chained({ type: 'bandwidth', ingressRate: 0, egressRate: 1000, egressBurst: 1000 }), []],
  [
    'sysctls that are not of the network',
    chained({ type: 'tuning', sysctl: { 'kernel.shmmax': '1', net: '1' } }),
    [
      'invalid-value "kernel.shmmax" plugins[1].sysctl.kernel.shmmax: is no setting of the network',
      'invalid-value "net" plugins[1].sysctl.net: is no setting of the network',
    ],
  ],
  [
    'sysctls of the network, in both spellings',
    chained({ type: 'tuning', sysctl: { 'net.ipv4.conf.IFNAME.arp_notify': '1', 'net/core/somaxconn': '9' } }),
    [],
  ],
  [
    'a MAC that is none',
    chained({ type: 'tuning', mac: 'a:0:0:0:0:1' }),
    ['invalid-value "mac" plugins[1].mac: "a:0:0:0:0:1" is not a MAC address'],
  ],
  [
    'a MAC of a group',
    chained({ type: 'tuning', mac: '01:00:5e:00:00:01' }),
    ['invalid-value "mac" plugins[1].mac: "01:00:5e:00:00:01" is not a unicast MAC address'],
  ],
  ['a MAC with hyphens', chained({ type: 'tuning', mac: '0a-00-00-00-00-01' }), []],
  [
    'a mark and a chain that marks',
    chained({ type: 'portmap', markMasqBit: 5, externalSetMarkChain: 'X', capabilities: { portMappings: true } }),
    ['invalid-value "markMasqBit" plugins[1].markMasqBit: excludes externalSetMarkChain'],
  ],
  [
    'a mark, and null for the chain',
    chained({ type: 'portmap', markMasqBit: 5, externalSetMarkChain: null, capabilities: { portMappings: true } }),
    [],
  ],
]

export const upstreamCases: typeof cases = [...ofLibcni, ...ofPlugins, ...ofAddresses, ...ofRoutes, ...ofRefusals]
