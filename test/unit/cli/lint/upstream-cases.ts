// SPDX-License-Identifier: Apache-2.0
// Files of the reference plugins whose fault the file alone shows, though ADD may go well: what libcni refuses, what
// nobody reads, and what the kernel refuses. Beside each what is like it and right.

import { type cases, upstream } from './file-cases.ts'

const pool = { type: 'host-local', subnet: '10.1.2.0/24' }
const ptp = { type: 'ptp', ipam: pool }
const chained = (plugin: object, version = '1.1.0') =>
  `{"cniVersion":"${version}","name":"n","plugins":[\n${JSON.stringify(ptp)},\n${JSON.stringify(plugin)}]}`

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
    'flannel-io/cni-plugin#56: a key of the bridge in ipam of flannel',
    upstream({ type: 'flannel', ipam: { isDefaultGateway: true } }),
    ['unknown-key "isDefaultGateway" host-local has no key plugins[0].ipam.isDefaultGateway; it belongs to delegate'],
  ],
  [
    'flannel with keys of host-local, and those of the bridge in delegate',
    upstream({ type: 'flannel', ipam: { dataDir: '/run/f', routes: [] }, delegate: { isDefaultGateway: true } }),
    [],
  ],
  ['flannel with another IPAM plugin', upstream({ type: 'flannel', ipam: { type: 'x', pool: 'p' } }), []],
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
  [
    'containernetworking/plugins#690: firewall in a version that it does not have',
    chained({ type: 'firewall' }, '0.3.1'),
    [
      'cni-version-old "cniVersion" with 0.3.1 no runtime calls CHECK, STATUS and GC',
      'plugin-version "firewall" firewall does not support cniVersion 0.3.1: it has 0.4.0 and later',
    ],
  ],
  [
    'firewall in the first version that it has',
    chained({ type: 'firewall' }, '0.4.0'),
    ['cni-version-old "cniVersion" with 0.4.0 no runtime calls STATUS and GC'],
  ],
  [
    'vrf in 0.3.0',
    chained({ type: 'vrf', vrfname: 'blue' }, '0.3.0'),
    [
      'cni-version-old "cniVersion" with 0.3.0 no runtime calls CHECK, STATUS and GC',
      'plugin-version "vrf" vrf does not support cniVersion 0.3.0: it has 0.3.1 and later',
    ],
  ],
]

const routed = (routes: readonly object[], more: object = {}) =>
  upstream({ type: 'bridge', isGateway: true, ipam: { ...pool, routes }, ...more })
const far = { dst: '10.97.2.0/23', gw: '192.168.35.11' }
const fixed = (address: string) => upstream({ type: 'ipvlan', ipam: { type: 'static', addresses: [{ address }] } })

/** Routes that the kernel refuses, and addresses that no host has. */
const ofAddresses: typeof cases = [
  [
    'containernetworking/plugins#289: a route by a router of another subnet',
    routed([far]),
    ['gateway-outside-subnet "192.168.35.11" ipam.routes[0].gw: 192.168.35.11 is in no subnet of the pod'],
  ],
  ['a route by a router of the subnet', routed([{ ...far, gw: '10.1.2.9' }]), []],
  ['by a router that another route reaches', routed([{ dst: '192.168.35.11/32', scope: 253 }, far]), []],
  ['by a router in the subnet that the runtime gives', routed([far], { capabilities: { ipRanges: true } }), []],
  ['by a router of the link', routed([{ dst: 'fd00::/8', gw: 'fe80::1' }]), []],
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

export const upstreamCases: typeof cases = [...ofLibcni, ...ofPlugins, ...ofAddresses]
