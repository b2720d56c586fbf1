// SPDX-License-Identifier: Apache-2.0
// The drivers by their mode. A mode without a driver does not compile. `loopback` has no attachment: loopback.ts.

import type { DeviceQuery, InterfaceNetConf, NetConf } from '../config/net-conf.ts'
import type { AttachmentSpec, Mode } from '../model/attachment.ts'
import { bridge } from './bridge.ts'
import { chained } from './chained.ts'
import type { Driver, InterfaceDriver } from './driver.ts'
import { hostDevice } from './host-device.ts'
import { macvlan } from './macvlan.ts'
import { ptp } from './ptp.ts'

type InterfaceDrivers = {
  readonly [M in InterfaceNetConf['mode']]: InterfaceDriver<Extract<InterfaceNetConf, { mode: M }>>
}

const interfaceDrivers: InterfaceDrivers = { bridge, ptp, macvlan, 'host-device': hostDevice }
const drivers: Readonly<Record<Exclude<Mode, 'loopback'>, Driver>> = { ...interfaceDrivers, chained }

/** An unknown mode, of a later release, has the driver of bridges, which is about parts of the spec alone. */
export function driverOf({ mode }: Pick<AttachmentSpec, 'mode'>): Driver {
  return Object.hasOwn(drivers, mode) ? drivers[mode as keyof typeof drivers] : bridge
}

export function interfaceDriverOf({ mode }: InterfaceNetConf): InterfaceDriver<InterfaceNetConf> {
  return interfaceDrivers[mode]
}

export function makesInterface(conf: NetConf): conf is InterfaceNetConf {
  return isInterfaceMode(conf.mode)
}

/** The configuration of an interface. Throws for another mode: its order makes none. */
export function interfaceConf(conf: NetConf): InterfaceNetConf {
  if (makesInterface(conf)) return conf
  throw new Error(`mode ${conf.mode} makes no interface`)
}

export function isInterfaceMode(name: unknown): name is InterfaceNetConf['mode'] {
  return typeof name === 'string' && Object.hasOwn(interfaceDrivers, name)
}

export function bridgeOf(conf: NetConf): string | undefined {
  return 'bridge' in conf ? conf.bridge.name : undefined
}

/** The link of the host that an interface of the configuration needs, where its mode has one. */
export function deviceOf(conf: NetConf): DeviceQuery | undefined {
  return makesInterface(conf) ? interfaceDriverOf(conf).deviceOf?.(conf) : undefined
}

/** Whether nothing of an interface of the configuration is on the host. */
export function isInPodAlone(conf: NetConf): boolean {
  return makesInterface(conf) && interfaceDriverOf(conf).isInPodAlone === true
}
