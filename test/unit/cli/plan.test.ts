// SPDX-License-Identifier: Apache-2.0
// `plan`: the first ADD from the configuration alone.

import { expect, it } from 'vitest'
import { plansOf } from '../../../src-before/cli/plan/plan.ts'
import type { CniError } from '../../../src-before/cni/error.ts'
import { opsOf } from '../../../src-before/plan/order/stage.ts'
import { runCli } from '../../support/collect.ts'
import { lineOf } from './call.ts'

const planOf = async (stdin: string, what?: Parameters<typeof plansOf>[1]) =>
  (await plansOf(stdin, what)).flatMap((plan) => opsOf(plan))

const conf = (more: object) => JSON.stringify({ cniVersion: '1.1.0', name: 'n', type: 'trestle', ...more })

it('makes the bridge before the port, and the pod after both', async () => {
  const kinds = (await planOf(conf({ podcidr: '10.9.0.0/24' }))).map((op) => `${op.in} ${op.kind}`)
  const at = (kind: string) => kinds.indexOf(kind)
  for (const kind of ['host bridge.add', 'host veth.add', 'pod addr.replace', 'host nft.base']) {
    expect(at(kind), kind).toBeGreaterThanOrEqual(0)
  }
  expect(at('host bridge.add')).toBeLessThan(at('host veth.add'))
  expect(at('host veth.add')).toBeLessThan(at('pod addr.replace'))
})

it('gives every operation a reason', async () => {
  for (const op of await planOf(conf({ podcidr: ['10.9.0.0/24', 'fd00:9::/64'] }))) expect(op.why).toMatch(/\w+ \w+/)
})

it('takes the first address of each range', async () => {
  const ops = await planOf(conf({ podcidr: ['10.9.0.0/24', 'fd00:9::/64'] }))
  const added = ops.flatMap((op) => (op.kind === 'addr.replace' && op.in === 'pod' ? [op.cidr] : []))
  expect(added).toEqual(['10.9.0.2/24', 'fd00:9::2/64'])
})

it('takes the address that is asked for', async () => {
  const ops = await planOf(conf({ podcidr: '10.9.0.0/24', runtimeConfig: { ips: ['10.9.0.77'] } }))
  const added = ops.flatMap((op) => (op.kind === 'addr.replace' && op.in === 'pod' ? [op.cidr] : []))
  expect(added).toEqual(['10.9.0.77/24'])
  const outside = conf({ podcidr: '10.9.0.0/24', runtimeConfig: { ips: ['10.8.0.77'] } })
  await expect(planOf(outside)).rejects.toThrow('failed to allocate all requested IPs: 10.8.0.77')
})

it('takes away with DEL what it made with ADD: links, and the elements of the pod alone', async () => {
  const more = {
    podcidr: '10.9.0.0/24',
    runtimeConfig: { portMappings: [{ hostPort: 80, containerPort: 8080, protocol: 'tcp' }] },
    bandwidth: { egressRate: 1_000_000 },
  }
  const made = (await planOf(conf(more))).flatMap((op) => ('name' in op && op.kind !== 'bridge.add' ? [op.name] : []))
  const removed = await planOf(conf(more), 'DEL')
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

it.each([[{ podcidr: 'nonsense' }, /^\(7\)/]])('refuses %j', async (more, message) => {
  const error = await planOf(conf(more)).catch((thrown: unknown) => thrown)
  expect(lineOf(error as CniError)).toMatch(message)
})

it('sets lo up, and down', async () => {
  expect((await planOf(conf({ mode: 'loopback' }))).map(({ kind }) => kind)).toEqual(['link.up', 'addr.show'])
  expect((await planOf(conf({ mode: 'loopback' }), 'DEL')).map(({ kind }) => kind)).toEqual(['link.down'])
})

it('makes the interface, asks the other IPAM plugin, then adds the address that it is taken to give', async () => {
  const plans = await plansOf(conf({ ipam: { type: 'dhcp' } }))
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
] as const)('of a network that finds %s has the plans %j', async (what, ids) => {
  const made = (await plansOf(conf({ podcidr: '10.9.0.0/24' }), what)).filter((plan) => opsOf(plan).length > 0)
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
