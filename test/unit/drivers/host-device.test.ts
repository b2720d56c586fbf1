// SPDX-License-Identifier: Apache-2.0
// mode host-device: devices that no pod can have, and the way home from wherever a look finds the device.

import { describe, expect, it } from 'vitest'
import { opsOf } from '../../../src/drivers/attachment.ts'
import type { Device } from '../../../src/drivers/driver.ts'
import { homecomingOf } from '../../../src/drivers/host-device.ts'
import { temporaryLinkName } from '../../../src/drivers/names.ts'
import { type DeviceSpec, emptySpec } from '../../../src/drivers/spec.ts'
import { toBatch } from '../../../src/kernel/batch.ts'
import type { ObservedLink } from '../../../src/kernel/observed.ts'
import { id, type Json, linkOf, specOf } from '../call.ts'

const card = linkOf('up0', { mac: '02:00:00:00:00:09', alias: 'left' })
const lease = { addresses: [], routes: [] }
const made = (more: Json = {}, device: object = {}) =>
  specOf(
    { mode: 'host-device', device: 'up0', ...more },
    { lease, device: { name: 'up0', link: card, ...device } as Device },
  )

describe('a device', () => {
  it('keeps its MAC and MTU, and the record has what it was', () => {
    const { pod, device, tuning } = made()
    expect({ pod, device, tuning }).toEqual({
      pod: { name: 'eth0', mac: card.mac, mtu: 1500 },
      device: { name: 'up0', mac: card.mac, mtu: 1500, up: true, alias: 'left' },
      tuning: undefined,
    })
  })

  it('gets the MAC and MTU that are asked for, which are put back', () => {
    const { pod, tuning } = made({ mtu: 1400, runtimeConfig: { mac: '0a:00:00:00:00:42' } })
    expect(pod).toEqual({ name: 'eth0', mac: '0a:00:00:00:00:42', mtu: 1400 })
    expect(tuning).toMatchObject({
      settings: { mac: '0a:00:00:00:00:42', mtu: 1400 },
      before: { mac: card.mac, mtu: 1500 },
    })
  })

  it.each<[string, object, string]>([
    ['loopback', { link: { ...card, name: 'lo' } }, 'lo is the loopback interface'],
    ['the uplink', { isUplink: true }, 'up0 has the default route of the node'],
    ['a port', { link: { ...card, master: 'br0' } }, 'up0 is a port of br0'],
    ['what carries a VLAN', { carries: ['up0.5'] }, 'up0 carries up0.5, which would go with it'],
    ['the end of a pod', { link: { ...card, name: 'veth0123456789a' } }, 'is the end of a pod of trestle'],
    ['a device with two links', { several: ['up0', 'up1'] }, 'up0 has several interfaces: up0, up1'],
    ['no device', { link: undefined }, 'device: the node has no interface for up0'],
  ])('is not %s', (_, device, message) => {
    expect(() => made({}, device)).toThrow(message)
  })

  it('with a driver for programs is in no pod: there is nothing to make, and nothing to set', () => {
    const dpdk = { link: undefined, driver: 'vfio-pci' }
    const spec = made({}, dpdk)
    expect([opsOf(spec), spec.pod]).toEqual([[], undefined])
    for (const more of [{ tuning: { promisc: true } }, { sbr: {} }, { runtimeConfig: { mac: '0a:00:00:00:00:42' } }])
      expect(() => made(more, dpdk), JSON.stringify(more)).toThrow('has the driver vfio-pci and no interface')
  })
})

describe('the way home', () => {
  const { device: own } = made() as { device: DeviceSpec }
  const virtual: DeviceSpec = { ...own, kind: 'veth' }
  const inPod: ObservedLink = { ...card, name: 'eth0', alias: 'up0' }
  const namespace = (...links: readonly ObservedLink[]) => new Map(links.map((link) => [link.name, link]))
  interface Around {
    readonly host: ReadonlyMap<string, ObservedLink>
    readonly pod?: ReadonlyMap<string, ObservedLink>
  }
  const home = ({ host, pod }: Around, device = own) => {
    const { ops, ...rest } = homecomingOf({ ...emptySpec(id, 'host-device'), device }, host, pod)
    return { text: ops.map((op) => `${op.place}: ${toBatch([op]).texts.join('')}`).join(''), ...rest }
  }
  const returned = (...first: readonly string[]) =>
    [
      ...first.map((line) => `pod: link set dev ${line}\n`),
      'pod: link set dev up0 netns /proc/self/fd/4 name up0 alias left\n',
      'host: link set dev up0 up\n',
    ].join('')

  it('is by its alias, whatever the pod calls it, with MAC and MTU as they were', () => {
    const renamed = { ...inPod, name: 'mine', mac: '0a:00:00:00:00:09', mtu: 1300 }
    expect(home({ host: new Map(), pod: namespace(renamed) }).text).toBe(
      returned(`mine down address ${card.mac} mtu 1500`, 'mine name up0 alias up0'),
    )
  })

  it('is by its name where the pod took the alias, also the one of an ADD that was cut short', () => {
    for (const name of ['eth0', temporaryLinkName(id)]) {
      const { text } = home({ host: new Map(), pod: namespace({ ...card, name, alias: 'x', up: false }) })
      expect(text).toBe(returned(`${name} name up0 alias x`))
    }
  })

  it('is by its number where the pod gave it a name that no batch carries', () => {
    const { text } = home({ host: new Map(), pod: namespace({ ...inPod, name: '#\\"', index: 7, up: false }) })
    expect(text).toBe(returned('if7 name up0 alias up0'))
  })

  it('is not taken by a link that the pod made', () => {
    const fake = { ...inPod, kind: 'dummy' }
    expect(home({ host: new Map(), pod: namespace(fake) })).toMatchObject({ text: '', isAwaited: false })
  })

  it('is held up by another link of its name on the host, which is left alone', () => {
    for (const other of [card, { ...card, up: false }, { ...card, kind: 'dummy' }])
      expect(home({ host: namespace(other), pod: namespace(inPod) })).toEqual({
        text: '',
        isStuck: true,
        missing: expect.stringContaining(
          'up0 is in the pod still, as eth0: the host has another interface of its name',
        ),
      })
  })

  it('begins on the host where the kernel brought it there under another name', () => {
    const stray = { ...inPod, name: 'dev7', up: false }
    expect(home({ host: namespace(stray) }).text).toBe(
      'host: link set dev dev7 name up0 alias left\nhost: link set dev up0 up\n',
    )
  })

  it('is over where the host has it, but for a link that is down', () => {
    expect(home({ host: namespace(card) })).toEqual({ text: '' })
    const isDown = { ...card, up: false }
    expect(home({ host: namespace(isDown) }).text).toBe('host: link set dev up0 up\n')
    const texts = [card.mac, '0a:00:00:00:00:99'].map(
      (mac) => home({ host: namespace({ ...isDown, kind: 'veth', mac }) }, virtual).text,
    )
    expect(texts).toEqual(['host: link set dev up0 up\n', ''])
  })

  it('is waited for of a device of the machine alone, and says what became of it', () => {
    expect(home({ host: new Map() })).toMatchObject({ isAwaited: true, missing: expect.stringContaining('not back') })
    expect(home({ host: new Map() }, virtual)).toMatchObject({
      isAwaited: false,
      missing: 'up0 is gone: a link of kind veth is destroyed with the namespace that it is in',
    })
  })
})
