// SPDX-License-Identifier: Apache-2.0
// Links of the host that a configuration names.

import { defined } from '../../cni/json.ts'
import type { DeviceQuery } from '../../config/net-conf.ts'
import type { Device } from '../../drivers/driver.ts'
import type { Run } from '../process/runner.ts'
import { isWireless, linkExists } from './kernel-files.ts'
import { observeHost } from './observe.ts'
import { uplinkName } from './uplink.ts'

/** The link that is meant, without a process; undefined where none is there. */
export function deviceName({ value }: DeviceQuery): string | undefined {
  const name = value ?? uplinkName()
  return name !== undefined && linkExists(name) ? name : undefined
}

/** The same, looked at. */
export async function findDevice(run: Run, query: DeviceQuery): Promise<Device> {
  const name = deviceName(query)
  const link = name === undefined ? undefined : (await observeHost(run, [name])).links.get(name)
  return { name: name ?? query.value ?? '', ...defined({ link }), isWireless: name !== undefined && isWireless(name) }
}
