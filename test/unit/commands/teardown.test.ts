// SPDX-License-Identifier: Apache-2.0
// The story of a teardown, effect by effect: test/cases/story-of-del.txt. A change of it is read like code.

import { expect, it } from 'vitest'
import type { TeardownPort } from '../../../src-before/commands/teardown/remove-attachment.ts'
import { type Removal, removalFromIds, removalOf } from '../../../src-before/plan/order/teardown.ts'
import { goldenKey, specsOf } from '../../support/golden.ts'
import { failing, type Happens, storyOfDel } from '../../support/stories.ts'
import { type Json, read } from '../cni/call.ts'

const lease = { ips: [{ address: '10.1.0.2/24', gateway: '10.1.0.1' }], routes: [] }
const bridge = { podcidr: '10.1.0.0/24' }
const everything = {
  ...bridge,
  bandwidth: { egressRate: 4_000_000, egressBurst: 800_000 },
  sbr: {},
  portmap: { conditionsV4: ['ip saddr 192.0.2.0/24'] },
  runtimeConfig: { portMappings: [{ hostPort: 8080, containerPort: 80, protocol: 'udp' }] },
}
const ipamKey = { ...goldenKey, role: 'ipam' } as const
const leased = { ...specsOf(read({}), lease).spec, key: ipamKey }
const { host: _, pod: __, ...addressesAlone } = leased

function recorded(conf: Json, more: object = {}): Removal {
  return removalOf({ key: goldenKey, spec: specsOf(read(conf), lease).spec, ...more }, 7)
}

const whole = recorded(everything)
const ids = removalFromIds(goldenKey, 7)
const links = new Set(ids.host.flatMap((op) => ('dev' in op ? [op.dev] : [])))
const element = { set: 'loopback', key: ['veth1'] } as const
const broken = failing('nft is broken')
const theirs = new Map()
const none = { links: new Set<string>(), unused: [], theirs }
const fails = async () => await Promise.reject(new Error('held'))
/** The looks at links and chains, one after the other. */
function looks(...answers: readonly ReturnType<TeardownPort['lookAtPresent']>[]) {
  const left = [...answers]
  return { lookAtPresent: () => left.shift() ?? none }
}

interface Case {
  readonly name: string
  readonly removal: Removal
  readonly hasPod?: false
  readonly happens?: Happens<TeardownPort>
}

const cases: readonly Case[] = [
  { name: 'undoes and gives back', removal: whole },
  { name: 'of a sandbox that is gone', removal: whole, hasPod: false },
  { name: 'without rules waits for nobody', removal: recorded(bridge) },
  { name: 'that another call began is marked', removal: recorded(bridge, { pendingCleanup: [''] }) },
  {
    name: 'whose links are gone starts no process for them',
    removal: recorded(bridge),
    happens: { answers: looks(none) },
  },
  { name: 'of a pod that was taken over', removal: recorded(bridge, { adopted: { dataDir: '/d' } }) },
  { name: 'of addresses alone', removal: removalOf({ key: ipamKey, spec: addressesAlone }, 7) },
  { name: 'without a record', removal: ids, happens: { answers: { lookAtElements: async () => [element] } } },
  { name: 'without a record, in the role of IPAM', removal: removalFromIds(ipamKey, 7) },
  {
    name: 'without a record, whose elements cannot be listed, frees nothing',
    removal: ids,
    happens: { answers: { lookAtElements: fails } },
  },
  {
    name: 'leaves a chain to the pod that has it',
    removal: whole,
    happens: { answers: looks({ ...none, links }, none) },
  },
  {
    name: 'removes a chain that the other pod has left meanwhile',
    removal: whole,
    happens: { answers: looks({ ...none, links }, { ...none, unused: whole.chains }) },
  },
  {
    name: 'removes that chain also where a link stays',
    removal: whole,
    happens: {
      outcomes: { 'teardown: links': [broken] },
      answers: looks({ ...none, links }, { ...none, unused: whole.chains }),
    },
  },
  {
    name: 'that fails on the host is written down',
    removal: whole,
    happens: { outcomes: { 'teardown: links': [broken] } },
  },
  {
    name: 'that fails in the pod goes on, and is written down',
    removal: whole,
    happens: { outcomes: { 'teardown: pod': [broken] } },
  },
  {
    name: 'with every failure of the kernel, and the rests in a sandbox',
    removal: whole,
    happens: {
      outcomes: {
        'teardown: pod': [{ refused: [new Error('kept')] }],
        'teardown: links': [{ failed: { error: new AggregateError([new Error('one'), new Error('two')]) } }],
      },
    },
  },
  {
    name: 'whose upstream rests stay',
    removal: recorded(bridge, { adopted: { dataDir: '/d' } }),
    happens: { answers: { removeUpstream: async () => [new Error('iptables is held')] } },
  },
  { name: 'that rebuilds keep waiting', removal: whole, happens: { answers: { waitForRebuilds: fails } } },
  { name: 'whose addresses stay locked', removal: whole, happens: { answers: { freeAddresses: fails } } },
  {
    name: 'that cannot write down the rest',
    removal: whole,
    happens: {
      outcomes: { 'teardown: links': [broken] },
      answers: {
        writePending: () => {
          throw new Error('full')
        },
      },
    },
  },
]

it('goes as test/cases/story-of-del.txt tells', async () => {
  const texts = cases.map(
    async ({ name, removal, hasPod = true, happens }) =>
      `# ${name}\n${(await storyOfDel(removal, hasPod, happens)).join('\n')}\n`,
  )
  await expect((await Promise.all(texts)).join('\n')).toMatchFileSnapshot('../../cases/story-of-del.txt')
})
