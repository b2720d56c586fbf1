// SPDX-License-Identifier: Apache-2.0
// Whether a bridge is still the one that was set up: somebody may have removed it and made another of the name, which
// has none of the ports.

import { readDocuments, readLinks } from '../../compile/read-ip.ts'
import type { NetworkSpec } from '../../plan/model/attachment.ts'
import type { Op } from '../../plan/model/op.ts'
import { ownMacOps } from '../../plan/modes/network.ts'
import type { Printed } from '../../system/kernel/execute.ts'
import { machineId } from '../../system/process/stamp.ts'

/** Its MAC, where it is of our making: that of another one may be anything. */
export function ownBridgeMacOps({ bridge }: NetworkSpec): readonly Op[] {
  return bridge === undefined ? [] : ownMacOps(bridge, machineId())
}

/** Shows it, where it is of our making: a line more for a process that runs anyway. */
export function showBridgeOps(network: NetworkSpec): readonly Op[] {
  return ownBridgeMacOps(network).map(({ in: place }) => {
    const dev = network.bridge?.name ?? ''
    return { in: place, kind: 'addr.show', dev, why: `see that ${dev} is the bridge it was` }
  })
}

/** Whether the bridge that was shown has another MAC. */
export function isAnotherBridge({ bridge }: NetworkSpec, printed: readonly Printed[]): boolean {
  const links = readLinks(readDocuments(printed.map(({ stdout }) => stdout).join('\n')))
  const shown = links.get(bridge?.name ?? '')
  return shown !== undefined && shown.mac !== bridge?.mac
}
