// SPDX-License-Identifier: Apache-2.0
// The stories of ADD, effect by effect, in every mode and role: test/cases/story-of-add.txt. A change of it is read
// like code.

import { expect, it } from 'vitest'
import type { Finds } from '../../../src-before/cli/plan/assume.ts'
import type { Role } from '../../../src-before/model/attachment.ts'
import { aliasOf } from '../../../src-before/model/names.ts'
import { emptyNamespace } from '../../../src-before/model/observed.ts'
import type { NetworkFacts } from '../../../src-before/plan/order/facts.ts'
import { goldenKey } from '../../support/golden.ts'
import { type AddPort, failing, type Happens, storyOfAdd } from '../../support/stories.ts'
import { type Json, readAny } from '../cni/call.ts'

const bridge = { podcidr: '10.1.0.0/24' }
const dual = { podcidr: ['10.1.0.0/24', 'fd00:1::/64'] }
const port = { runtimeConfig: { portMappings: [{ hostPort: 53, containerPort: 53, protocol: 'udp' }] } }
const prevResult = {
  cniVersion: '1.1.0',
  interfaces: [{ name: 'veth0' }, { name: 'eth0', sandbox: '/run/netns/a' }],
  ips: [{ address: '10.1.0.2/24', gateway: '10.1.0.1', interface: 1 }],
  routes: [],
}
const chained = { mode: 'chained', ipMasq: true, prevResult }
const delegated = { ipam: { type: 'dhcp' } }

const inTheWay = { in: 'host', kind: 'veth.add', name: '', mac: '', mtu: 0, peer: '', peerMac: '', why: '' } as const
const taken = failing('exists', { reason: 'exists', op: inTheWay })
const portGone = failing('gone', {
  reason: 'absent',
  op: { in: 'host', kind: 'port.master', dev: 'veth1', master: 'cni0', why: '' },
})
const defaultRoute = {
  in: 'pod',
  kind: 'route.add',
  dev: 'eth0',
  route: { dst: '0.0.0.0/0', gw: '10.1.0.1' },
  onlyIfNone: true,
  why: '',
} as const
const noIpv6 = failing('denied', {
  reason: 'denied',
  op: { in: 'pod', kind: 'addr.replace', dev: 'eth0', cidr: 'fd00:1::2/64', dad: false, why: '' },
})
const othersMade: NetworkFacts = {
  isMade: true,
  before: undefined,
  networks: [],
  made: [],
  attachments: [],
  pods: [],
  host: emptyNamespace,
  cluster: undefined,
  opened: [],
  links: new Set(),
  sysctls: new Map(),
}

interface Case {
  readonly name: string
  readonly conf: Json
  readonly finds?: Finds
  readonly role?: Role
  readonly happens?: Happens<AddPort>
}

