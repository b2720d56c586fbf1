// SPDX-License-Identifier: Apache-2.0
// The configuration that the agent writes. It depends on the own node alone: a node that joins or leaves changes
// nothing in it.

import { usualMode } from '../../cni/config/config-bridge.ts'
import type { Mode } from '../../cni/model/net-conf.ts'

/** `podCidrs`: one range or one of each family, in the order that results are to have. */
export interface ConflistFacts {
  readonly name: string
  readonly mode: Mode
  readonly cniVersion: string
  readonly podCidrs: readonly string[]
  /** Absent: the plugin's own choice. */
  readonly bridge?: string | undefined
}

/** The text of the configuration file. The same facts give the same text. */
export function conflistText({ name, mode, cniVersion, podCidrs, bridge }: ConflistFacts): string {
  const [first] = podCidrs
  const plugin = {
    type: 'trestle',
    ...(mode === usualMode(false) ? {} : { mode }),
    ...(bridge === undefined ? {} : { bridge }),
    podcidr: podCidrs.length === 1 ? first : podCidrs,
    firewall: { hostAccept: 'auto' },
    capabilities: { portMappings: true, bandwidth: true },
  }
  return `${JSON.stringify({ cniVersion, name, plugins: [plugin] }, undefined, 2)}\n`
}
