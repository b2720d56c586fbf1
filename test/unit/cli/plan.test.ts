// SPDX-License-Identifier: Apache-2.0
// `plan`: the first ADD from the configuration alone.

import { expect, it } from 'vitest'
import { planOf } from '../../../src/cli/plan/plan.ts'
import { runCli } from '../../support/collect.ts'
import { errorOf, lineOf } from '../cni/model/call.ts'

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
  expect(elements).toContainEqual({ set: 'anyHostPorts4', key: ['tcp', '80'], value: ['10.9.0.2', '8080'] })
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

it.each([
  [{ mode: 'loopback' }, /^\(2\) plan knows the modes "bridge" and "ptp", not "loopback"/],
  [{ ipam: { type: 'dhcp' } }, /^\(2\) ipam.type "dhcp" is another plugin/],
  [{ podcidr: 'nonsense' }, /^\(7\)/],
])('refuses %j', (more, message) => {
  expect(lineOf(errorOf(() => planOf(conf(more))))).toMatch(message)
})

it('prints the batches of an example, in both formats', async () => {
  const text = await runCli(['plan', 'conf-examples/podcidr-demo.conf'])
  expect(text.code).toBe(0)
  expect(text.stdout).toContain('create the bridge cni0')
  expect(text.stdout).toMatch(/^ {2}addr replace 10\.240\.0\.2\/24 /m)
  const { code, json } = await runCli(['plan', '-o', 'json', 'conf-examples/podcidr-demo.conf'])
  expect(code).toBe(0)
  expect((json as { batches: { tool: string }[] }).batches.map((batch) => batch.tool)).toEqual(
    expect.arrayContaining(['ip', 'nft', 'file']),
  )
})

it('says of a chained plugin that it does not know the one before it', async () => {
  const { code, stderr } = await runCli(['plan', 'conf-examples/chained-after-macvlan.conflist'])
  expect(code).toBe(3)
  expect(stderr).toContain('plan knows the modes "bridge" and "ptp", not "chained"')
})
