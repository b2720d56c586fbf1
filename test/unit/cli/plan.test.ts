// SPDX-License-Identifier: Apache-2.0
// `plan`: what an ADD or a DEL runs, from the configuration alone.

import { describe, expect, it } from 'vitest'
import { type Planned, planOf } from '../../../src/commands/plan.ts'
import { runCli } from '../../support/collect.ts'

const conf = (more: object) => JSON.stringify({ cniVersion: '1.1.0', name: 'n', type: 'trestle', ...more })
const opsOf = async (more: object, what: Planned = 'first') =>
  (await planOf(conf(more), what)).flatMap(({ ops }) => ops)
const dual = { podcidr: ['10.9.0.0/24', 'fd00:9::/64'] }

describe('an ADD', () => {
  it('makes the bridge before the port, and the pod after both; each operation has a reason', async () => {
    const ops = await opsOf(dual)
    const kinds = ops.map(({ place, kind }) => `${place} ${kind}`)
    const places = ['host bridge.add', 'host veth.add', 'pod address.add'].map((kind) => kinds.indexOf(kind))
    expect(places).toEqual(places.toSorted((a, b) => a - b))
    expect(Math.min(...places, kinds.indexOf('host table.set'))).toBeGreaterThanOrEqual(0)
    for (const { why } of ops) expect(why).toMatch(/\w+ \w+/)
  })

  const addedTo = async (more: object) =>
    (await opsOf(more)).flatMap((op) => (op.kind === 'address.add' && op.place === 'pod' ? [op.cidr] : []))
  it('takes the first address of each range, or the one that is asked for', async () => {
    expect(await addedTo(dual)).toEqual(['10.9.0.2/24', 'fd00:9::2/64'])
    const asked = (ip: string) => ({ podcidr: '10.9.0.0/24', runtimeConfig: { ips: [ip] } })
    expect(await addedTo(asked('10.9.0.77'))).toEqual(['10.9.0.77/24'])
    await expect(addedTo(asked('10.8.0.77'))).rejects.toThrow('failed to allocate all requested IPs: 10.8.0.77')
  })

  it('of a delegated plugin makes the interface, asks, then adds the address that it is taken to give', async () => {
    const env = {
      CNI_COMMAND: 'ADD',
      CNI_CONTAINERID: 'c',
      CNI_NETNS: '/run/netns/c',
      CNI_IFNAME: 'eth0',
      CNI_PATH: '/bin',
    }
    const steps = await planOf(conf({ ipam: { type: 'true' } }), 'first', env)
    const at = steps.findIndex(({ command }) => command === 'true ADD')
    const kindsOf = (some: typeof steps) => some.flatMap(({ ops }) => ops.map(({ kind }) => kind))
    expect(kindsOf(steps.slice(0, at))).toContain('veth.add')
    expect(kindsOf(steps.slice(at))).not.toContain('veth.add')
    expect(kindsOf(steps.slice(at))).toContain('address.add')
  })

  it.each([
    ['first', true],
    ['later', false],
    ['flushed', true],
  ] as const)('that finds %s sets the table up: %s', async (what, isSetUp) => {
    const kinds = (await opsOf({ podcidr: '10.9.0.0/24' }, what)).map(({ kind }) => kind)
    expect(kinds.includes('table.set')).toBe(isSetUp)
  })

  it('is refused as a call is', async () => {
    await expect(opsOf({ podcidr: 'nonsense' })).rejects.toMatchObject({ code: 7 })
  })
})

it('DEL takes away what ADD made: links, and the elements of the pod alone', async () => {
  const more = {
    podcidr: '10.9.0.0/24',
    runtimeConfig: { portMappings: [{ hostPort: 80, containerPort: 8080, protocol: 'tcp' }] },
    bandwidth: { egressRate: 1_000_000 },
  }
  const made = (await opsOf(more)).flatMap((op) => (op.kind === 'veth.add' || op.kind === 'ifb.add' ? [op.name] : []))
  const removed = await opsOf(more, 'del')
  expect(removed.flatMap((op) => (op.kind === 'group.delete' ? op.devs : [])).toSorted()).toEqual(made.toSorted())
  const elements = removed.flatMap((op) => (op.kind === 'element.delete' ? [op.element] : []))
  expect(elements).toContainEqual(
    expect.objectContaining({ set: 'anyports4', key: ['tcp', '80'], value: ['10.9.0.2', '8080'] }),
  )
  expect(removed.map(({ place }) => place)).not.toContain('pod')
})

it.each([
  [[], 'the first ADD', /^ {4}addr replace 10\.240\.0\.2\/24 /m],
  [['--del'], 'the DEL', /remove veth[0-9a-f]{11}/],
])('is printed with %j in both formats', async (options, title, line) => {
  const args = ['plan', ...options, 'conf-examples/podcidr-demo.conf']
  const { code, stdout } = await runCli(args)
  expect([code, stdout]).toEqual([0, expect.stringMatching(line)])
  expect(stdout).toMatch(new RegExp(`^network my-cni-demo: ${title} has \\d+ operations`))
  const { json } = await runCli([...args, '-o', 'json'])
  expect(json).toMatchObject({ verb: options.length === 0 ? 'ADD' : 'DEL', network: 'my-cni-demo', exitCode: 0 })
})
