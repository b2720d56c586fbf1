// SPDX-License-Identifier: Apache-2.0
// Names and MACs derived from an attachment: what the kernel takes, the same every time, and never the
// same for two attachments.

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { toCidr } from '../../../src/cni/addresses.ts'
import {
  addressMac,
  aliasOf,
  attachmentDigest,
  bridgeMac,
  elementComment,
  hostLinkMac,
  hostLinkName,
  ifbName,
  isPodLinkName,
  linkLocalPrefix,
  networkDigest,
  podLinkMac,
  readAlias,
  shortId,
} from '../../../src/drivers/names.ts'
import type { AttachmentId } from '../../../src/drivers/spec.ts'
import { recordName } from '../../../src/state/layout.ts'

/** What the protocol edge lets through: cni/pkg/utils, ValidateContainerID, ValidateInterfaceName, ValidateNetworkName. */
const identifier = fc.stringMatching(/^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,199}$/)
const keys: fc.Arbitrary<AttachmentId> = fc.record({
  network: identifier,
  containerId: identifier,
  ifName: fc.stringMatching(/^[a-zA-Z0-9_.@!-]{1,15}$/).filter((name) => name !== '.' && name !== '..'),
  role: fc.constantFrom('main', 'chained', 'ipam'),
})
const sameInterface = (a: AttachmentId, b: AttachmentId) =>
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

  it('of different attachments are different, also where the parts run together', () => {
    fc.assert(
      fc.property(keys, keys, (a, b) => {
        fc.pre(!sameInterface(a, b))
        expect(hostLinkName(a)).not.toBe(hostLinkName(b))
        expect(ifbName(a)).not.toBe(ifbName(b))
        expect(recordName({ ...a, network: 'n' }) === recordName({ ...b, network: 'n' })).toBe(
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
        for (const name of [recordName(long), shortId(long.containerId)]) {
          expect(name).toMatch(/^[^/\0]+$/)
          expect(name.startsWith('.')).toBe(false)
          expect(name.length).toBeLessThanOrEqual(255)
        }
        expect(aliasOf(long, ['10.1.0.2', 'fd00::2']).length).toBeLessThanOrEqual(255)
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
          podLinkMac(key),
          addressMac(toCidr(v4)),
          addressMac(toCidr(v6)),
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
      fc.property(fc.ipV4(), (address) => {
        expect(
          octets(addressMac(toCidr(address)))
            .slice(2)
            .join('.'),
        ).toBe(address)
      }),
    )
  })

  it('have the link-local address that the kernel makes of them', () => {
    expect(linkLocalPrefix('02:11:22:33:44:55')).toBe('fe80::11:22ff:fe33:4455/64')
  })
})

describe('an alias', () => {
  const addresses = ['10.1.0.2', 'fd00::2']

  it('says whose the link is and which addresses the pod has, and is read back', () => {
    fc.assert(
      fc.property(keys, (key) => {
        fc.pre(key.role !== 'ipam' && key.ifName.length > 0)
        const alias = aliasOf(key, addresses)
        const short = { ...key, network: shortId(key.network), containerId: shortId(key.containerId) }
        expect(readAlias(hostLinkName(key), alias)).toEqual({ id: short, addresses })
        expect(readAlias(ifbName(key), alias)?.id).toEqual(short)
      }),
    )
  })

  it.each([
    ['of another link', 'veth0123456789a', 'trestle:net/c/eth0 10.1.0.2'],
    ['of nobody', hostLinkName({ network: 'net', containerId: 'c', ifName: 'eth0' }), 'somebody'],
    ['that is absent', hostLinkName({ network: 'net', containerId: 'c', ifName: 'eth0' }), undefined],
  ])('%s is none', (_, name, alias) => {
    expect(readAlias(name, alias)).toBeUndefined()
  })
})

it('a comment is two digests that the kernel takes, and says which network and attachment', () => {
  fc.assert(
    fc.property(keys, (key) => {
      expect(elementComment(key)).toBe(`${networkDigest(key.network)} ${attachmentDigest(key)}`)
      expect(elementComment(key)).toMatch(/^[0-9a-f]{16} [0-9a-f]{16}$/)
      // A record knows long ids only by their short form.
      expect(attachmentDigest({ ...key, containerId: shortId(key.containerId) })).toBe(attachmentDigest(key))
    }),
  )
})