const cases: readonly Case[] = [
  { name: 'bridge, the usual one', conf: bridge },
  { name: 'bridge, the first of its network', conf: bridge, finds: 'first' },
  { name: 'bridge, dual stack with enabledad and a host port', conf: { ...dual, ...port, enabledad: true } },
  { name: 'ptp, the usual one', conf: { mode: 'ptp', ipam: { type: 'trestle', subnet: '10.1.0.0/24' } } },
  { name: 'macvlan, the usual one', conf: { mode: 'macvlan', ipam: { type: 'trestle', subnet: '10.1.0.0/24' } } },
  { name: 'sbr looks for free routing tables', conf: { ...dual, sbr: {} } },
  { name: 'a network whose rules were flushed', conf: { ...bridge, ipMasq: true }, finds: 'flushed' },
  { name: 'a delegated plugin', conf: delegated },
  {
    name: 'a delegated plugin with a host port, first of its network',
    conf: { ...delegated, ...port },
    finds: 'first',
  },
  {
    name: 'the role of IPAM',
    conf: { type: 'bridge', ipam: { type: 'trestle', subnet: '10.1.0.0/24' } },
    role: 'ipam',
  },
  { name: 'chained', conf: chained, role: 'chained' },
  {
    name: 'chained, first of its network, with a host port',
    conf: { ...chained, ...port },
    role: 'chained',
    finds: 'first',
  },
  {
    name: 'another call sets the network up first',
    conf: bridge,
    finds: 'first',
    happens: { answers: { lookAtHost: async () => othersMade } },
  },
  {
    name: 'a pod leaves between look and change',
    conf: bridge,
    finds: 'first',
    happens: { outcomes: { 'set up: links': [portGone] } },
  },
  {
    name: 'pods leave each time',
    conf: bridge,
    finds: 'first',
    happens: { outcomes: { 'set up: links': [portGone, portGone, portGone, portGone, portGone] } },
  },
  {
    name: 'the bridge is gone',
    conf: bridge,
    happens: { outcomes: { 'usual: links': [failing('gone', { reason: 'absent' })] } },
  },
  {
    name: 'another bridge has the name',
    conf: bridge,
    happens: { outcomes: { 'usual: links': [failing('other', { reason: 'unproven' })] } },
  },
  {
    name: 'the bridge is full',
    conf: bridge,
    happens: { outcomes: { 'usual: links': [failing('full', { reason: 'full', op: inTheWay })] } },
  },
  {
    name: 'an orphan of the attachment is in the way',
    conf: bridge,
    happens: {
      outcomes: { 'usual: links': [taken], 'set up: own': [taken] },
      answers: { lookAtOrphanLink: async () => ({ alias: aliasOf(goldenKey), links: ['veth1'] }) },
    },
  },
  { name: 'the name stays taken', conf: bridge, finds: 'first', happens: { outcomes: { 'set up: own': [taken] } } },
  {
    name: 'the pod has a default route',
    conf: bridge,
    happens: { outcomes: { 'usual: pod': [failing('exists', { reason: 'exists', op: defaultRoute })] } },
  },
  { name: 'IPv6 is off in the pod', conf: dual, happens: { outcomes: { 'usual: pod': [noIpv6] } } },
  { name: 'IPv6 stays off', conf: dual, happens: { outcomes: { 'usual: pod': [noIpv6], 'pod: pod': [noIpv6] } } },
  {
    name: 'a tool cannot be started',
    conf: bridge,
    happens: { outcomes: { 'usual: pod': [failing('no nsenter')] } },
  },
  {
    name: 'flows began before the rules',
    conf: { ...bridge, ...port },
    happens: { outcomes: { 'usual: flows': [{ seen: { flows: [{ family: 4, selections: [['-p', 'udp']] }] } }] } },
  },
  {
    name: 'a network was removed beside the ADD',
    conf: { ...bridge, removeWhenEmpty: true, ipMasq: true },
    happens: { outcomes: { 'usual: networks': [{ seen: { networksLeft: new Set() } }] } },
  },
  {
    name: 'the pool is full',
    conf: bridge,
    happens: { answers: { reserveAddresses: async () => await Promise.reject(new Error('pool is full')) } },
  },
  {
    name: 'the delegated plugin fails',
    conf: delegated,
    happens: { answers: { delegate: async () => await Promise.reject(new Error('no lease')) } },
  },
  {
    name: 'somebody else limits the interface of a chained entry',
    conf: { ...chained, bandwidth: { ingressRate: 8000, ingressBurst: 8000 } },
    role: 'chained',
    happens: { answers: { lookAtQueue: async () => ({ root: 'tbf', hasIngress: false }) } },
  },
]

const head = `A line is an effect (src/commands/attach/ports.ts); a plan has a line for each of its stages below it, with the stages
that have to end before and the kinds of its operations. Before each story the intent record is on disk
(src/commands/attach/intent.ts); a failed one is undone after it (src/commands/verbs/add.ts).
`

it('goes as test/cases/story-of-add.txt tells', async () => {
  const texts = cases.map(async ({ name, conf, finds = 'later', role = 'main', happens }) => {
    const key = { ...goldenKey, role }
    const begun = { key, conf: readAny(conf), netns: '/run/netns/a', mtu: 1500, machineId: 'm' }
    return `# ${name}\n${(await storyOfAdd(begun, finds, happens)).join('\n')}\n`
  })
  const all = [head, ...(await Promise.all(texts))].join('\n')
  await expect(all).toMatchFileSnapshot('../../cases/story-of-add.txt')
})
