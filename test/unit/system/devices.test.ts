// SPDX-License-Identifier: Apache-2.0
// Which link a device below /sys means: in a directory with files and links as the kernel has them there.

import { mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { DeviceQuery } from '../../../src-before/config/net-conf.ts'
import { linksOfDevice, linksOfMac, userspaceDriver } from '../../../src-before/system/kernel/devices.ts'
import { madeUpDevice } from '../../support/golden.ts'

let sys: string

const root = 'devices/pci0000:00'
const files = [
  `${root}/0000:00:03.0/net/ens3`,
  `${root}/0000:00:04.0/virtio1/net/ens4`,
  `${root}/0000:00:05.0/net/two0`,
  `${root}/0000:00:05.0/net/two1`,
  `${root}/0000:00:06.0/vfio-dev`,
  `${root}/0000:00:03.0/mlx5_core.sf.4/net/sf4`,
  'class/net',
  'bus/pci/drivers/vfio-pci',
  'bus/pci/drivers/e1000e',
]
const links = [
  ...['03', '04', '05', '06'].map((slot) => [
    `bus/pci/devices/0000:00:${slot}.0`,
    `../../../${root}/0000:00:${slot}.0`,
  ]),
  [`${root}/0000:00:06.0/driver`, '../../../bus/pci/drivers/vfio-pci'],
  [`${root}/0000:00:03.0/driver`, '../../../bus/pci/drivers/e1000e'],
  ['bus/auxiliary/devices/mlx5_core.sf.4', `../../../${root}/0000:00:03.0/mlx5_core.sf.4`],
  // Links in sysfs lead out of the devices: of the bus that one is on, and of a class.
  [`${root}/0000:00:03.0/subsystem`, '../../../bus/pci'],
  ['bus/pci/devices/evil', '../../../class'],
] as const

beforeAll(() => {
  sys = mkdtempSync(join(tmpdir(), 'trestle-sys-'))
  for (const file of files) mkdirSync(join(sys, file), { recursive: true })
  for (const [name = '', target = ''] of links) {
    mkdirSync(dirname(join(sys, name)), { recursive: true })
    symlinkSync(target, join(sys, name))
  }
})

afterAll(() => rmSync(sys, { recursive: true }))

it.each<[string, DeviceQuery['key'], string, readonly string[]]>([
  ['a PCI address', 'pciBusID', '0000:00:03.0', ['ens3']],
  ['the PCI address of a virtio device', 'pciBusID', '0000:00:04.0', ['ens4']],
  ['a device with two links', 'pciBusID', '0000:00:05.0', ['two0', 'two1']],
  ['a PCI address that is not there', 'pciBusID', '0000:00:1f.0', []],
  ['what a runtime allocated, a PCI address', 'deviceID', '0000:00:03.0', ['ens3']],
  ['what a runtime allocated, on the auxiliary bus', 'deviceID', 'mlx5_core.sf.4', ['sf4']],
  ['a name of the auxiliary bus as a PCI address', 'pciBusID', 'mlx5_core.sf.4', []],
  ['a path', 'kernelpath', '/sys/devices/pci0000:00/0000:00:03.0', ['ens3']],
  ['a path to the PCI device of a virtio device', 'kernelpath', '/sys/devices/pci0000:00/0000:00:04.0', ['ens4']],
  ['a path to the virtio device', 'kernelpath', '/sys/devices/pci0000:00/0000:00:04.0/virtio1', ['ens4']],
  ['a path that is not there', 'kernelpath', '/sys/devices/pci0000:00/0000:00:09.0', []],
  ['a path that leaves the devices', 'kernelpath', '/sys/devices/pci0000:00/0000:00:03.0/subsystem', []],
  ['an entry of the bus that leaves the devices', 'deviceID', 'evil', []],
])('%s', (_, key, value, expected) => {
  expect(linksOfDevice({ key, value }, sys)).toEqual(expected)
})

it('tells a device that a program drives, by its address alone', () => {
  const of = (key: DeviceQuery['key'], value: string) => userspaceDriver({ key, value }, sys)
  expect([of('pciBusID', '0000:00:06.0'), of('deviceID', '0000:00:06.0')]).toEqual(['vfio-pci', 'vfio-pci'])
  expect([of('pciBusID', '0000:00:03.0'), of('pciBusID', '0000:00:04.0'), of('pciBusID', '0000:00:1f.0')]).toEqual([
    undefined,
    undefined,
    undefined,
  ])
  expect(of('kernelpath', '/sys/devices/pci0000:00/0000:00:06.0')).toBeUndefined()
})

it('a MAC means the device, not what is on it, and several devices where they have the same', () => {
  const mac = '0a:00:00:00:00:07'
  const link = (name: string, kind?: string) =>
    [name, { ...madeUpDevice.link, name, mac, ...(kind && { kind }) }] as const
  const bond = new Map([link('eth7'), link('eth7.5', 'vlan'), link('br7', 'bridge')])
  expect(linksOfMac(bond, mac)).toEqual(['eth7'])
  expect(linksOfMac(new Map([link('veth7', 'veth')]), mac)).toEqual(['veth7'])
  expect(linksOfMac(new Map([link('a'), link('b')]), mac)).toEqual(['a', 'b'])
  expect(linksOfMac(bond, '0a:00:00:00:00:08')).toEqual([])
})
