// SPDX-License-Identifier: Apache-2.0
// Names and MACs derived from an attachment: what the kernel takes, the same every time, and never the
// same for two attachments.

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { AttachmentKey } from '../../../src-before/model/attachment.ts'
import {
  aliasOf,
  bridgeMac,
  hostLinkMac,
  hostLinkName,
  ifbName,
  isPodLinkName,
  networkDirName,
  podLinkMac,
  recordFileName,
} from '../../../src-before/model/names.ts'

/** What the protocol edge lets through: cni/pkg/utils, ValidateContainerID, ValidateInterfaceName, ValidateNetworkName. */
const identifier = fc.stringMatching(/^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,199}$/)
const keys: fc.Arbitrary<AttachmentKey> = fc.record({
  network: identifier,
  containerId: identifier,
  ifName: fc.stringMatching(/^[a-zA-Z0-9_.@!-]{1,15}$/).filter((name) => name !== '.' && name !== '..'),
  role: fc.constantFrom('main', 'chained', 'ipam'),
})
const sameInterface = (a: AttachmentKey, b: AttachmentKey) =>
  a.network === b.network && a.containerId === b.containerId && a.ifName === b.ifName

describe('names', () => {
  it('of links are at most 15 bytes of letters and digits, with the prefix that network managers leave alone', () => {
    fc.assert(
      fc.property(keys, (key) => {
        expect(hostLinkName(key)).toMatch(/^veth[0-9a-f]{11}$/)
        expect([hostLinkName(key), ifbName(key), 'veth0', 'ifb0', 'eth0'].filter(isPodLinkName)).toHaveLength(2)
        expect(ifbName(key)).toMatch(/^[a-z0-9]{1,15}$/)
        expect(ifbName(key)).not.toBe(hostLinkName(key))
      }),
    )
  })

  it('are the same every time, and do not depend on the order of keys in an object', () => {
    fc.assert(
      fc.property(keys, ({ network, containerId, ifName, role }) => {
        const [a, b] = [
          { network, containerId, ifName, role },
          { role, ifName, containerId, network },
        ]
        for (const name of [hostLinkName, ifbName, hostLinkMac, aliasOf, recordFileName]) expect(name(a)).toBe(name(b))
      }),
    )
    const key = { network: 'n', containerId: 'c', ifName: 'eth0', role: 'main' } as const
    expect(hostLinkName(key)).toBe('vethc703f39ea5f')
  })

  it('of different attachments are different, also where the parts run together', () => {
    fc.assert(
      fc.property(keys, keys, (a, b) => {
        fc.pre(!sameInterface(a, b))
        expect(hostLinkName(a)).not.toBe(hostLinkName(b))
        expect(ifbName(a)).not.toBe(ifbName(b))
        expect(recordFileName({ ...a, network: 'n' }) === recordFileName({ ...b, network: 'n' })).toBe(
          a.containerId === b.containerId && a.ifName === b.ifName && a.role === b.role,
        )
      }),
      { numRuns: 1000 },
    )
    const close = [
      { network: 'ab', containerId: 'c', ifName: 'd', role: 'main' },
      { network: 'a', containerId: 'bc', ifName: 'd', role: 'main' },
      { network: 'a', containerId: 'b', ifName: 'cd', role: 'main' },
    ] as const
    expect(new Set(close.map(hostLinkName)).size).toBe(close.length)
    expect(new Set(close.map(hostLinkMac)).size).toBe(close.length)
  })

  it('of files are one path component, for ids and networks of any length', () => {
    fc.assert(
      fc.property(keys, fc.integer({ min: 1, max: 5000 }), (key, times) => {
        const long = { ...key, containerId: key.containerId.repeat(times).slice(0, 5000) }
        for (const name of [recordFileName(long), networkDirName(long.containerId)]) {
          expect(name).toMatch(/^[^/\0]+$/)
          expect(name.startsWith('.')).toBe(false)
          expect(name.length).toBeLessThanOrEqual(255)
        }
        expect(aliasOf(long).length).toBeLessThanOrEqual(255)
      }),
    )
  })
})

describe('MACs', () => {
  const octets = (mac: string) => mac.split(':').map((octet) => Number.parseInt(octet, 16))

  it('are locally administered and unicast', () => {
    fc.assert(
      fc.property(keys, fc.ipV4(), fc.ipV6(), (key, v4, v6) => {
        const macs = [
          hostLinkMac(key),
          podLinkMac(key, undefined),
          podLinkMac(key, `${v4}/24`),
          podLinkMac(key, `${v6}/64`),
          bridgeMac('cni0', key.containerId),
        ]
        for (const mac of macs) {
          expect(mac).toMatch(/^([0-9a-f]{2}:){5}[0-9a-f]{2}$/)
          expect((octets(mac)[0] ?? 0) & 3).toBe(2)
        }
      }),
    )
  })

  it('of pods follow an IPv4 address one to one', () => {
    fc.assert(
      fc.property(keys, keys, fc.ipV4(), (a, b, address) => {
        const mac = podLinkMac(a, `${address}/16`)
        expect(podLinkMac(b, `${address}/24`)).toBe(mac)
        expect(octets(mac).slice(2).join('.')).toBe(address)
      }),
    )
  })
})
