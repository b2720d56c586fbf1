// SPDX-License-Identifier: Apache-2.0
// The keys that have no effect in a mode, with dots for levels.

import type { Mode } from '../../model/attachment.ts'

/** Of a bridge and its ports. */
const bridgeKeys = [
  ...['bridge', 'hairpinMode', 'forceAddress', 'promiscMode', 'portIsolation', 'vlan', 'vlanTrunk'],
  ...['preserveDefaultVlan', 'macspoofchk'],
]

/** Of an interface that is made. */
const interfaceKeys = [
  ...['podcidr', 'ipam', 'dns', 'isGateway', 'isDefaultGateway', 'mtu', 'enabledad', 'disableContainerInterface'],
]

/** Of features. */
const featureKeys = [
  ...['portmap', 'firewall', 'bandwidth', 'tuning', 'sbr', 'ipMasq', 'nonMasqueradeCIDRs'],
  ...['removeWhenEmpty', 'allowOverlap'],
]

export const unreadKeys: Readonly<Record<Mode, readonly string[]>> = {
  bridge: [],
  ptp: bridgeKeys,
  macvlan: [...bridgeKeys, 'isGateway', 'ipMasq', 'nonMasqueradeCIDRs', 'portmap', 'firewall', 'allowOverlap'],
  loopback: [...bridgeKeys, ...interfaceKeys, ...featureKeys],
  chained: [...bridgeKeys, ...interfaceKeys],
}
