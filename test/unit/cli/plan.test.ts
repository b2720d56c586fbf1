// SPDX-License-Identifier: Apache-2.0
// `plan`: the first ADD from the configuration alone.

import { expect, it } from 'vitest'
import { plansOf } from '../../../src/cli/plan/plan.ts'
import { opsOf } from '../../../src/plan/order/stage.ts'
import { runCli } from '../../support/collect.ts'
import { errorOf, lineOf } from '../cni/model/call.ts'

const planOf = (stdin: string, what?: Parameters<typeof plansOf>[1]) =>
  plansOf(stdin, what).flatMap((plan) => opsOf(plan))

const conf = (more: object) => JSON.stringify({ cniVersion: '1.1.0', name: 'n', type: 'trestle', ...more })

it('makes the bridge before the port, and the pod after both', () => {
  const kinds = planOf(conf({ podcidr: '10.9.0.0/24' })).map((op) => `${op.in} ${op.kind}`)
  const at = (kind: string) => kinds.indexOf(kind)
  for (const kind of ['host bridge.add', 'host veth.add', 'pod addr.replace', 'host nft.base']) {
    expect(at(kind), kind).toBeGreaterThanOrEqual(0)
  }
  expect(at('host bridge.add')).toBeLessThan(at('host veth.add'))
  expect(at('host veth.add')).toBeLessThan(at('pod addr.replace'))
})

it('gives every operation a reason', () => {
  for (const op of planOf(conf({ podcidr: ['10.9.0.0/24', 'fd00:9::/64'] }))) expect(op.why).toMatch(/\w+ \w+/)
})

it('takes the first address of each range', () => {
  const ops = planOf(conf({ podcidr: ['10.9.0.0/24', 'fd00:9::/64'] }))
  const added = ops.flatMap((op) => (op.kind === 'addr.replace' && op.in === 'pod' ? [op.cidr] : []))
  expect(added).toEqual(['10.9.0.2/24', 'fd00:9::2/64'])
})

it('takes the address that is asked for', () => {
  const ops = planOf(conf({ podcidr: '10.9.0.0/24', runtimeConfig: { ips: ['10.9.0.77'] } }))
  const added = ops.flatMap((op) => (op.kind === 'addr.replace' && op.in === 'pod' ? [op.cidr] : []))
  expect(added).toEqual(['10.9.0.77/24'])
  const outside = conf({ podcidr: '10.9.0.0/24', runtimeConfig: { ips: ['10.8.0.77'] } })
  expect(() => planOf(outside)).toThrow('failed to allocate all requested IPs: 10.8.0.77')
})

it('takes away with DEL what it made with ADD: links, and the elements of the pod alone', () => {
  const more = {
    podcidr: '10.9.0.0/24',
    runtimeConfig: { portMappings: [{ hostPort: 80, containerPort: 8080, protocol: 'tcp' }] },
    bandwidth: { egressRate: 1_000_000 },
  }
  const made = planOf(conf(more)).flatMap((op) => ('name' in op && op.kind !== 'bridge.add' ? [op.name] : []))
  const removed = planOf(conf(more), 'DEL')
  const links = removed.flatMap((op) => (op.kind === 'link.group' ? [op.dev] : []))
  expect(made).toHaveLength(2)
  expect([...links].sort()).toEqual([...made].sort())
  const elements = removed.flatMap((op) =>
    op.kind === 'nft.del' ? [{ set: op.set, key: op.key, value: op.value }] : [],
  )
  expect(elements).toContainEqual({ set: 'anyports4', key: ['tcp', '80'], value: ['10.9.0.2', '8080'] })
  expect(removed.map((op) => op.in)).not.toContain('pod')
})

it('prints the DEL of an example, in both formats', async () => {
  const text = await runCli(['plan', '--del', 'conf-examples/everything.conflist'])
  expect(text).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^network everything: the DEL has \d+ operations/),
  })
  expect((await runCli(['plan', '--del', '-o', 'json', 'conf-examples/everything.conflist'])).json).toMatchObject({
    verb: 'DEL',
    exitCode: 0,
  })
})

it.each([[{ podcidr: 'nonsense' }, /^\(7\)/]])('refuses %j', (more, message) => {
  expect(lineOf(errorOf(() => planOf(conf(more))))).toMatch(message)
})

it('sets lo up, and down', () => {
  expect(planOf(conf({ mode: 'loopback' })).map(({ kind }) => kind)).toEqual(['link.up', 'addr.show'])
  expect(planOf(conf({ mode: 'loopback' }), 'DEL').map(({ kind }) => kind)).toEqual(['link.down'])
})

it('makes the interface, asks the other IPAM plugin, then adds the address that it is taken to give', () => {
  const plans = plansOf(conf({ ipam: { type: 'dhcp' } }))
  const at = plans.findIndex(({ id }) => id === 'lease')
  const kinds = (some: typeof plans) => some.flatMap((plan) => opsOf(plan)).map(({ kind }) => kind)
  expect(kinds(plans.slice(0, at))).toContain('veth.add')
  expect(kinds(plans.slice(at))).not.toContain('veth.add')
  expect(kinds(plans.slice(at))).toContain('addr.replace')
})

it.each([
  ['first', ['set up', 'pod']],
  ['later', ['usual']],
  ['flushed', ['usual', 'rebuild the rules', 'last']],
] as const)('of a network that finds %s has the plans %j', (what, ids) => {
  const made = plansOf(conf({ podcidr: '10.9.0.0/24' }), what).filter((plan) => opsOf(plan).length > 0)
  expect(made.map(({ id }) => id)).toEqual(ids)
})

it('prints the batches of an example, in both formats', async () => {
  const text = await runCli(['plan', 'conf-examples/podcidr-demo.conf'])
  expect(text.code).toBe(0)
  expect(text.stdout).toContain('create the bridge cni0')
  expect(text.stdout).toMatch(/^ {4}addr replace 10\.240\.0\.2\/24 /m)
  const { code, json } = await runCli(['plan', '-o', 'json', 'conf-examples/podcidr-demo.conf'])
  expect(code).toBe(0)
  expect((json as { batches: { tool: string }[] }).batches.map((batch) => batch.tool)).toEqual(
    expect.arrayContaining(['ip', 'nft', 'file']),
  )
})

it('takes an earlier plugin of the list for done', async () => {
  const { code, stdout } = await runCli(['plan', 'conf-examples/chained-after-macvlan.conflist'])
  expect(code).toBe(0)
  expect(stdout).toContain('link set dev eth0 allmulticast on')
})
