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

export const upstreamCases: typeof cases = [...ofLibcni, ...ofPlugins, ...ofAddresses]
