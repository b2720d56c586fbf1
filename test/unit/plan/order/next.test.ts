// SPDX-License-Identifier: Apache-2.0
// The order of an ADD as tables: what is known, and what comes next, in every mode and role.

import { describe, expect, it } from 'vitest'
import { emptyNamespace } from '../../../../src/plan/model/observed.ts'
import { wantedNetwork } from '../../../../src/plan/order/decided.ts'
import type { AddFacts, Learnt, NetworkFacts } from '../../../../src/plan/order/facts.ts'
import { nextOfAdd } from '../../../../src/plan/order/next.ts'
import { goldenKey } from '../../../support/golden.ts'
import { factsAfter, failing, type Happens, stepText } from '../../../support/steps.ts'
import { type Json, read } from '../../cni/model/call.ts'

const lease = { ips: [{ address: '10.1.0.2/24', gateway: '10.1.0.1' }], routes: [] }
const bridge = { podcidr: '10.1.0.0/24' }
const ptp = { mode: 'ptp', ipam: { type: 'trestle', subnet: '10.1.0.0/24' } }
const delegated = { ipam: { type: 'dhcp' } }
const prevResult = { cniVersion: '1.1.0', interfaces: [{ name: 'eth0', sandbox: '/run/netns/a' }], ips: [], routes: [] }
const chained = { mode: 'chained', ipMasq: true, prevResult }

function begun(conf: Json, role: AddFacts['key']['role'] = 'main'): AddFacts {
  const key = { ...goldenKey, role }
  return { key, conf: read(conf), netns: '/run/netns/a', mtu: 1500, machineId: 'm', learnt: {}, runs: [] }
}

const leased: Happens = { lease: { learnt: { lease } } }
const forwarding = [4, 6] as const
/** Files tell that there is nothing, or that the network is as this configuration wants it. */
const nothing: Happens = { known: { learnt: { known: { network: undefined, hasBridge: false, forwarding: [] } } } }
const asWanted = (conf: Json): Happens => {
  const network = wantedNetwork({ ...begun(conf), learnt: { lease } })
  return { known: { learnt: { known: { network, hasBridge: true, forwarding } } } }
}
const written = (conf: Json): Happens => {
  const network = wantedNetwork({ ...begun(conf), learnt: { lease } })
  return { networks: { learnt: { networks: [network] } } }
}
const host: NetworkFacts = {
  isMade: false,
  before: undefined,
  networks: [],
  made: [],
  attachments: [],
  pods: [],
  host: emptyNamespace,
  cluster: undefined,
  links: new Set(),
  sysctls: new Map(),
}
const looked: Happens = { host: { learnt: { shared: host } } }
const inTheWay = { in: 'host', kind: 'veth.add', name: '', mac: '', mtu: 0, peer: '', peerMac: '', why: '' } as const
const usual = (conf: Json) => [leased, asWanted(conf), written(conf)]
const orphan = (alias: string | undefined): Learnt => ({ orphanLink: { alias, links: ['veth1'] } })

interface Case {
  readonly name: string
  readonly facts: AddFacts
  readonly happens?: readonly Happens[]
  readonly next: readonly string[]
}

