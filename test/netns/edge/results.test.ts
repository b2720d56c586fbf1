// SPDX-License-Identifier: Apache-2.0
// The result of ADD in every version of the protocol: exactly the keys that version has.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { expectNothingLeft, expectUntouched } from '../../support/allowance.ts'
import { type Host, openHost, snapshot } from '../../support/host.ts'
import { expectError, expectOneDocument, expectSilent } from '../../support/outcome.ts'
import { addressesOf, inPodJson, netConf, onHostJson } from '../../support/traffic/pods.ts'

const pairVersions = ['0.1.0', '0.2.0']
const listVersions = ['0.3.0', '0.3.1', '0.4.0', '1.0.0', '1.1.0']
const mac = expect.stringMatching(/^[0-9a-f]{2}(:[0-9a-f]{2}){5}$/)

interface Family {
  readonly subnet: string
  readonly address: string
  readonly gateway: string
  readonly dst: string
  readonly version: string
}
const v4: Family = {
  subnet: '10.240.0.0/24',
  address: '10.240.0.2/24',
  gateway: '10.240.0.1',
  dst: '0.0.0.0/0',
  version: '4',
}
const v6: Family = {
  subnet: 'fd00:240::/64',
  address: 'fd00:240::2/64',
  gateway: 'fd00:240::1',
  dst: '::/0',
  version: '6',
}

const layouts: readonly [string, readonly Family[]][] = [
  ['IPv4', [v4]],
  ['IPv6', [v6]],
  ['dual stack', [v4, v6]],
  ['layer 2', []],
]
const matrix = listVersions.flatMap((version) => layouts.map(([name, families]) => [version, name, families] as const))
const pairMatrix = pairVersions.flatMap((version) =>
  layouts.filter(([, families]) => families.length > 0).map(([name, families]) => [version, name, families] as const),
)

function confOf(cniVersion: string | undefined, families: readonly Family[]) {
  const podcidr = families.length === 0 ? undefined : families.map((family) => family.subnet)
  return netConf({ cniVersion, podcidr })
}

/** The result as the version has it; `netns` is the pod's. */
function listResult(version: string, families: readonly Family[], netns: string) {
  const isNew = version.startsWith('1.')
  const mtu = isNew ? { mtu: 1500 } : {}
  const ips = families.map(({ address, gateway, version: family }) => ({
    ...(isNew ? {} : { version: family }),
    address,
    gateway,
    interface: 2,
  }))
  const routes = families.map(({ dst, gateway }) => ({ dst, gw: gateway }))
  return {
    cniVersion: version,
    interfaces: [
      { name: 'cni0', mac, ...mtu },
      { name: expect.stringMatching(/^veth[0-9a-f]{11}$/), mac, ...mtu },
      { name: 'eth0', mac, ...mtu, sandbox: netns },
    ],
    ...(ips.length > 0 ? { ips, routes } : {}),
    ...(isNew ? {} : { dns: {} }),
  }
}

