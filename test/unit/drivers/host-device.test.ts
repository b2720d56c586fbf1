// SPDX-License-Identifier: Apache-2.0
// mode host-device: devices that no pod can have, and the way home from wherever a look finds the device.

import { describe, expect, it } from 'vitest'
import { homecomingOf, hostOps, podOps } from '../../../src-before/drivers/attach.ts'
import type { Around, Device } from '../../../src-before/drivers/driver.ts'
import { interfaceConf } from '../../../src-before/drivers/drivers.ts'
import { buildSpec } from '../../../src-before/drivers/specs.ts'
import { newPodLinkName } from '../../../src-before/model/names.ts'
import type { ObservedLink } from '../../../src-before/model/observed.ts'
import { goldenKey, madeUpDevice, opsText } from '../../support/golden.ts'
import { type Json, read } from '../cni/call.ts'

const card: ObservedLink = { ...madeUpDevice.link, name: 'up0', alias: 'left', txqlen: 1000 }
const made = (more: Json = {}, device: Partial<Device> = {}) =>
  buildSpec({
    key: goldenKey,
    conf: interfaceConf(read({ mode: 'host-device', device: 'up0', ...more })),
    lease: { ips: [], routes: [] },
    mtu: 1500,
    device: { name: 'up0', link: card, isWireless: false, ...device },
  })

describe('a device', () => {
  it('keeps its MAC and MTU, and the record has what it was', () => {
    const { pod, mtu, device, tuning } = made()
    expect({ pod, mtu, device, tuning }).toEqual({
      pod: { name: 'eth0', mac: card.mac },
      mtu: 1500,
      device: { name: 'up0', asked: 'up0', mac: card.mac, mtu: 1500, up: true, alias: 'left' },
      tuning: undefined,
    })
  })

  it('gets the MAC and MTU that are asked for, which are put back', () => {
    const { pod, mtu, tuning } = made({ mtu: 1400, runtimeConfig: { mac: '0a:00:00:00:00:42' } })
    expect([pod?.mac, mtu]).toEqual(['0a:00:00:00:00:42', 1400])
    expect(tuning).toMatchObject({ mac: '0a:00:00:00:00:42', mtu: 1400, before: { mac: card.mac, mtu: 1500 } })
  })

  it('has nothing of an alias that no batch carries', () => {
    expect(made({}, { link: { ...card, alias: 'a#b' } }).device?.alias).toBeUndefined()
  })

  it.each<[string, Partial<Device>, string]>([
    ['loopback', { link: { ...card, name: 'lo' } }, 'lo is the loopback interface'],
    ['the uplink', { isUplink: true }, 'up0 has the default route of the node'],
    ['a port', { link: { ...card, master: 'br0' } }, 'up0 is a port of br0'],
    ['what carries a VLAN', { carries: ['up0.5'] }, 'up0 carries up0.5, which would go with it'],
    ['the end of a pod', { link: { ...card, name: 'veth0123456789a' } }, 'is the end of a pod of trestle'],
    ['a device with two links', { several: ['up0', 'up1'] }, 'up0 has several interfaces: up0, up1'],
    ['no device', { link: undefined as never }, 'device: the node has no interface for up0'],
  ])('is not %s', (_, device, message) => {
    expect(() => made({}, device)).toThrow(message)
  })

  it('with a driver for programs is in no pod: there is nothing to make, and nothing to set', () => {
    const dpdk = { name: '', link: undefined as never, driver: 'vfio-pci' }
    const spec = made({}, dpdk)
    expect([hostOps(spec), podOps(spec), homecomingOf(spec, { host: new Map() })]).toEqual([[], [], { ops: [] }])
    expect(spec.pod).toEqual({ name: 'eth0', mac: '' })
    for (const more of [{ tuning: { promisc: true } }, { sbr: {} }, { runtimeConfig: { mac: '0a:00:00:00:00:42' } }])
      expect(() => made(more, dpdk), JSON.stringify(more)).toThrow('has the driver vfio-pci and no interface')
  })
})

