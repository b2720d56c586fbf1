// SPDX-License-Identifier: Apache-2.0
// Records and replays of calls that CRI-O's own library makes (ocicni).
import { afterEach, describe, expect, it } from 'vitest'
import { must } from './lab/calls.ts'
import { type Lab, missingParts, openBareLab, peers, pluginType, prepareLab } from './lab/lab.ts'

const missing = missingParts(['bin/ocicnitool', 'cni/bridge', 'cni/ptp'], 'cni cri-o')
if (pluginType !== 'trestle') missing.push('this file is about trestle')

const list = (plugin: object) => ({ cniVersion: '1.1.0', name: 'net', plugins: [plugin] })
const ipam = { type: 'host-local', ranges: [[{ subnet: '10.85.0.0/24' }]], routes: [{ dst: '0.0.0.0/0' }] }
const bridge = { type: 'bridge', bridge: 'cni0', isGateway: true, ipMasq: true, ipam }

describe.skipIf(missing.length > 0)("CRI-O's library", () => {
  let lab: Lab
  afterEach(async () => await lab?.close())

  async function start(plugin: object): Promise<void> {
    lab = await openBareLab(await prepareLab({ '10-net.conflist': list(plugin) }))
    await must(lab, 'ip netns add web')
    await must(lab, 'ip link add cni0 up type bridge')
    await must(lab, 'ip address add 10.1.0.1/16 dev cni0')
  }
  const trestle = (...words: readonly string[]) => lab.run('/opt/cni/bin/trestle', words)
  const ocicni = (verb: string) => {
    const env = { CONF_PATH: '/etc/cni/net.d', BIN_PATH: '/opt/cni/bin' }
    return lab.run(`${peers}/bin/ocicnitool`, [verb, 'shop', 'web', 'sandbox1', '/run/netns/web'], { env })
  }
  const state = async () => {
    // The kernel tells the operational state of a link up to a second late (net/core/link_watch.c).
    const addresses = (await must(lab, 'ip -br address')).replaceAll(/ (UP|UNKNOWN) +/g, ' ')
    return [addresses, await must(lab, 'nft list ruleset')]
  }

  it('asks a dummy plugin, whose record calls a real one as CRI-O did', async () => {
    const answer = {
      ADD: { interfaces: [{ name: 'eth0', sandbox: '/' }], ips: [{ address: '10.85.0.9/24', interface: 0 }] },
    }
    await start({ type: 'trestle', ipam, record: { answer } })
    const added = await ocicni('add')
    expect([added.exitCode, added.stdout], added.stderr).toEqual([0, expect.stringContaining('IP: 10.85.0.9/24')])
    const { stdout: listed } = await trestle('record', 'list')
    expect(listed).toMatch(/ADD +shop\/web +net +succeeded \(answer given\)/)
    const [id = ''] = /\S+(?=.*ADD)/.exec(listed) ?? []
    expect((await trestle('record', 'show', id)).stdout).toMatch(
      /CNI_ARGS=.*K8S_POD_NAME=web[\s\S]*CNI_CONTAINERID=sandbox1/,
    )
    const before = await state()
    const tried = await trestle('replay', id, '--against', '/opt/cni/bin/ptp')
    expect([tried.exitCode, tried.stdout], tried.stderr).toEqual([1, expect.stringContaining('"gateway": "10.85.0.1"')])
    expect(await state()).toEqual(before)
  })

  it.each<[string, object, RegExp]>([
    ['the reference plugin', { ...bridge, type: 'trestle', record: { wrap: 'bridge' } }, /already has an IP address/],
    ['trestle', { ...bridge, type: 'trestle' }, /10\.1\.0\.1\/16/],
  ])(
    'a call of %s that fails by what lies in the node is kept, and a replay tells that it is the node',
    async (_, plugin, said) => {
      await start(plugin)
      const failed = await ocicni('add')
      expect([failed.exitCode, failed.stderr]).toEqual([1, expect.stringMatching(said)])
      expect((await trestle('last')).stdout).toMatch(said)
      const before = await state()
      const again = await trestle('replay')
      expect([again.exitCode, again.stdout], again.stderr).toEqual([
        1,
        expect.stringContaining('the failure was not reproduced'),
      ])
      expect(await state()).toEqual(before)
    },
  )
})