describe('the result of ADD', () => {
  let host: Host
  let before: ReturnType<typeof snapshot>
  beforeEach(() => {
    host = openHost()
    before = snapshot(host)
  })
  afterEach(() => host.close())

  it.each(matrix)('of version %s for %s', async (version, _, families) => {
    const netns = host.pod('a')
    const conf = confOf(version, families)
    const added = host.cni('ADD', conf, { netns })
    expectOneDocument(added)
    expect(added.json).toEqual(listResult(version, families, netns))
    expect(addressesOf(host, netns)).toEqual(families.map((family) => family.address))
    for (const entry of added.json?.interfaces.slice(1) ?? []) {
      const isPod = entry.sandbox !== undefined
      const words = ['link', 'show', entry.name]
      const shown = () => (isPod ? inPodJson(host, netns, words) : onHostJson(host, words))[0]
      expect(shown()).toMatchObject({ address: entry.mac, mtu: 1500 })
      // It is reported when the kernel comes to it (net/core/link_watch.c).
      await expect.poll(() => shown()?.operstate, { timeout: 20_000 }).toBe('UP')
    }
    const check = { ...conf, prevResult: added.json }
    if (version >= '0.4.0') expectSilent(host.cni('CHECK', check, { netns }))
    expectSilent(host.cni('DEL', check, { netns }))
    expect(inPodJson(host, netns, ['link', 'show'])).toHaveLength(1)
    expectNothingLeft(host, before)
  })

  it.each(pairMatrix)('of version %s for %s', (version, _, families) => {
    const netns = host.pod('a')
    const conf = confOf(version, families)
    const added = host.cni('ADD', conf, { netns })
    expectOneDocument(added)
    const entries = families.map(({ version: family, address, gateway, dst }) => [
      `ip${family}`,
      { ip: address, gateway, routes: [{ dst, gw: gateway }] },
    ])
    expect(added.json).toEqual({ cniVersion: version, ...Object.fromEntries(entries), dns: {} })
    expect(addressesOf(host, netns)).toEqual(families.map((family) => family.address))
    expectSilent(host.cni('DEL', conf, { netns }))
    expectNothingLeft(host, before)
  })

  it('is of version 0.1.0 where the configuration names none', () => {
    const added = host.cni('ADD', confOf(undefined, [v4]), { netns: host.pod('a') })
    expect(added.json).toMatchObject({ cniVersion: '0.1.0', ip4: { ip: '10.240.0.2/24' } })
  })

  it.each(pairVersions)('of version %s cannot be without an address: refused before anything is touched', (version) => {
    const refused = host.cni('ADD', confOf(version, []), { netns: host.pod('a') })
    expectError(refused, 7, 'no valid IP addresses')
    expect(refused.json?.cniVersion).toBe(version)
    expectUntouched(host, before)
  })

  it.each(pairVersions)('of version %s cannot hold two of a family: refused before anything is touched', (version) => {
    const ranges = [[{ subnet: '10.1.0.0/24' }], [{ subnet: '10.2.0.0/24' }]]
    const conf = netConf({ cniVersion: version, podcidr: undefined, ipam: { type: 'host-local', ranges } })
    expectError(host.cni('ADD', conf, { netns: host.pod('a') }), 7, 'more than 1 address per family')
    expectUntouched(host, before)
  })

  it.each(['bridge', 'ptp'])('in mode %s comes after what prevResult has, all of it', (mode) => {
    const prevResult = {
      cniVersion: '1.1.0',
      interfaces: [{ name: 'other0', mac: '0a:00:00:00:00:01', sandbox: '/run/netns/other' }],
      ips: [{ address: '192.0.2.5/24', interface: 0 }, { address: '192.0.2.6/24' }],
      routes: [{ dst: '192.0.2.128/25' }],
      dns: { nameservers: ['192.0.2.53'] },
      more: { kept: true },
    }
    const netns = host.pod('a')
    const conf = { ...confOf('1.1.0', [v4]), mode }
    const own = host.cni('ADD', conf, { netns, id: 'own', ifName: 'own0' }).json
    const added = host.cni('ADD', { ...conf, prevResult }, { netns })
    expectOneDocument(added)
    expect(added.json).toMatchObject({
      more: { kept: true },
      dns: prevResult.dns,
      interfaces: [prevResult.interfaces[0], ...(own?.interfaces ?? []).map(() => ({ mtu: 1500 }))],
      ips: [...prevResult.ips, { address: '10.240.0.3/24', interface: own?.interfaces.length }],
    })
    expect(added.json?.routes[0]).toEqual(prevResult.routes[0])
    expectSilent(host.cni('CHECK', { ...conf, prevResult: added.json }, { netns }))
  })

  it('keeps route mtu, advmss, priority, table and scope, and dns', () => {
    const dns = { nameservers: ['10.1.2.3'], domain: 'x.test', search: ['y.test'], options: ['ndots:5'] }
    const routes = [{ dst: '10.9.0.0/16', mtu: 1300, advmss: 1200, priority: 50, table: 100, scope: 0 }]
    const conf = netConf({
      podcidr: undefined,
      ipam: { type: 'trestle', subnet: v4.subnet, routes },
      isGateway: true,
      dns,
    })
    const added = host.cni('ADD', conf, { netns: host.pod('a') })
    expect(added.json).toMatchObject({ routes, dns })
  })
})
