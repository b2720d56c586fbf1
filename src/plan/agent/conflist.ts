// SPDX-License-Identifier: Apache-2.0
// The configuration that the agent writes. It depends on the own node alone: a node that joins or leaves changes nothing
// in it.

/** `podCidrs`: one range or one of each family, in the order that results are to have. */
export interface ConflistFacts {
  readonly name: string
  readonly mode: 'bridge' | 'ptp'
  readonly cniVersion: string
  readonly podCidrs: readonly string[]
}

/** The text of the configuration file. The same facts give the same text. */
export function conflistText({ name, mode, cniVersion, podCidrs }: ConflistFacts): string {
  const [first] = podCidrs
  const plugin = {
    type: 'trestle',
    ...(mode === 'bridge' ? {} : { mode }),
    podcidr: podCidrs.length === 1 ? first : podCidrs,
    firewall: { hostAccept: 'auto' },
    capabilities: { portMappings: true, bandwidth: true },
  }
  return `${JSON.stringify({ cniVersion, name, plugins: [plugin] }, undefined, 2)}\n`
}
