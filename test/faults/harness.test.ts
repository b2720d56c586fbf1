// SPDX-License-Identifier: Apache-2.0
// What the fault rounds look at, with harm done on purpose: a stream that is cut and a thing that is left are seen.

import { afterAll, beforeAll, expect, it } from 'vitest'
import { type FaultNode, openFaultNode } from '../support/faults/fault-node.ts'
import { play, type Strike } from '../support/faults/fault-rounds.ts'
import { featureSets } from '../support/faults/fault-sets.ts'
import { until } from '../support/faults/process-identities.ts'

let node: FaultNode
beforeAll(async () => {
  node = await openFaultNode(featureSets.whole)
})
afterAll(() => node?.close())

/** A call that works, and harm beside it. */
const harm = (script: string): Strike => ({
  kind: 'harm',
  what: script,
  mayFail: () => false,
  run: async ({ host }, call) => {
    const finished = host.cni(call.verb, call.conf, call)
    expect(host.run('sh', ['-c', script])).toMatchObject({ code: 0 })
    return { ...finished, hit: true }
  },
})
const played = async (script: string) => await play({ node, before: node.look() }, 'steady ADD', harm(script))

it.each([
  ['a link', 'ip link add left0 type veth peer name left1', 'ip link del left0', 'left0'],
  [
    'an element',
    'nft add element inet trestle anyports4 { tcp . 999 : 10.60.0.9 . 9 }',
    'nft delete element inet trestle anyports4 { tcp . 999 }',
    '999',
  ],
  // On a link that no stream passes: a new qdisc drops what is on its way.
  ['a qdisc', 'tc qdisc add dev lo root pfifo', 'tc qdisc del dev lo root', 'pfifo'],
])('%s that is left is a leak', async (_, line, mend, name) => {
  const trial = await played(line)
  expect(trial.leaks.join('\n')).toContain(name)
  expect([trial.addresses, trial.wrong]).toEqual([[], []])
  node.host.run('sh', ['-c', mend])
})

it('an address that stays reserved, or is another’s, is lost', async () => {
  const address = `${node.host.stateDir}/networks/steady/addresses/10.60.0.6`
  const trial = await played(`touch ${address}`)
  expect(trial.addresses.join('\n')).toContain('10.60.0.6')
  node.host.run('rm', [address])
})

it('streams that are cut are interrupted, and run again afterwards', async () => {
  expect(await node.talk.broken()).toEqual([])
  const chain = 'type filter hook forward priority -300; ip daddr 10.59.0.0/24 counter drop;'
  expect(node.host.run('nft', ['-f', '-'], `table inet cut { chain c { ${chain} }; }`)).toMatchObject({ code: 0 })
  const dropped = () => /packets (\d+)/.exec(node.host.run('nft', ['list', 'table', 'inet', 'cut']).stdout)?.[1]
  await until('packets that are dropped', () => Number(dropped()) >= 10)
  node.host.run('nft', ['delete', 'table', 'inet', 'cut'])
  expect((await node.talk.broken()).join('\n')).toMatch(/^UDP_to_the_neighbour.*lost$/)
  expect(await node.talk.broken()).toEqual([])
})
