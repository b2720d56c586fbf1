// SPDX-License-Identifier: Apache-2.0
// A real systemd-networkd beside trestle, with a profile for every link, as some images have it: what it does to pods, what
// heals them, and that the file of conf-examples/node keeps it from doing so.
import { copyFile, mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, describe, expect, it } from 'vitest'
import { answersFromOutside, asksOnce, attach, check, type LabPod, must, serve, uplink } from './lab/calls.ts'
import { type Lab, missingParts, openBareLab, prepareLab } from './lab/lab.ts'

const missing = missingParts(['debian/networkd'], 'networkd')

const conf = {
  cniVersion: '1.1.0',
  name: 'pods',
  type: 'trestle',
  podcidr: ['10.94.0.0/24', 'fd00:10:94::/64'],
  bandwidth: { egressRate: 100_000_000 },
}
const everyLink = '[Match]\nName=*\n\n[Network]\nLinkLocalAddressing=no\n'
const uplinkLines = [
  '[Match]\nName=up0\n\n[Network]\nLinkLocalAddressing=no\nIPv6AcceptRA=no',
  ...[`${uplink.node[0]}/24`, `${uplink.node[1]}/64`].map((address) => `Address=${address}`),
  ...uplink.outside.map((gateway) => `Gateway=${gateway}`),
]
const file = (name: string) => fileURLToPath(new URL(name, import.meta.url))

describe.skipIf(missing.length > 0)('systemd-networkd with a profile for every link', () => {
  let lab: Lab
  let pod: LabPod
  afterEach(async () => {
    await lab?.close()
  })

  /** A pod, then networkd; `isReported`: with the file of conf-examples/node. */
  async function open(isReported: boolean): Promise<void> {
    lab = await openBareLab(await prepareLab({}), ['debian/networkd'])
    await serve(lab, { netns: 'outside', port: 90 }, 'outside')
    pod = await attach(lab, conf, 'pod')
    const etc = join(lab.dir, 'systemd')
    await mkdir(join(etc, 'network'), { recursive: true })
    await writeFile(join(etc, 'network/50-uplink.network'), `${uplinkLines.join('\n')}\n`)
    await writeFile(join(etc, 'network/90-all.network'), everyLink)
    if (isReported) await copyFile('conf-examples/node/05-trestle.network', join(etc, 'network/05-trestle.network'))
    await must(lab, `cp -r ${etc} /run/systemd`)
    await must(lab, `bash ${file('lab/networkd-start.sh')} ${lab.dir}`)
  }
  const reached = () => answersFromOutside(lab, 'pod')

  it('takes pods off the bridge, which CHECK says and restore heals', async () => {
    await open(false)
    expect(await answersFromOutside(lab, 'pod', asksOnce)).toEqual(['', ''])
    expect(await check(lab, pod)).toContain(`bridge of ${pod.hostLink} is none, not cni0`)
    await must(lab, '/opt/cni/bin/trestle restore')
    expect(await check(lab, pod)).toBe('')
    // The pod asks for its IPv6 gateway anew.
    expect(await reached()).toEqual(['outside', 'outside'])
  })

  it('leaves them alone with the file of conf-examples/node', async () => {
    await open(true)
    expect(await check(lab, pod)).toBe('')
    expect(await reached()).toEqual(['outside', 'outside'])
  })
})