const cases: readonly Case[] = [
  {
    name: 'bridge: addresses first',
    facts: begun(bridge),
    next: ['reserve', '  ranges: look ranges', '  lease after ranges: state addresses'],
  },
  {
    name: 'bridge: then what files tell of the network',
    facts: begun(bridge),
    happens: [leased],
    next: ['look at the network', '  known: look known'],
  },
  {
    name: 'bridge: then the intent',
    facts: begun(bridge),
    happens: [leased, nothing],
    next: ['write down', '  intent: state intent', '  networks after intent: look networks'],
  },
  {
    name: 'bridge: the first of a network looks at the host',
    facts: begun(bridge),
    happens: [leased, nothing, written(bridge)],
    next: ['look at the host, locked', '  host: look host'],
  },
  {
    name: 'bridge: and sets up what is missing',
    facts: begun(bridge),
    happens: [leased, nothing, written(bridge), looked],
    next: [
      'set up, locked',
      '  rules: rules: nft.base nft.add nft.add nft.add nft.add',
      '  links: batch: bridge.add link.up addr.replace sysctl.write',
      '  own after links: batch: veth.add link.alias port.flags',
      '  nft: look nft',
      '  accepts after links, own, rules, nft: state accepts',
      '  network after accepts: state network',
    ],
  },
  {
    name: 'bridge: then the pod',
    facts: begun(bridge),
    happens: [leased, nothing, written(bridge), looked, {}],
    next: [
      'pod',
      '  pod: batch: link.up route.show-default addr.replace link.up neigh.announce route.add',
      '  settings after pod: batch: sysctl.write',
    ],
  },
  {
    name: 'bridge: the usual one is one plan',
    facts: begun(bridge),
    happens: usual(bridge),
    next: [
      'usual',
      '  links: batch: forwarding.on sysctl.write link.up addr.replace veth.add link.alias port.flags link.show, proven',
      '  rules inet: batch: nft.add nft.add nft.add nft.add nft.base.show, proven',
      '  pod after links: batch: link.up route.show-default addr.replace link.up neigh.announce route.add',
      '  settings after links, rules inet, pod: batch: sysctl.write',
    ],
  },
  {
    name: 'bridge: and is finished',
    facts: begun(bridge),
    happens: [...usual(bridge), {}],
    next: ['finish', '  finish: state finished'],
  },
  { name: 'bridge: that is all', facts: begun(bridge), happens: [...usual(bridge), {}, {}], next: ['answer'] },
  {
    name: 'a link that failed is looked into',
    facts: begun(bridge),
    happens: [...usual(bridge), { links: failing('gone', { reason: 'absent' }) }],
    next: ['look at the host, locked', '  host: look host'],
  },
  {
    name: 'another bridge of the name gets its MAC first',
    facts: begun(bridge),
    happens: [...usual(bridge), { links: failing('other', { reason: 'unproven' }) }],
    next: ['keep the MAC', '  links: batch: link.mac'],
  },
  {
    name: 'a full bridge is the end',
    facts: begun(bridge),
    happens: [...usual(bridge), { links: failing('full', { reason: 'full', op: inTheWay }) }],
    next: ['error: bridge cni0 is full: it has 1023 ports'],
  },
  {
    name: 'rules that are gone are built anew',
    facts: begun({ ...bridge, ipMasq: true }),
    happens: [...usual({ ...bridge, ipMasq: true }), { 'rules inet': failing('gone', { reason: 'unproven' }) }],
    next: ['look at the rules, locked', '  rules: look rules'],
  },
  {
    name: 'a name that is taken is looked at',
    facts: begun(bridge),
    happens: [leased, nothing, written(bridge), looked, { own: failing('exists', { reason: 'exists', op: inTheWay }) }],
    next: ['look at what is left', '  orphan link: look orphan link'],
  },
  {
    name: 'and is an error where somebody else has it',
    facts: begun(bridge),
    happens: [
      leased,
      nothing,
      written(bridge),
      looked,
      { own: failing('exists', { reason: 'exists', op: inTheWay }) },
      { 'orphan link': { learnt: orphan('other') } },
    ],
    next: ['error: CNI_IFNAME eth0: an interface of that name is already in /run/netns/a'],
  },
  {
    name: 'ptp: the usual one is one plan',
    facts: begun(ptp),
    happens: usual(ptp),
    next: [
      'usual',
      '  links: batch: forwarding.on veth.add link.alias addr.replace hostroute.replace',
      '  pod after links: batch: link.up addr.replace link.up route.add route.add neigh.announce',
      '  settings after links, pod: batch: sysctl.write',
    ],
  },
  {
    name: 'a delegated plugin waits for the interface',
    facts: begun(delegated),
    happens: [{}, asWanted(delegated), written(delegated), {}],
    next: ['lease', '  lease: delegate ADD'],
  },
  {
    name: 'and what it gives goes the same way',
    facts: begun(delegated),
    happens: [{}, asWanted(delegated), written(delegated), {}, { lease: { learnt: { delegated: lease } } }],
    next: ['look at the network', '  known: look known'],
  },
  {
    name: 'its failure is the end',
    facts: begun(delegated),
    happens: [{}, asWanted(delegated), written(delegated), {}, { lease: failing('no lease') }],
    next: ['error: no lease'],
  },
  { name: 'the role of IPAM: addresses', facts: begun(bridge, 'ipam'), next: ['reserve', '  lease: state addresses'] },
  {
    name: 'the role of IPAM: written down, and no more',
    facts: begun(bridge, 'ipam'),
    happens: [leased],
    next: ['finish', '  intent: state intent', '  finish after intent: state finished'],
  },
  { name: 'the role of IPAM: that is all', facts: begun(bridge, 'ipam'), happens: [leased, {}], next: ['answer'] },
  {
    name: 'a full pool is the end',
    facts: begun(bridge),
    happens: [{ lease: failing('pool is full') }],
    next: ['error: pool is full'],
  },
  {
    name: 'chained: a look at the interface first',
    facts: begun(chained, 'chained'),
    next: ['look around', '  around: look chained'],
  },
]

describe('ADD', () => {
  it.each(cases)('$name', ({ facts, happens = [], next }) => {
    expect(stepText(nextOfAdd(factsAfter(nextOfAdd, facts, happens)))).toEqual(next)
  })
})
