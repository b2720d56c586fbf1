// SPDX-License-Identifier: Apache-2.0
// The configuration that the agent writes. It depends on the own node and the operator's template alone: a node that
// joins or leaves changes nothing in it.

import { usualMode } from '../../cni/config/config-bridge.ts'
import { asObject } from '../../cni/json/json-object.ts'
import type { Mode } from '../../cni/model/net-conf.ts'
import { ownType } from '../../cni/model/own-type.ts'
import { emptyTemplate, type Template } from './template.ts'

/** `podCidrs`: one range or one of each family, in the order that results are to have. */
export interface ConflistFacts {
  readonly name: string
  readonly mode: Mode
  readonly cniVersion: string
  readonly podCidrs: readonly string[]
  /** Absent: the plugin's own choice. */
  readonly bridge?: string | undefined
  readonly template?: Template | undefined
}

/** The configuration: what the template does not say has the agent's own defaults. */
export function conflist({ template = emptyTemplate, ...facts }: ConflistFacts): Readonly<Record<string, unknown>> {
  const { name, mode, cniVersion, podCidrs, bridge } = facts
  const { firewall, capabilities, ...own } = template.own
  const [first] = podCidrs
  const plugin = {
    type: ownType,
    ...(mode === usualMode(false) ? {} : { mode }),
    ...(bridge === undefined ? {} : { bridge }),
    podcidr: podCidrs.length === 1 ? first : podCidrs,
    ...own,
    firewall: { hostAccept: 'auto', ...asObject(firewall) },
    capabilities: { portMappings: true, bandwidth: true, ...asObject(capabilities) },
  }
  return { cniVersion, ...template.list, name, plugins: [plugin, ...template.others] }
}

/** The text of the configuration file. The same facts give the same text. */
export function conflistText(facts: ConflistFacts): string {
  return `${JSON.stringify(conflist(facts), undefined, 2)}\n`
}
