// SPDX-License-Identifier: Apache-2.0
// Links of the host that a configuration names: by name, by MAC, and by their place below /sys, where a device of the
// machine has a directory with the names of its links.

import { readdirSync, readlinkSync, realpathSync } from 'node:fs'
import { basename } from 'node:path'
import { CniError, Code } from '../cni/errors.ts'
import { defined } from '../cni/json.ts'
import type { DeviceQuery } from '../config/network-conf.ts'
import type { Device } from '../drivers/driver.ts'
import type { Machine } from '../process/machine.ts'
import { lookAtHost } from './look.ts'
import type { ObservedLink } from './observed.ts'
import { isOwnSysfs, isUplink, linkExists, uplinkName } from './proc.ts'

/** Drivers that leave a device to a program (DPDK), as the reference host-device plugin has them. */
const programDrivers = ['vfio-pci', 'uio_pci_generic', 'igb_uio']

/** The link that a configuration names. One process, but for a device that is no link. */
export async function findDevice(machine: Machine, query: DeviceQuery): Promise<Device> {
  const { key, value = '' } = query
  if (key === 'master') {
    const name = masterName(query)
    const link = name === undefined ? undefined : (await lookAtHost(machine, [name])).links.get(name)
    return { name: name ?? value, ...defined({ link }) }
  }
  if (key !== 'device' && key !== 'hwaddr' && !isOwnSysfs()) {
    const message = `${key}: cannot look for ${value}: /sys shows another network namespace`
    throw new CniError(Code.invalidConfig, 'device-not-there', message, {
      details: 'mount sysfs in this namespace, or name the interface: "device"',
    })
  }
  const driver = programDriver(query)
  if (driver !== undefined) return { name: value, driver }
  const { links } = await lookAtHost(machine, 'all')
  const names = key === 'device' ? [value] : key === 'hwaddr' ? linksOfMac(links, value) : linksOfDevice(query)
  const [name = value] = names
  const link = links.get(name)
  if (link === undefined) return { name }
  const carries = [...links.values()].filter(({ on, kind }) => on === name && kind !== 'veth').map((each) => each.name)
  return { name, link, isUplink: isUplink(name), carries, ...(names.length > 1 ? { several: names } : {}) }
}

function masterName({ value }: DeviceQuery): string | undefined {
  const name = value ?? uplinkName()
  return name !== undefined && linkExists(name) ? name : undefined
}

/** Bridges, VLANs and macvlans may have the MAC of the device that they are on: that one is meant. */
function linksOfMac(links: ReadonlyMap<string, ObservedLink>, mac: string): readonly string[] {
  const all = [...links.values()].filter((link) => link.mac === mac && link.name !== 'lo')
  const devices = all.filter(({ kind }) => kind === undefined)
  return (devices.length > 0 ? devices : all).map(({ name }) => name)
}

function linksOfDevice(query: DeviceQuery): readonly string[] {
  const directory = deviceDirectory(query)
  if (directory === undefined) return []
  const own = namesIn(`${directory}/net`)
  // A virtio device is a device on its PCI device.
  const virtio = namesIn(directory).filter((name) => /^virtio\d+$/.test(name))
  return own.length > 0 ? own : virtio.flatMap((name) => namesIn(`${directory}/${name}/net`))
}

function programDriver(query: DeviceQuery): string | undefined {
  const directory = query.key === 'pciBusID' || query.key === 'deviceID' ? deviceDirectory(query) : undefined
  if (directory === undefined) return undefined
  try {
    const driver = basename(readlinkSync(`${directory}/driver`))
    return programDrivers.includes(driver) ? driver : undefined
  } catch {
    return undefined
  }
}

/** Entries of the buses are links into /sys/devices; what leads out of there names nothing. */
function deviceDirectory({ key, value = '' }: DeviceQuery): string | undefined {
  const buses = key === 'deviceID' ? ['pci', 'auxiliary'] : ['pci']
  const paths = key === 'kernelpath' ? [value] : buses.map((bus) => `/sys/bus/${bus}/devices/${value}`)
  for (const path of paths) {
    try {
      const real = realpathSync(path)
      if (real.startsWith('/sys/devices/')) return real
    } catch {
      // There is none.
    }
  }
  return undefined
}

function namesIn(directory: string): readonly string[] {
  try {
    return readdirSync(directory).sort()
  } catch {
    return []
  }
}
