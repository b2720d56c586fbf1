// SPDX-License-Identifier: Apache-2.0
// CHECK of a list of trestle and the upstream tuning plugin, through libcni: what the later plugin sets and
// does not tell in its result is known from libcni's memory of the list.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { missingCnitool, openRuntime, type Runtime } from '../../support/cnitool.ts'
import { type Host, openHost } from '../../support/host.ts'

const missing = missingCnitool(['tuning'])
if (missing !== undefined) console.warn(missing)

const network = 'listed'
const ours = { type: 'trestle', podcidr: '10.240.0.0/24' }

let host: Host
let runtime: Runtime
beforeEach(() => {
  host = openHost()
  runtime = openRuntime(host, network)
})
afterEach(() => {
  runtime.close()
  host.close()
})

function attachListed(first: object, behind: object): string {
  runtime.write({ cniVersion: '1.0.0', name: network, plugins: [first, { type: 'tuning', ...behind }] })
  const netns = host.pod('listed')
  const added = runtime.tool('add', netns)
  expect(added.code, added.stderr).toBe(0)
  return netns
}

/** What doctor finds between state and kernel. */
function doctor(): { readonly exitCode: number; readonly findings: readonly object[] } {
  return JSON.parse(runtime.command('doctor', '--only', 'network', '--no-runtime', '-o', 'json').stdout)
}

describe.skipIf(missing !== undefined)(`CHECK of a list${missing === undefined ? '' : ` (${missing})`}`, () => {
  it.each([
    ['its own', ours, { mtu: 1400 }],
    ['its own in args', ours, { args: { cni: { mtu: 1400 } } }],
    ['another than that of tuning in trestle', { ...ours, tuning: { mtu: 1450 } }, { mtu: 1400 }],
  ])('takes the MTU of a later plugin, %s, and no third', (_, first, behind) => {
    const netns = attachListed(first, behind)
    const checked = runtime.tool('check', netns)
    expect(checked.code, checked.stderr).toBe(0)
    expect(doctor()).toMatchObject({ exitCode: 0, findings: [] })
    host.inPod(netns, 'ip', ['link', 'set', 'eth0', 'mtu', '1300'])
    expect(runtime.tool('check', netns).stderr).toContain('MTU of eth0 is 1300, not 1400')
    expect(doctor().findings).toMatchObject([{ id: 'pod-differs', seen: 'MTU of eth0 is 1300, not 1400' }])
    expect(runtime.tool('del', netns).code).toBe(0)
  })

  it('keeps to its own where the later plugin sets none', () => {
    const netns = attachListed(ours, { sysctl: { 'net.core.somaxconn': '200' } })
    expect(runtime.tool('check', netns).code).toBe(0)
    host.inPod(netns, 'ip', ['link', 'set', 'eth0', 'mtu', '1400'])
    expect(runtime.tool('check', netns).stderr).toContain('MTU of eth0 is 1400, not 1500')
    expect(runtime.tool('del', netns).code).toBe(0)
  })
})