describe('the way home', () => {
  const spec = made()
  const inPod: ObservedLink = { ...card, name: 'eth0', alias: 'up0' }
  const namespace = (...links: readonly ObservedLink[]) => new Map(links.map((link) => [link.name, link]))
  const home = (around: Around, of = spec) => {
    const { ops, ...rest } = homecomingOf(of, around)
    return { text: opsText(ops), ...rest }
  }
  const returned = (from: string) =>
    `ip in pod\n${from}  link set dev up0 netns /proc/self/fd/4 name up0 alias left\nip in host\n  link set dev up0 up\n`

  it('is by its alias, whatever the pod calls it, with MAC and MTU as they were', () => {
    const renamed = { ...inPod, name: 'mine', mac: '0a:00:00:00:00:09', mtu: 1300 }
    const lines = ['mine down', `mine address ${card.mac}`, 'mine mtu 1500', 'mine name up0']
    expect(home({ host: new Map(), pod: namespace(renamed) }).text).toBe(
      returned(lines.map((line) => `  link set dev ${line}\n`).join('')),
    )
  })

  it('is by its name where the pod took the alias, also the one of an ADD that was cut short', () => {
    for (const name of ['eth0', newPodLinkName(goldenKey)]) {
      const { text } = home({ host: new Map(), pod: namespace({ ...card, name, alias: 'x', up: false }) })
      expect(text).toBe(returned(`  link set dev ${name} name up0\n`))
    }
  })

  it('has its own name on the host alone where the pod has another link of that name', () => {
    const other = { ...inPod, name: 'up0', alias: 'x', kind: 'dummy' }
    const { text } = home({ host: new Map(), pod: namespace({ ...inPod, up: false }, other) })
    expect(text).toContain('ip in pod\n  link set dev eth0 netns /proc/self/fd/4 name up0 alias left\n')
  })

  it('is by its number where the pod gave it a name that no batch carries', () => {
    const { text } = home({ host: new Map(), pod: namespace({ ...inPod, name: '#\\"', index: 7, up: false }) })
    expect(text).toBe(returned('  link set dev if7 name up0\n'))
  })

  it('is not taken by a link that the pod made', () => {
    const fake = { ...inPod, kind: 'dummy' }
    expect(home({ host: new Map(), pod: namespace(fake) })).toMatchObject({ text: '', isAwaited: false })
  })

  it('is held up by another link of its name on the host, which is left alone', () => {
    for (const other of [card, { ...card, up: false }, { ...card, kind: 'dummy' }])
      expect(home({ host: namespace(other), pod: namespace(inPod) })).toEqual({
        text: '',
        isHeld: true,
        missing: expect.stringContaining('up0 is in the pod still, as eth0: the host has another interface called up0'),
      })
  })

  it('begins on the host where the kernel brought it there under another name', () => {
    const stray = { ...inPod, name: 'dev7', up: false }
    expect(home({ host: namespace(stray) }).text).toBe(
      'ip in host\n  link set dev dev7 name up0\n  link set dev up0 alias left\n  link set dev up0 up\n',
    )
  })

  it('is over where the host has it, but for a link that is down', () => {
    expect(home({ host: namespace(card) })).toEqual({ text: '' })
    const isDown = { ...card, up: false }
    expect(home({ host: namespace(isDown) }).text).toBe('ip in host\n  link set dev up0 up\n')
    const virtual = made({}, { link: { ...card, kind: 'veth' } })
    const texts = [card.mac, '0a:00:00:00:00:99'].map(
      (mac) => home({ host: namespace({ ...isDown, kind: 'veth', mac }) }, virtual).text,
    )
    expect(texts).toEqual(['ip in host\n  link set dev up0 up\n', ''])
  })

  it('is waited for of a device of the machine alone, and says what became of it', () => {
    expect(home({ host: new Map() })).toMatchObject({ isAwaited: true, missing: expect.stringContaining('not back') })
    const virtual = made({}, { link: { ...card, kind: 'veth' } })
    expect(home({ host: new Map() }, virtual)).toMatchObject({
      isAwaited: false,
      missing: 'up0 is gone: a link of kind veth is destroyed with the namespace that it is in',
    })
  })
})
