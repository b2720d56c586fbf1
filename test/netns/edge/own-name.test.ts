// SPDX-License-Identifier: Apache-2.0
// The executable under another name, beside the one that is there: a canary, a rollback. Its own name is its `type`.

import { copyFileSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { expectNothingLeft } from '../../support/allowance.ts'
import { type Host, openHost, snapshot, trestle } from '../../support/host.ts'
import { expectError, expectSilent } from '../../support/outcome.ts'
import { addressesOf, attach, interfacesOf, later, netConf, type Pod } from '../../support/traffic/pods.ts'

const bin = mkdtempSync(join(tmpdir(), 'trestle-bin-'))
beforeAll(() => {
  symlinkSync(trestle, join(bin, 'trestle-v2'))
  copyFileSync(trestle, join(bin, 'pod-network'))
})
afterAll(() => rmSync(bin, { recursive: true, force: true }))

let host: Host
let before: ReturnType<typeof snapshot>
beforeEach(() => {
  host = openHost()
  before = snapshot(host)
})
afterEach(() => host.close())

describe.each(['trestle-v2', 'pod-network'])('an executable called %s', (type) => {
  const file = join(bin, type)
  const portMappings = [{ hostPort: 8080, containerPort: 80, protocol: 'tcp' }]
  const conf = netConf({ type, runtimeConfig: { portMappings } })

  it('is a whole plugin under its own name, and shares state with the one called trestle', () => {
    const canary = attach(host, conf, { id: 'canary', file })
    expect(interfacesOf(host, canary.netns)).toEqual(['eth0'])
    const stable = attach(host, netConf(), { id: 'stable' })
    expect([canary.address, stable.address]).toEqual(['10.240.0.2', '10.240.0.3'])
    expectError(host.cni('ADD', conf, { id: 'again', file, netns: host.pod('again') }), 104, '8080')
    expectSilent(host.cni('STATUS', conf, { file }))
    // Rolled back: the other one takes over what this one made, and the other way round.
    expectSilent(
      later(host, 'CHECK', { conf: { ...conf, type: 'trestle' }, pod: { ...canary, call: withoutFile(canary) } }),
    )
    expectSilent(later(host, 'CHECK', { conf: netConf({ type }), pod: { ...stable, call: { ...stable.call, file } } }))
    expectSilent(host.cni('DEL', { ...conf, type: 'trestle' }, withoutFile(canary)))
    expectSilent(host.cni('DEL', conf, { ...stable.call, file }))
    expectNothingLeft(host, before)
  })

  it('gives addresses to another plugin that names it in ipam.type', () => {
    const delegating = { ...conf, type: 'macvlan', podcidr: undefined, ipam: { type, subnet: '10.240.0.0/24' } }
    const pod = attach(host, delegating, { file })
    expect(pod.result.interfaces).toBeUndefined()
    expect([pod.address, interfacesOf(host, pod.netns)]).toEqual(['10.240.0.2', []])
    expectSilent(host.cni('DEL', delegating, pod.call))
    const own = { ...conf, podcidr: undefined, isDefaultGateway: true, ipam: { type, subnet: '10.240.0.0/24' } }
    expect(addressesOf(host, attach(host, own, { id: 'own', file }).netns)).toEqual(['10.240.0.3/24'])
  })

  it('does not take the name of yet another one for its own', () => {
    expectError(host.cni('ADD', netConf({ type: 'trestle-v3' }), { file, netns: host.pod('a') }), 7, 'delegates to us')
  })
})

function withoutFile({ call: { file: _, ...call } }: Pod): Pod['call'] {
  return call
}
