// SPDX-License-Identifier: Apache-2.0
// Keys of the configuration in groups, as modes that do not read them name them.

/** Of a bridge and its ports. */
export const bridgeKeys: readonly string[] = [
  ...['bridge', 'hairpinMode', 'forceAddress', 'promiscMode', 'portIsolation', 'vlan', 'vlanTrunk'],
  ...['preserveDefaultVlan', 'macspoofchk'],
]

/** Of an interface that is made. */
export const interfaceKeys: readonly string[] = [
  ...['podcidr', 'ipam', 'dns', 'isGateway', 'isDefaultGateway', 'mtu', 'enabledad', 'disableContainerInterface'],
]

/** Of what is done for an interface, whoever made it. */
export const featureKeys: readonly string[] = [
  ...['portmap', 'firewall', 'bandwidth', 'tuning', 'sbr', 'ipMasq', 'nonMasqueradeCIDRs'],
  ...['removeWhenEmpty', 'allowOverlap'],
]
