// SPDX-License-Identifier: Apache-2.0
// The keys of the upstream firewall plugin, and what trestle adds to them.

import { defined } from '../../cni/defined.ts'
import { configError, notA, unsupported } from '../../cni/invalid-config.ts'
import type { FirewallConf } from '../../config/net-conf.ts'
import { readCidrs } from '../../config/routes.ts'
import type { RawConfig } from '../../config/schema.ts'

type Raw = NonNullable<RawConfig['firewall']>

/**
 * The chain's default name, which changes nothing when it is left out. `firewall.backend` is checked nowhere: the
 * upstream takes every unknown word as "choose yourself".
 */
const harmlessAdminChains: readonly string[] = ['', 'CNI-ADMIN']

/** Bits of the packet mark that everybody's rules know: portmap 13, kube-proxy and kubelet 14 and 15. */
const takenBits: Readonly<Record<number, string>> = {
  13: 'portmap marks what it masquerades with it (0x2000)',
  14: 'kube-proxy marks what it masquerades with it (0x4000)',
  15: 'kubelet marks what it drops with it (0x8000)',
}

/**
 * Firewall settings. Throws CniError unsupportedField for a chain of the operator's own, invalidConfig for an entry of
 * acceptFrom that is no CIDR, a mark bit that others use, and a zone that firewalld could not have.
 */
export function readFirewall(raw: RawConfig['firewall']): FirewallConf | undefined {
  if (raw === undefined) return undefined
  const chain = raw.iptablesAdminChainName ?? ''
  if (!harmlessAdminChains.includes(chain)) {
    const hint = "leave it out: trestle's accept stands behind the rules of FORWARD, so write yours there"
    throw unsupported(['firewall', 'iptablesAdminChainName'], chain, hint)
  }
  const acceptFrom = readCidrs(raw.acceptFrom ?? [], ['firewall', 'acceptFrom'])
  return {
    ingressPolicy: raw.ingressPolicy || 'open',
    hostAccept: raw.hostAccept ?? 'auto',
    ...(acceptFrom.length > 0 ? { acceptFrom } : {}),
    ...defined({ acceptMarkBit: readMarkBit(raw), firewalldZone: readZone(raw) }),
  }
}

function readMarkBit({ acceptMarkBit: bit }: Raw): number | undefined {
  const taken = bit === undefined ? undefined : takenBits[bit]
  if (taken === undefined) return bit
  const hint = 'use another bit from 0 to 31, or leave it out'
  throw configError(['firewall', 'acceptMarkBit'], `${bit} is taken: ${taken}`, { id: 'accept-mark-taken', hint })
}

/** Names as firewalld checks them (firewall/core/io/zone.py); its own limit of length is 17. */
function readZone({ firewalldZone: zone = '' }: Raw): string | undefined {
  if (zone === '' || /^[\w/-]{1,17}$/.test(zone)) return zone || undefined
  const hint = 'use the name of a zone that `firewall-cmd --get-zones` lists, or leave it out for "trusted"'
  throw notA(['firewall', 'firewalldZone'], zone, { id: 'firewalld-zone', what: 'the name of a firewalld zone', hint })
}
