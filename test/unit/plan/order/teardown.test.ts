// SPDX-License-Identifier: Apache-2.0
// The order of a DEL as tables: what is known, and what comes next.

import { describe, expect, it } from 'vitest'
import { type Removal, removalFromIds, removalOf } from '../../../../src/plan/order/removal.ts'
import { type DelFacts, nextOfDel, nextOfLeaseRemoval } from '../../../../src/plan/order/teardown.ts'
import { goldenKey, specsOf } from '../../../support/golden.ts'
import { factsAfter, failing, type Happens, stepText } from '../../../support/steps.ts'
import { type Json, read } from '../../cni/model/call.ts'

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
/** All of its links are there, and nobody else has its chains. */
const alone: Happens = { present: { learnt: { present: { links, unused: whole.chains } } } }
/** The same where others have them, or there are none. */
const plain: Happens = { present: { learnt: { present: { links, unused: [] } } } }
const element = { set: 'loopback', key: ['veth1'] } as const
const orphans = { learnt: { orphans: [element] } }
const broken = failing('nft is broken')

/** Facts, and what the order says then. `hasPod`: its sandbox lives on. */
interface Case {
  readonly name: string
  readonly removal: Removal
  readonly hasPod?: false
  readonly happens?: readonly Happens[]
  readonly next: readonly string[]
}

const cases: readonly Case[] = [
  {
    name: 'begins with a mark, which rebuilds are waited for',
    removal: whole,
    next: [
      'leave',
      '  mark: state leaving',
      '  rebuilds after mark: wait rebuilds',
      '  present after rebuilds: look present',
    ],
  },
  {
    name: 'without rules waits for nobody',
    removal: recorded(bridge),
    next: ['leave', '  mark: state leaving', '  present after mark: look present'],
  },
  {
    name: 'that another call began is marked',
    removal: recorded(bridge, { pendingCleanup: [''] }),
    next: ['leave', '  present: look present'],
  },
  {
    name: 'without a record looks for its elements',
    removal: ids,
    next: ['leave', '  present: look present', '  orphans after present: look orphan elements'],
  },
  {
    name: 'in the role of IPAM has nothing in the tables',
    removal: removalFromIds(ipamKey, 7),
    next: ['leave', '  present: look present'],
  },
  {
    name: 'undoes and gives back',
    removal: whole,
    happens: [alone],
    next: [
      'teardown',
      '  pod: batch: rule.del',
      '  links after pod, anyway: batch: link.group link.group group.del, until gone',
      '  rules after pod, anyway: batch: nft.del nft.del nft.del nft.chain.del',
      '  flows after pod, links, rules: flows delete',
      '  withdraw after flows: state withdrawn',
      '  ports after withdraw: state free ports',
      '  addresses after ports: state free addresses',
      '  forget after addresses: state forgotten',
    ],
  },
  {
    name: 'of a sandbox that is gone',
    removal: whole,
    hasPod: false,
    happens: [alone],
    next: [
      'teardown',
      '  links: batch: link.group link.group group.del, until gone',
      '  rules: batch: nft.del nft.del nft.del nft.chain.del',
      '  flows after links, rules: flows delete',
      '  withdraw after flows: state withdrawn',
      '  ports after withdraw: state free ports',
      '  addresses after ports: state free addresses',
      '  forget after addresses: state forgotten',
    ],
  },
  {
    name: 'whose links are gone starts no process for them',
    removal: recorded(bridge),
    happens: [{}],
    next: [
      'teardown',
      '  withdraw: state withdrawn',
      '  addresses after withdraw: state free addresses',
      '  forget after addresses: state forgotten',
    ],
  },
  {
    name: 'of a pod that was taken over',
    removal: recorded(bridge, { adopted: { dataDir: '/d' } }),
    happens: [plain],
    next: [
      'teardown',
      '  links: batch: link.del, until gone',
      '  upstream after links: upstream',
      '  withdraw after upstream: state withdrawn',
      '  addresses after withdraw: state free addresses',
      '  forget after addresses: state forgotten',
    ],
  },
  {
    name: 'of addresses alone',
    removal: removalOf({ key: ipamKey, spec: addressesAlone }, 7),
    happens: [{}],
    next: [
      'teardown',
      '  withdraw: state withdrawn',
      '  addresses after withdraw: state free addresses',
      '  forget after addresses: state forgotten',
    ],
  },
  {
    name: 'without a record',
    removal: ids,
    happens: [{ ...plain, orphans }],
    next: [
      'teardown',
      '  links: batch: link.group link.group group.del, until gone',
      '  rules: batch: nft.del, until generation',
      '  ports after links, rules: state free ports',
      '  addresses after ports: state free addresses',
    ],
  },
  {
    name: 'without a record, whose elements cannot be listed, frees nothing',
    removal: ids,
    happens: [{ ...plain, orphans: broken }],
    next: ['teardown', '  links: batch: link.group link.group group.del, until gone'],
  },
  {
    name: 'and then ends: there is no record to write',
    removal: ids,
    happens: [{ ...plain, orphans: broken }, {}],
    next: ['answer'],
  },
  {
    name: 'whose chain another pod has',
    removal: whole,
    happens: [plain],
    next: [
      'teardown',
      '  pod: batch: rule.del',
      '  links after pod, anyway: batch: link.group link.group group.del, until gone',
      '  rules after pod, anyway: batch: nft.del nft.del nft.del, until generation',
    ],
  },
  {
    name: 'looks at the chain once more',
    removal: whole,
    happens: [plain, {}],
    next: ['look at chains', '  present: look present'],
  },
  {
    name: 'leaves the chain to who has it',
    removal: whole,
    happens: [plain, {}, plain],
    next: [
      'give back',
      '  flows: flows delete',
      '  withdraw after flows: state withdrawn',
      '  ports after withdraw: state free ports',
      '  addresses after ports: state free addresses',
      '  forget after addresses: state forgotten',
    ],
  },
  {
    name: 'removes the chain that others have left',
    removal: whole,
    happens: [plain, {}, alone],
    next: [
      'give back',
      '  chains: batch: nft.chain.del',
      '  flows after chains: flows delete',
      '  withdraw after flows: state withdrawn',
      '  ports after withdraw: state free ports',
      '  addresses after ports: state free addresses',
      '  forget after addresses: state forgotten',
    ],
  },
  {
    name: 'also where something else failed',
    removal: whole,
    happens: [plain, { links: broken }, alone],
    next: ['give back', '  chains: batch: nft.chain.del'],
  },
  {
    name: 'that fails on the host is written down',
    removal: whole,
    happens: [alone, { links: broken }],
    next: ['write down', '  pending: state pending cleanup'],
  },
  { name: 'and that is all', removal: whole, happens: [alone, { links: broken }, {}], next: ['answer'] },
  {
    name: 'that fails in the pod goes on, and is written down',
    removal: whole,
    happens: [alone, { pod: broken }],
    next: ['write down', '  pending: state pending cleanup'],
  },
  { name: 'that nothing keeps is over', removal: whole, happens: [alone, {}], next: ['answer'] },
  {
    name: 'that rebuilds keep waiting',
    removal: whole,
    happens: [{ rebuilds: failing('held') }],
    next: ['error: held'],
  },
  {
    name: 'whose addresses stay locked',
    removal: whole,
    happens: [alone, { addresses: failing('held') }],
    next: ['error: held'],
  },
  {
    name: 'that cannot write down what is left',
    removal: whole,
    happens: [alone, { links: broken }, { pending: failing('full') }],
    next: ['error: full'],
  },
]

