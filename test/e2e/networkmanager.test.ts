// SPDX-License-Identifier: Apache-2.0
// A real NetworkManager beside trestle: it has a profile for every port, and the port loses its hairpin when that is used.
// With the file of conf-examples/node it has nothing to do with bridge and ports.
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { answersFromOutside, attach, check, type LabPod, must, serve } from './lab/calls.ts'
import { type Lab, missingParts, openBareLab, prepareLab } from './lab/lab.ts'

const missing = missingParts(['debian/networkmanager'], 'networkmanager')

const conf = {
  cniVersion: '1.1.0',
  name: 'pods',
  type: 'trestle',
  podcidr: ['10.96.0.0/24', 'fd00:10:96::/64'],
  bandwidth: { egressRate: 100_000_000 },
}
const file = (name: string) => fileURLToPath(new URL(name, import.meta.url))

describe.skipIf(missing.length > 0)('NetworkManager', () => {
  let lab: Lab
  let pod: LabPod
  beforeAll(async () => {
    lab = await openBareLab(await prepareLab({}), ['debian/networkmanager'])
    await serve(lab, { netns: 'outside', port: 90 }, 'outside')
    pod = await attach(lab, conf, 'pod')
    await must(lab, `bash ${file('lab/networkmanager-start.sh')} ${lab.dir}`)
  })
  afterAll(async () => {
    await lab?.close()
  })

  /** The states of the bridge and the port. */
  async function states(): Promise<readonly string[]> {
    const listed = (await must(lab, 'nmcli -t -f DEVICE,STATE device')).split('\n').map((line) => line.split(':'))
    return ['cni0', pod.hostLink].map((name) => listed.find(([device]) => device === name)?.[1] ?? '')
  }
  const reached = () => answersFromOutside(lab, 'pod')

  it('sets a port anew when told to connect it, which CHECK says', async () => {
    expect(await states()).not.toContain('unmanaged')
    expect([await check(lab, pod), await reached()]).toEqual(['', ['outside', 'outside']])
    await lab.run('nmcli', ['--wait', '1', 'device', 'connect', pod.hostLink])
    const said = `hairpin of ${pod.hostLink} is off, not on`
    await vi.waitFor(async () => expect(await check(lab, pod)).toContain(said), { timeout: 30_000, interval: 200 })
  })

  it('lets go of all with the file of conf-examples/node, restore heals, and new pods are left alone', async () => {
    await must(lab, `cp ${file('../../conf-examples/node/trestle-networkmanager.conf')} /etc/NetworkManager/conf.d`)
    await must(lab, 'nmcli general reload conf')
    await vi.waitFor(async () => expect(await states()).toEqual(['unmanaged', 'unmanaged']), { timeout: 30_000 })
    await must(lab, '/opt/cni/bin/trestle restore')
    expect([await check(lab, pod), await reached()]).toEqual(['', ['outside', 'outside']])
    const next = await attach(lab, conf, 'next')
    // It is reported of the link, and then knows it.
    const shown = async () =>
      (await lab.run('nmcli', `-t -g GENERAL.STATE device show ${next.hostLink}`.split(' '))).stdout
    await vi.waitFor(async () => expect(await shown()).toContain('unmanaged'), { timeout: 30_000, interval: 200 })
    expect(await check(lab, next)).toBe('')
  })
})
