// SPDX-License-Identifier: Apache-2.0
// The drivers of the modes that make an interface, each with configurations of its own mode.

import type { InterfaceConf, NetworkConf } from '../config/network-conf.ts'
import { bridge } from './bridge.ts'
import type { Driver } from './driver.ts'
import { hostDevice } from './host-device.ts'
import { macvlan } from './macvlan.ts'
import { ptp } from './ptp.ts'
import type { Spec } from './spec.ts'

const drivers: { readonly [M in InterfaceConf['mode']]: Driver<Extract<InterfaceConf, { mode: M }>> } = {
  bridge,
  ptp,
  macvlan,
  'host-device': hostDevice,
}

export function makesInterface(conf: NetworkConf): conf is InterfaceConf {
  return Object.hasOwn(drivers, conf.mode)
}

export function driverOf({ mode }: Pick<InterfaceConf, 'mode'>): Driver {
  return drivers[mode] as Driver
}

/** The driver of a record; undefined where trestle has made no interface. */
export function driverOfSpec({ mode }: Pick<Spec, 'mode'>): Driver | undefined {
  return Object.hasOwn(drivers, mode) ? (drivers[mode as InterfaceConf['mode']] as Driver) : undefined
}
