// SPDX-License-Identifier: Apache-2.0
// Links of the host that a configuration names: by name, by MAC, and by their place below /sys, where a device of the
// machine has a directory with the names of its links.

import { readdirSync, readlinkSync, realpathSync } from 'node:fs'
import { basename } from 'node:path'
import { CniError, orElse } from '../../cni/error.ts'
import { defined } from '../../cni/json.ts'
import type { DeviceQuery } from '../../config/net-conf.ts'
import type { Device } from '../../drivers/driver.ts'
import type { ObservedLink } from '../../model/observed.ts'
import type { Run } from '../process/runner.ts'
import { isOwnSysfs, isWireless, linkExists } from './kernel-files.ts'
import { observeHost } from './observe.ts'
import { isUplink, uplinkName } from './uplink.ts'

/** Drivers that leave a device to a program (DPDK). As the upstream host-device plugin has them. */
const userspaceDrivers = ['vfio-pci', 'uio_pci_generic', 'igb_uio']

/** The master that is meant, without a process; undefined where it is not there. */
function masterName({ value }: DeviceQuery): string | undefined {
  const name = value ?? uplinkName()
  return name !== undefined && linkExists(name) ? name : undefined
}

/** Whether the host has the device, without a process; undefined where files do not tell. */
export function isDeviceThere(query: DeviceQuery): boolean | undefined {
  const { key, value = '' } = query
  if (key === 'master') return masterName(query) !== undefined
  if (key === 'device') return linkExists(value)
  if (key === 'hwaddr' || !isOwnSysfs()) return undefined
  return userspaceDriver(query) !== undefined || linksOfDevice(query).length > 0
}

/** Looks at the link that a configuration names. One process, but for a device that is no link. */
export async function findDevice(run: Run, query: DeviceQuery): Promise<Device> {
  if (query.key === 'master') return await findMaster(run, query)
  const { key, value = '' } = query
  const isOfFiles = key !== 'device' && key !== 'hwaddr'
  if (isOfFiles && !isOwnSysfs()) throw hiddenSysfs(query)
  const driver = userspaceDriver(query)
  if (driver !== undefined) return { name: '', isWireless: false, driver }
  const { links } = await observeHost(run)
  const names = key === 'device' ? [value] : key === 'hwaddr' ? linksOfMac(links, value) : linksOfDevice(query)
  const [name = value] = names
  const link = links.get(name)
  if (link === undefined) return { name, isWireless: false, ...defined({ strayed: strayedFrom(links, query) }) }
  return {
    name,
    link,
    isWireless: false,
    isUplink: isUplink(name),
    carries: [...links.values()].filter(({ on, kind }) => on === name && kind !== 'veth').map((each) => each.name),
    ...(names.length > 1 && { several: names }),
  }
}

async function findMaster(run: Run, query: DeviceQuery): Promise<Device> {
  const name = masterName(query)
  const link = name === undefined ? undefined : (await observeHost(run, [name])).links.get(name)
  return { name: name ?? query.value ?? '', ...defined({ link }), isWireless: name !== undefined && isWireless(name) }
}

/** Bridges, VLANs and macvlans may have the MAC of the device that they are on: that one is meant. */
export function linksOfMac(links: ReadonlyMap<string, ObservedLink>, mac: string): readonly string[] {
  const all = [...links.values()].filter((link) => link.mac === mac && link.name !== 'lo')
  const devices = all.filter(({ kind }) => kind === undefined)
  return (devices.length > 0 ? devices : all).map(({ name }) => name)
}

function strayedFrom(links: ReadonlyMap<string, ObservedLink>, { key, value }: DeviceQuery): string | undefined {
  return key === 'device' ? [...links.values()].find(({ alias }) => alias === value)?.name : undefined
}

/**
 * The names of the links of a device below `sys`, by kernelpath, pciBusID or deviceID, whose form is checked
 * (config.ts). Empty where there is none, or where the path leads out of /sys/devices.
 */
export function linksOfDevice(query: DeviceQuery, sys = '/sys'): readonly string[] {
  const directory = directoryOf(query, sys)
  if (directory === undefined) return []
  const own = namesIn(`${directory}/net`)
  if (own.length > 0) return own
  // A virtio device is a device on its PCI device.
  const virtio = namesIn(directory).filter((name) => /^virtio\d+$/.test(name))
  return virtio.flatMap((name) => namesIn(`${directory}/${name}/net`))
}

/** The driver of a PCI device that leaves it to a program. */
export function userspaceDriver(query: DeviceQuery, sys = '/sys'): string | undefined {
  if (query.key !== 'pciBusID' && query.key !== 'deviceID') return undefined
  const directory = directoryOf(query, sys)
  if (directory === undefined) return undefined
  return orElse(() => {
    const driver = basename(readlinkSync(`${directory}/driver`))
    return userspaceDrivers.includes(driver) ? driver : undefined
  }, undefined)
}

/** Entries of the buses are links into /sys/devices; what a kernelpath has on its way may be a link, too. */
function directoryOf({ key, value = '' }: DeviceQuery, sys: string): string | undefined {
  const paths =
    key === 'kernelpath'
      ? [`${sys}${value.slice('/sys'.length)}`]
      : ['pci', ...(key === 'deviceID' ? ['auxiliary'] : [])].map((bus) => `${sys}/bus/${bus}/devices/${value}`)
  return paths
    .flatMap((path) => orElse(() => realpathSync(path), []))
    .find((path) => path.startsWith(`${sys}/devices/`))
}

function namesIn(directory: string): readonly string[] {
  return orElse(() => readdirSync(directory).sort(), [])
}

function hiddenSysfs({ key, value }: DeviceQuery): CniError {
  return new CniError('device-not-there', `${key}: cannot look for ${value}: /sys shows another network namespace`, {
    details: 'mount sysfs anew in this one, or name the interface: "device"',
  })
}