describe('DEL', () => {
  it.each(cases)('$name', ({ removal, hasPod = true, happens = [], next }) => {
    const begun: DelFacts = { removal, hasPod, learnt: {}, runs: [] }
    expect(stepText(nextOfDel(factsAfter(nextOfDel, begun, happens)))).toEqual(next)
  })

  it('answers with every failure of the kernel, and with what a sandbox keeps', () => {
    const both = new AggregateError([new Error('one'), new Error('two')])
    const happens = [alone, { pod: { refused: [new Error('kept')] }, links: { failed: { error: both } } }, {}]
    const begun: DelFacts = { removal: whole, hasPod: true, learnt: {}, runs: [] }
    const step = nextOfDel(factsAfter(nextOfDel, begun, happens))
    expect(step).toEqual({
      result: { failures: [new Error('one'), new Error('two')], refused: [new Error('kept')] },
    })
  })

  it('sends a delegated plugin its DEL, and fails with its error', () => {
    const begun = { type: 'dhcp', learnt: {}, runs: [] }
    const next = (facts: typeof begun) => nextOfLeaseRemoval(facts)
    expect(stepText(next(begun))).toEqual(['lease', '  lease: delegate DEL'])
    expect(stepText(next(factsAfter(next, begun, [{}])))).toEqual(['answer'])
    expect(stepText(next(factsAfter(next, begun, [{ lease: broken }])))).toEqual(['error: nft is broken'])
  })
})
