// SPDX-License-Identifier: Apache-2.0
// Whole lists through libcni, as cnitool runs them. E2E_PLUGIN_TYPE=bridge runs the same with the upstream plugins.
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { type Lab, leftovers, missingParts, openBareLab, peers, pluginType, prepareLab, type Ran } from './lab/lab.ts'
import { installOutliving } from './lab/outliving.ts'

const missing = missingParts(['bin/cnitool', 'cni/bridge', 'cni/host-local', 'cni/tuning'], 'cni')

/** The plugin that makes the interface, on a bridge of its own: trestle's short form, or what it stands for. */
function podNetwork(bridge: string, ...ranges: string[]) {
  if (pluginType === 'trestle') return { type: 'trestle', mode: 'bridge', bridge, podcidr: ranges }
  const ipam = { type: 'host-local', ranges: ranges.map((subnet) => [{ subnet }]) }
  return { type: 'bridge', bridge, isDefaultGateway: true, ipMasq: true, hairpinMode: true, ipam }
}
const sysctl = { 'net.core.somaxconn': '512' }
/** The upstream bridge, with trestle or the upstream tuning plugin behind it: neither has anything to do. */
const through = [
  {
    ...{ type: 'bridge', bridge: 'br-through', isDefaultGateway: true },
    ipam: { type: 'host-local', ranges: [[{ subnet: '10.89.3.0/24' }]] },
  },
  { type: pluginType === 'trestle' ? 'trestle' : 'tuning' },
]

const list = (name: string, ...plugins: unknown[]) => ({ cniVersion: '1.1.0', name, plugins })
const conflists = {
  '10-one.conflist': list('one', podNetwork('br-one', '10.89.1.0/24', 'fd00:10:89:1::/64')),
  '20-two.conflist': list('two', podNetwork('br-two', '10.89.2.0/24'), { type: 'tuning', sysctl }),
  '30-through.conflist': list('through', ...through),
  '40-demo.conf': {
    ...(pluginType === 'trestle' ? { type: 'trestle', podcidr: '10.240.0.0/24' } : podNetwork('cni0', '10.240.0.0/24')),
    cniVersion: '0.3.1',
    name: 'my-cni-demo',
  },
}

type Address = {
  readonly address: string
  readonly gateway?: string
  readonly version?: string
  readonly interface?: number
}
type Interface = { readonly name: string; readonly mac?: string; readonly sandbox?: string }
type Result = { readonly cniVersion: string; readonly interfaces: Interface[]; readonly ips: Address[] }

