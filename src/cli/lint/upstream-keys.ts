// SPDX-License-Identifier: Apache-2.0
// The keys that the upstream plugins read (containernetworking/plugins 1.9.1, the json tags of their sources), for
// lists that have them beside trestle or in its place.

import type { KeyShape } from '../../cni/json/json-keys.ts'
import { shapeOf } from './unknown-keys.ts'

/** Keys of every plugin: CNI spec 1.1.0, section 1, and what a runtime puts in. */
export const commonKeys = ['cniVersion', 'name', 'type', 'capabilities', 'args', 'runtimeConfig', 'prevResult'] as const

const range = ['subnet', 'rangeStart', 'rangeEnd', 'gateway'] as const
const routes: KeyShape = { items: shapeOf(['dst', 'gw', 'mtu', 'advmss', 'priority', 'table', 'scope']) }
const dns = shapeOf(['nameservers', 'domain', 'search', 'options'])
const trunk: KeyShape = { items: shapeOf(['minID', 'maxID', 'id']) }

/** By `ipam.type`. */
const ipams: Readonly<Record<string, KeyShape>> = {
  'host-local': shapeOf(['type', ...range, 'ranges', 'routes', 'dataDir', 'resolvConf'], {
    ranges: { items: { items: shapeOf(range) } },
    routes,
  }),
  static: shapeOf(['type', 'addresses', 'routes', 'dns'], {
    addresses: { items: shapeOf(['address', 'gateway']) },
    routes,
    dns,
  }),
  dhcp: shapeOf(['type', 'daemonSocketPath', 'request', 'provide', 'priority'], {
    request: { items: shapeOf(['skipDefault', 'option']) },
    provide: { items: shapeOf(['option', 'value', 'fromArg']) },
  }),
}

const veth = ['ipam', 'dns', 'mtu', 'ipMasq', 'ipMasqBackend'] as const
const onMaster = ['ipam', 'dns', 'master', 'mtu', 'linkInContainer'] as const

/** Own keys by type. */
const plugins: Readonly<Record<string, readonly string[]>> = {
  bridge: [
    ...veth,
    ...['bridge', 'isGateway', 'isDefaultGateway', 'forceAddress', 'hairpinMode', 'promiscMode', 'vlan', 'vlanTrunk'],
    ...['preserveDefaultVlan', 'macspoofchk', 'enabledad', 'disableContainerInterface', 'portIsolation'],
  ],
  ptp: veth,
  macvlan: [...onMaster, 'mode', 'mac', 'bcqueuelen'],
  ipvlan: [...onMaster, 'mode'],
  vlan: [...onMaster, 'vlanId'],
  'host-device': ['ipam', 'dns', 'device', 'deviceID', 'hwaddr', 'kernelpath', 'pciBusID'],
  dummy: ['ipam', 'dns'],
  tap: ['ipam', 'dns', 'mtu', 'multiQueue', 'mac', 'owner', 'group', 'selinuxContext', 'bridge'],
  loopback: [],
  portmap: ['snat', 'masqAll', 'markMasqBit', 'externalSetMarkChain', 'conditionsV4', 'conditionsV6', 'backend'],
  bandwidth: ['ingressRate', 'ingressBurst', 'egressRate', 'egressBurst'],
  firewall: ['backend', 'iptablesAdminChainName', 'firewalldZone', 'ingressPolicy'],
  tuning: ['sysctl', 'mac', 'promisc', 'mtu', 'txQLen', 'allmulti', 'dataDir'],
  sbr: ['table', 'gateways', 'addSourceHints'],
  vrf: ['vrfname', 'table'],
}

/** Keys of ipam of flannel: those of host-local, which gets it (flannel-io/cni-plugin, getDelegateIPAM). */
export const flannelIpam: KeyShape = ipams['host-local'] ?? {}

/** A flannel plugin as a whole, whose delegate is a bridge where it names no type. */
export const flannelWhole: KeyShape = shapeOf(['delegate'], { delegate: shapeOf(plugins['bridge'] ?? []) })

/** The keys of an upstream plugin with this IPAM plugin; undefined for a plugin that is none of them. */
export function upstreamShape(type: string, ipamType: unknown): KeyShape | undefined {
  const own = Object.hasOwn(plugins, type) ? plugins[type] : undefined
  if (own === undefined) return undefined
  const ipam = typeof ipamType === 'string' && Object.hasOwn(ipams, ipamType) ? ipams[ipamType] : undefined
  return shapeOf([...commonKeys, ...own], { dns, vlanTrunk: trunk, ...(ipam === undefined ? {} : { ipam }) })
}

/** Plugins that make the interface. */
export const mainTypes: readonly string[] = [
  'bridge',
  'ptp',
  'macvlan',
  'ipvlan',
  'vlan',
  'host-device',
  'dummy',
  'tap',
]

/** Plugins that work on the interface of an earlier one. */
export const chainedTypes: readonly string[] = ['portmap', 'bandwidth', 'firewall', 'tuning', 'sbr', 'vrf']
