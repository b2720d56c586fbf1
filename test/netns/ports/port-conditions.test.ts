// SPDX-License-Identifier: Apache-2.0
// portmap.conditionsV4 and V6: who gets through to a host port. One network's conditions never apply to
// another's ports.

import { truncateSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { answer, ask, askOnce, type Target } from '../../support/ask.ts'
import { startCni } from '../../support/locks/parallel.ts'
import { expectError, expectSilent } from '../../support/outcome.ts'
import { stateOf } from '../../support/state-layout.ts'
import { attach, later, netConf, type Pod } from '../../support/traffic/pods.ts'
import { outside } from '../../support/traffic/traffic.ts'
import { openUplinkedHost, type UplinkedHost } from '../../support/traffic/uplinked-host.ts'

const dual = { podcidr: ['10.240.0.0/24', 'fd00:240::/64'] }
const other = { name: 'other', bridge: 'br-other', podcidr: ['10.250.0.0/24', 'fd00:250::/64'] }

let host: UplinkedHost
beforeEach(() => {
  host = openUplinkedHost()
})
afterEach(() => host.close())

function confOf(hostPort: number, conditions: object, more: object = dual) {
  const portMappings = [{ hostPort, containerPort: 80 }]
  return netConf({ ...more, runtimeConfig: { portMappings }, portmap: conditions })
}

async function serve(conf: object, id: string): Promise<Pod> {
  const pod = attach(host, conf, { id })
  host.atClose(await answer(pod.netns, 80))
  return pod
}

const at = (port: number): readonly Target[] =>
  [outside.node4, outside.node6].map((address) => ({ protocol: 'tcp', address, port }))
/** Whether outside and node get through, IPv4 and IPv6 each. */
const passes = (port: number) =>
  [host.internet, host.path].map((netns) => askOnce(host, netns, at(port)).map((said) => said !== ''))
/** The same, looked at again where an answer is still on its way: a busy machine takes its time. */
const expectPasses = (port: number) => expect.poll(() => passes(port), { timeout: 20_000 })

describe('a host port with conditions', () => {
  it('is for those who meet them, each family by its own', async () => {
    await serve(confOf(8080, { conditionsV4: ['ip', 'saddr', '!=', '192.0.2.2'] }), 'a')
    await serve(
      confOf(8081, { conditionsV4: ['iifname "up0"'], conditionsV6: ['ip6 saddr { 2001:db8:9::/48 }'] }, other),
      'b',
    )
    await expectPasses(8080).toEqual([
      [false, true],
      [true, true],
    ])
    await expectPasses(8081).toEqual([
      [true, false],
      [false, false],
    ])
  })

  it('is checked, rebuilt after a flush, and gone with the pod', async () => {
    const conf = confOf(8080, { conditionsV4: ['meta', 'mark', '0x7'], conditionsV6: ['ct state new'] })
    const pod = await serve(conf, 'a')
    await serve(confOf(8081, {}, other), 'b')
    const expected = [
      [false, true],
      [false, true],
    ]
    expectSilent(later(host, 'CHECK', { conf, pod }))
    await expectPasses(8080).toEqual(expected)
    const chain = /chain (cond4_\w+)/.exec(host.run('nft', ['list', 'table', 'inet', 'trestle']).stdout)?.[1] ?? ''
    host.run('nft', ['flush', 'chain', 'inet', 'trestle', chain])
    expectError(later(host, 'CHECK', { conf, pod }), 107, chain)
    host.run('nft', ['delete', 'table', 'inet', 'trestle'])
    attach(host, netConf(dual), { id: 'c' })
    expectSilent(later(host, 'CHECK', { conf, pod }))
    await expectPasses(8080).toEqual(expected)
    expect(ask(host, host.internet, at(8081))).not.toContain('')
    expectSilent(later(host, 'DEL', { conf, pod }))
    expect(host.run('nft', ['list', 'map', 'inet', 'trestle', 'anygates4']).stdout).not.toContain('elements')
  })

  it('keeps its own conditions when the configuration gets others', async () => {
    await serve(confOf(8080, { conditionsV4: ['ip saddr 203.0.113.0/24'] }), 'old')
    await serve(confOf(8081, { conditionsV4: ['ip saddr 192.0.2.0/24'] }), 'new')
    expect(ask(host, host.internet, at(8081).slice(0, 1))).not.toContain('')
    expect(passes(8080)[0]?.[0]).toBe(false)
  })

  describe('has chains', () => {
    const conditions = { conditionsV4: ['ip saddr 192.0.2.0/24'], conditionsV6: ['ip6 saddr 2001:db8::/32'] }
    const table = () => host.run('nft', ['-s', 'list', 'table', 'inet', 'trestle']).stdout
    const chains = () => [...table().matchAll(/chain (cond[46])_\w+ \{/g)].map(([, name]) => name).sort()
    const end = (pod: Pod, conf: object) => expectSilent(later(host, 'DEL', { conf, pod }))

    it('that go with the last pod of theirs, and leave the table as it was', async () => {
      const [plain, first, second] = [confOf(8079, {}), confOf(8080, conditions), confOf(8081, conditions, other)]
      attach(host, plain, { id: 'beside' })
      end(attach(host, confOf(8082, {}, other), { id: 'before' }), plain)
      const before = table()
      const pods = [await serve(first, 'a'), await serve(second, 'b')] as const
      end(pods[0], first)
      expect(chains()).toEqual(['cond4', 'cond6'])
      expectSilent(later(host, 'CHECK', { conf: second, pod: pods[1] }))
      expect(ask(host, host.internet, at(8081))).not.toContain('')
      end(pods[1], second)
      expect(table()).toBe(before)
    })

    it('that pods which go at once do not leave to each other, and that one which comes then has', async () => {
      const of = (n: number) => confOf(8080 + n, conditions)
      const add = (n: number) => attach(host, of(n), { id: `p${n}`, netns: netns[n] ?? '' })
      const netns = [0, 1, 2].map((n) => host.pod(`p${n}`))
      const begin = (verb: 'ADD' | 'DEL', n: number) =>
        startCni(host, verb, { conf: of(n), id: `p${n}`, netns: netns[n] ?? '' })
      const ended = async (calls: readonly ReturnType<typeof begin>[]) => {
        for (const { code, stdout, stderr } of await Promise.all(calls)) expect([code, stderr], stdout).toEqual([0, ''])
      }
      for (const round of [1, 2, 3]) {
        add(0)
        add(1)
        await ended([begin('DEL', 0), begin('DEL', 1), begin('ADD', 2)])
        expect(chains(), `one came, round ${round}`).toEqual(['cond4', 'cond6'])
        add(0)
        await ended([0, 2].map((n) => begin('DEL', n)))
        expect(chains(), `all went, round ${round}`).toEqual([])
      }
    })

    it('that go where the record is lost', () => {
      const conf = confOf(8080, conditions)
      const pod = attach(host, conf)
      truncateSync(stateOf(host, 'net').finished('c1'), 20)
      end(pod, conf)
      expect(chains()).toEqual([])
    })
  })

  it.each([
    [{ conditionsV4: ['ip', 'saddr', '10.0.0.0/8;', 'flush', 'ruleset'] }, 7, '10.0.0.0/8;'],
    [{ conditionsV4: ['ip6', 'saddr', 'fd00::/8'] }, 7, 'ip6'],
    [{ conditionsV6: ['tcp', 'dport', '80'] }, 7, 'tcp'],
    [{ conditionsV4: ['-s', '10.0.0.0/8'] }, 2, 'conditionsV4'],
  ])('that is not understood is refused: %j', (conditions, code, text) => {
    expectError(host.cni('ADD', confOf(8080, conditions), { netns: host.pod('c1') }), code, text)
  })
})