describe.skipIf(missing.length > 0)(`cnitool with ${pluginType}`, () => {
  let lab: Lab
  const pods: string[] = []

  beforeAll(async () => {
    lab = await openBareLab(await prepareLab(conflists))
  })
  afterEach(async () => {
    for (const pod of pods.splice(0)) await lab.run('ip', ['netns', 'delete', pod])
  })
  afterAll(async () => {
    await lab?.close()
  })

  const cnitool = (verb: string, network: string, pod: string, env = {}) =>
    lab.run(join(peers, 'bin/cnitool'), [verb, network, `/run/netns/${pod}`], {
      env: { CNI_PATH: '/opt/cni/bin', ...env },
    })

  /** `ran`, when its exit code is 0; else the assertion shows what it printed. */
  function fine(ran: Ran, what: string): Ran {
    expect(ran.exitCode, `${what}: ${ran.stderr} ${ran.stdout}`).toBe(0)
    return ran
  }
  const succeed = async (file: string, ...args: string[]): Promise<Ran> =>
    fine(await lab.run(file, args), [file, ...args].join(' '))
  /** Runs a verb that must succeed; every verb but add prints nothing. */
  async function quietly(verb: string, network: string, pod: string): Promise<void> {
    expect(fine(await cnitool(verb, network, pod), `cnitool ${verb} ${network} ${pod}`).stdout).toBe('')
  }
  /** A new netns joined to `network`; the result as cnitool printed it. */
  async function attach(network: string, pod: string): Promise<Result> {
    await succeed('ip', 'netns', 'add', pod)
    pods.push(pod)
    return JSON.parse(fine(await cnitool('add', network, pod), `cnitool add ${network} ${pod}`).stdout) as Result
  }
  // One answer within 5 s: upstream's IPv6 gateway address is tentative at first.
  const ping = (pod: string, address: string) => succeed('ip', 'netns', 'exec', pod, 'ping', '-c1', '-w5', address)

  it('adds, checks, reports and deletes a dual-stack pod', async () => {
    const result = await attach('one', 'a')
    expect(result.cniVersion).toBe('1.1.0')
    expect(result.ips.map(({ address, gateway }) => [address, gateway])).toEqual([
      ['10.89.1.2/24', '10.89.1.1'],
      ['fd00:10:89:1::2/64', 'fd00:10:89:1::1'],
    ])
    const inside = result.interfaces.find(({ sandbox }) => sandbox !== undefined && sandbox !== '')
    expect(inside).toMatchObject({ name: 'eth0', sandbox: '/run/netns/a' })
    for (const address of ['10.89.1.1', 'fd00:10:89:1::1', '192.0.2.1']) await ping('a', address)

    await quietly('check', 'one', 'a')
    await quietly('status', 'one', 'a')
    await quietly('del', 'one', 'a')
    expect((await lab.run('ip', ['-n', 'a', 'link', 'show', 'eth0'])).exitCode).not.toBe(0)
    const { veths, rules } = await leftovers(lab)
    expect(veths).toEqual([])
    expect(rules).not.toMatch(/10\.89\.1\.2\b/)
  })

  it.runIf(pluginType === 'trestle')(
    'is told that the pod is off while what its tools have started lives on',
    async () => {
      await attach('one', 'outlived')
      const outliving = await installOutliving(lab)
      try {
        const env = { PATH: `${outliving.tools}:${process.env['PATH']}` }
        // libcni waits for whoever has the descriptors of the call.
        expect(fine(await cnitool('del', 'one', 'outlived', env), 'cnitool del').stdout).toBe('')
        expect(await outliving.count()).toEqual({ left: 1, living: 1 })
        expect((await leftovers(lab)).veths).toEqual([])
      } finally {
        await outliving.remove()
      }
    },
  )

  it('fails a check when an address is gone', async () => {
    await attach('one', 'changed')
    await quietly('check', 'one', 'changed')
    await succeed('ip', '-n', 'changed', 'address', 'flush', 'dev', 'eth0', 'scope', 'global')
    const check = await cnitool('check', 'one', 'changed')
    expect(check.exitCode).not.toBe(0)
    expect(check.stdout).toBe('')
    await quietly('del', 'one', 'changed')
  })

  it('applies a second plugin of the list, and deletes both twice, the second time without the netns', async () => {
    const result = await attach('two', 'b')
    expect(result.ips.map(({ address }) => address)).toEqual(['10.89.2.2/24'])
    const read = () => lab.run('ip', ['netns', 'exec', 'b', 'cat', '/proc/sys/net/core/somaxconn'])
    expect((await read()).stdout).toBe('512')
    await ping('b', '10.89.2.1')
    await quietly('check', 'two', 'b')
    await quietly('del', 'two', 'b')
    await succeed('ip', 'netns', 'delete', 'b')
    await quietly('del', 'two', 'b')
    expect((await leftovers(lab)).veths).toEqual([])
  })

  it('hands the result on unchanged when the second plugin has nothing to do', async () => {
    const through = await attach('through', 'c')
    const names = through.interfaces.map(({ name }) => name)
    expect(names.filter((name) => name === 'eth0')).toEqual(['eth0'])
    expect(names).toContain('br-through')
    expect(through.ips).toEqual([expect.objectContaining({ address: '10.89.3.2/24', gateway: '10.89.3.1' })])
    const { stdout } = await succeed('ip', '-n', 'c', '-j', 'link', 'show', 'eth0')
    const inside = through.interfaces.find(({ name }) => name === 'eth0')
    expect(inside?.mac).toBe((JSON.parse(stdout) as { address: string }[])[0]?.address)
    await quietly('check', 'through', 'c')
    await quietly('del', 'through', 'c')
  })

  it('runs the configuration of "Writing a CNI plugin from scratch" as it stands', async () => {
    const result = await attach('my-cni-demo', 'd')
    expect(result.cniVersion).toBe('0.3.1')
    expect(result.ips).toEqual([
      expect.objectContaining({ version: '4', address: '10.240.0.2/24', gateway: '10.240.0.1' }),
    ])
    expect(result.interfaces.map(({ name }) => name)).toEqual(expect.arrayContaining(['cni0', 'eth0']))
    await ping('d', '10.240.0.1')
    const { stdout } = await succeed('ip', '-n', 'd', 'route', 'show', 'default')
    expect(stdout).toContain('default via 10.240.0.1 dev eth0')
    await quietly('del', 'my-cni-demo', 'd')
  })

  it('collects garbage: what libcni knows goes, and a call without a list removes nothing', async () => {
    // What pods of the network share stays.
    await attach('one', 'first')
    await quietly('del', 'one', 'first')
    const before = await leftovers(lab)
    await attach('one', 'e')
    await ping('e', '10.89.1.1')
    // Without its cache libcni deletes nothing itself, and its GC call names no valid attachments at all.
    await succeed('mv', '/var/lib/cni/results', '/run/results')
    await quietly('gc', 'one', 'e')
    await ping('e', '10.89.1.1')
    await succeed('rm', '-rf', '/var/lib/cni/results')
    await succeed('mv', '/run/results', '/var/lib/cni/results')
    await quietly('gc', 'one', 'e')
    expect(await leftovers(lab)).toEqual(before)
  })
})
