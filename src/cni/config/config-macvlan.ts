// SPDX-License-Identifier: Apache-2.0
// The keys of mode macvlan, and what it refuses: the host forwards nothing for its pods, so what works on their packets
// there cannot be honoured.

import { configError, notA, unsupported } from '../model/invalid-config.ts'
import { linkNameProblem, unsafeNameProblem } from '../model/link-name.ts'
import type { MacvlanConf, NetConf } from '../model/net-conf.ts'
import type { RawConfig } from './config-schema.ts'

/** The keys, with upstream's defaults. Throws CniError 7. */
export function readMacvlan({ master, macvlanMode }: RawConfig): MacvlanConf {
  const mode = macvlanMode ?? 'bridge'
  if (master === undefined || master === '') return { mode }
  const problem = linkNameProblem(master) ?? unsafeNameProblem(master)
  if (problem === undefined) return { master, mode }
  const hint =
    'use the name of an interface of the node, like "eth0", or leave it out for the one with the default route'
  throw notA(['master'], master, { id: 'master-unusable', what: `an interface: ${problem}`, hint })
}

/** Throws CniError 7 for a feature that needs an end on the host, 2 for a MAC that would become the master's. */
export function checkMacvlan({ bandwidth, firewall, portMappings, mac, tuning, macvlan }: NetConf): void {
  const message = 'mode macvlan has no end on the host, which this needs'
  const hint = 'use mode bridge or ptp, or leave it out'
  if (bandwidth !== undefined) throw configError(['bandwidth'], message, { id: 'bandwidth-without-veth', hint })
  if (firewall !== undefined && firewall.ingressPolicy !== 'open')
    throw configError(['firewall', 'ingressPolicy'], message, { id: 'policy-without-veth', hint })
  if (portMappings.length > 0)
    throw configError(['runtimeConfig', 'portMappings'], message, { id: 'ports-without-route', hint })
  const asked = tuning?.mac ?? mac
  if (macvlan?.mode === 'passthru' && asked !== undefined)
    throw unsupported(['mac'], asked, 'with "macvlanMode": "passthru" the pod has the MAC of the master: ask for none')
}
