// SPDX-License-Identifier: Apache-2.0
// The upstream bridge and ptp plugins (docs/design.md, "Upstream bridge and ptp") with their IPAM, as keys of trestle.

import { lookUp } from '../../cni/json.ts'
import { isRemark } from '../lint/unknown-keys.ts'

/** Keys for trestle's entry, with remarks on keys that are left out. */
export interface Converted {
  readonly keys: Readonly<Record<string, unknown>>
  readonly remarks: readonly Remark[]
}

type Json = Readonly<Record<string, unknown>>

/** Keys with the same meaning in trestle, and upstream's default. `undefined`: written only if given. */
const bridgeDefaults: Json = {
  bridge: 'cni0',
  ...usually(false, 'isGateway isDefaultGateway forceAddress ipMasq hairpinMode promiscMode'),
  ...usually(undefined, 'vlan vlanTrunk preserveDefaultVlan macspoofchk portIsolation enabledad'),
  ...usually(undefined, 'disableContainerInterface'),
}

function usually(value: unknown, keys: string): Json {
  return Object.fromEntries(keys.split(' ').map((key) => [key, value]))
}

const ptpDefaults: Json = { ipMasq: false }

/** Keys of every plugin, and keys of every plugin that makes the interface. */
const common = ['type', 'name', 'cniVersion', 'capabilities', 'runtimeConfig', 'prevResult']
const ofMain = [...common, 'args', 'dns', 'ipam', 'mtu']

/** IPAM plugins that trestle replaces in its own process. */
const inProcess: readonly unknown[] = ['host-local', 'static']

/** The keys of a bridge or ptp for the interface, with every upstream default that differs from trestle's. */
export function convertMain(plugin: Json): Converted {
  const type = lookUp(plugin, 'type') === 'ptp' ? 'ptp' : 'bridge'
  const defaults = type === 'ptp' ? ptpDefaults : bridgeDefaults
  const defaultKeys = Object.entries(defaults).flatMap(([key, usual]) => {
    const value = lookUp(plugin, key) ?? usual
    return value === undefined ? [] : [[key, value] as const]
  })
  const isDefaultGateway = lookUp(plugin, 'isDefaultGateway') === true
  const mtu = (lookUp(plugin, 'mtu') ?? 0) === 0 ? 1500 : lookUp(plugin, 'mtu')
  return {
    keys: {
      mode: type,
      ...Object.fromEntries(defaultKeys),
      // In the upstream plugin isDefaultGateway implies isGateway.
      ...(isDefaultGateway ? { isGateway: true } : {}),
      mtu,
      ...keptKeys(plugin),
    },
    remarks: [
      ...mtuRemarks(plugin, type),
      ...(type === 'bridge' ? vlanRemarks(plugin) : []),
      ...ipamRemarks(lookUp(plugin, 'ipam')),
      ...backendRemarks(plugin, type, 'ipMasqBackend'),
      ...unknownRemarks(plugin, { type, known: [...ofMain, ...Object.keys(defaults), 'ipMasqBackend'] }),
    ],
  }
}

function keptKeys(plugin: Json): Json {
  const kept = ['ipam', 'dns', 'args'].map((key) => [key, lookUp(plugin, key)] as const)
  return Object.fromEntries(kept.filter(([, value]) => value !== undefined && value !== null))
}

/** Warnings for unknown keys, which are left out. A key for a person's comment needs none. */
function unknownRemarks(plugin: Json, about: { type: string; known: readonly string[] }): readonly Remark[] {
  const known = about.known.map((key) => key.toLowerCase())
  const unknown = Object.keys(plugin).filter((key) => !known.includes(key.toLowerCase()) && !isRemark(key))
  return unknown.map((key) => {
    const why = `neither the ${about.type} plugin nor trestle knows this key`
    return warning(`${about.type}.${key}`, `${JSON.stringify(plugin[key])} is left out: ${why}`)
  })
}

function mtuRemarks(plugin: Json, type: string): readonly Remark[] {
  if ((lookUp(plugin, 'mtu') ?? 0) !== 0) return []
  const text = 'was not given, and the plugin defaults to 1500; "auto" follows the interfaces with a default route'
  return [note(`${type}.mtu`, text)]
}

/** With a trunk and no access VLAN, VLAN 1 stays with either value, so no remark is needed. */
function vlanRemarks(plugin: Json): readonly Remark[] {
  const vlan = lookUp(plugin, 'vlan') ?? 0
  const isGiven = (lookUp(plugin, 'preserveDefaultVlan') ?? undefined) !== undefined
  if (vlan === 0 || vlan === 1 || isGiven) return []
  const text =
    'was not given: the new value is false, as in plugins 1.9.1, and takes ports out of VLAN 1; older plugins left ' +
    'them in: write true to keep that'
  return [note('bridge.preserveDefaultVlan', text)]
}

/** The note on an IPAM plugin that trestle calls by delegation. */
function ipamRemarks(ipam: unknown): readonly Remark[] {
  const type = typeof ipam === 'object' && ipam !== null ? lookUp(ipam as Json, 'type') : undefined
  if (type === undefined || type === '' || inProcess.includes(type)) return []
  return [note('ipam.type', `trestle calls the plugin "${String(type)}" through CNI_PATH`)]
}

/** `key`: of the plugin's backend for iptables or nftables. */
function backendRemarks(plugin: Json, type: string, key = 'backend'): readonly Remark[] {
  const backend = lookUp(plugin, key)
  if (backend === undefined || backend === null || backend === '') return []
  const does = key === 'backend' ? 'writes nftables rules' : 'masquerades with nftables'
  return [note(`${type}.${key}`, `"${String(backend)}" is left out: trestle ${does}, in its own tables`)]
}

// The upstream macvlan plugin (docs/design.md, "Upstream macvlan") with its IPAM, as keys of trestle.

/** Plugins that work on the host's end of the interface; a macvlan and a moved device have none. */
const onHost: readonly unknown[] = ['portmap', 'bandwidth', 'firewall']

const macvlanKeys = [...ofMain, 'master', 'mode', 'mac', 'linkInContainer', 'bcqueuelen']

/** True if a mode without a host end can replace the plugin: no link of the pod is meant, and no later plugin needs one. */
export function isWithoutHostEnd(plugin: Json, others: readonly Json[]): boolean {
  return lookUp(plugin, 'linkInContainer') !== true && !others.some((other) => onHost.includes(lookUp(other, 'type')))
}

export function convertMacvlan(plugin: Json): Converted {
  const [master, mode, mtu] = ['master', 'mode', 'mtu'].map((key) => lookUp(plugin, key))
  return {
    keys: {
      mode: 'macvlan',
      ...(master ? { master } : {}),
      ...(mode ? { macvlanMode: mode } : {}),
      ...(mtu ? { mtu } : {}),
      ...keptKeys(plugin),
    },
    remarks: [
      ...macRemarks(plugin),
      ...queueRemarks(plugin),
      ...ipamRemarks(lookUp(plugin, 'ipam')),
      ...unknownRemarks(plugin, { type: 'macvlan', known: macvlanKeys }),
    ],
  }
}

// The upstream host-device plugin (docs/design.md, "Upstream host-device").

/** Keys that name the device, in the order in which the plugin looks at them. */
const namingKeys = ['device', 'hwaddr', 'kernelpath', 'pciBusID']

/** The keys for the interface: the plugin takes the first key that names a device, trestle wants one. */
export function convertHostDevice(plugin: Json): Converted {
  const given = namingKeys.filter((key) => isGiven(plugin, key) && lookUp(plugin, key) !== '')
  const [first, ...others] = given
  return {
    keys: {
      mode: 'host-device',
      ...(first === undefined ? {} : { [first]: lookUp(plugin, first) }),
      ...keptKeys(plugin),
    },
    remarks: [
      ...others.map((key) => note(`host-device.${key}`, `is left out: the plugin takes the device of "${first}"`)),
      ...ipamRemarks(lookUp(plugin, 'ipam')),
      ...unknownRemarks(plugin, { type: 'host-device', known: [...ofMain, ...namingKeys] }),
    ],
  }
}

/** MACVLAN_DEFAULT_BC_QUEUE_LEN (drivers/net/macvlan.c), in packets; 0 selects the kernel's default. */
const usualQueue = 1000

function queueRemarks(plugin: Json): readonly Remark[] {
  const packets = lookUp(plugin, 'bcqueuelen') ?? 0
  if (packets === 0 || packets === usualQueue) return []
  const why = `trestle has no such key, and the broadcast queue holds the kernel's ${usualQueue} packets`
  return [warning('macvlan.bcqueuelen', `${JSON.stringify(packets)} is left out: ${why}`)]
}

function macRemarks(plugin: Json): readonly Remark[] {
  const mac = lookUp(plugin, 'mac')
  if (mac === undefined || mac === null || mac === '') return []
  const why = `every pod would get this MAC; for a MAC of its own declare the capability "mac"`
  return [warning('macvlan.mac', `${JSON.stringify(mac)} is left out: ${why}`)]
}

// The upstream portmap, firewall, bandwidth, tuning and sbr plugins (docs/design.md, "Upstream portmap" and "Upstream
// sbr"), each as one key of trestle.

/** Converters by type: each makes keys of trestle from one plugin. */
const converters: Readonly<Record<string, (plugin: Json) => Converted>> = {
  portmap: convertPortmap,
  firewall: convertFirewall,
  bandwidth: convertBandwidth,
  tuning: convertTuning,
  sbr: (plugin) => convertByName(plugin, 'sbr', { kept: ['table', 'gateways', 'addSourceHints'] }),
}

/** Capabilities by the plugin that reads them (`RuntimeConfig` of plugins 1.9.1). */
const capabilitiesOf: Readonly<Record<string, readonly string[]>> = {
  bridge: ['mac'],
  macvlan: ['mac'],
  'host-device': ['deviceID'],
  portmap: ['portMappings'],
  bandwidth: ['bandwidth'],
  tuning: ['mac'],
  'host-local': ['ipRanges', 'ips'],
  static: ['ips'],
}

/** Whether the plugin, or the IPAM plugin that it passes its configuration to, reads the capability. */
export function isRead(plugin: Json, capability: string): boolean {
  const ipam = lookUp(plugin, 'ipam')
  const ipamType = typeof ipam === 'object' && ipam !== null ? lookUp(ipam as Json, 'type') : undefined
  const readers = [lookUp(plugin, 'type'), ipamType].map(String)
  if (readers.some((type) => capabilitiesOf[type]?.includes(capability))) return true
  // Of an IPAM plugin that stays nothing is known, but that these are not of IPAM.
  const isForeign = typeof ipamType === 'string' && ipamType !== '' && !inProcess.includes(ipamType)
  return isForeign && !['portMappings', 'bandwidth'].includes(capability)
}

/** The converter for plugins of this type; undefined when the plugin has to stay in the list. */
export function converterOf(type: unknown): ((plugin: Json) => Converted) | undefined {
  return typeof type === 'string' && Object.hasOwn(converters, type) ? converters[type] : undefined
}

function convertPortmap(plugin: Json): Converted {
  const conditions = ['conditionsV4', 'conditionsV6'] as const
  const lost = conditions.filter((key) => isGiven(plugin, key))
  const masqAll = lookUp(plugin, 'masqAll') ?? false
  const unread = masqAll === true ? whyMasqAllUnread(plugin) : undefined
  return {
    keys: {
      portmap: {
        snat: lookUp(plugin, 'snat') ?? true,
        masqAll: unread === undefined ? masqAll : false,
      },
    },
    remarks: [
      ...lost.map((key) =>
        warning(
          `portmap.${key}`,
          `the conditions ${JSON.stringify(lookUp(plugin, key))} are left out, so more clients reach the host ports: ` +
            'limit them in a firewall of the node',
        ),
      ),
      ...(unread === undefined ? [] : [note('portmap.masqAll', `${unread}: the converted value is false`)]),
      ...markRemarks(plugin),
      ...backendRemarks(plugin, 'portmap'),
      ...unknownRemarks(plugin, {
        type: 'portmap',
        known: [...common, ...conditions, 'snat', 'masqAll', 'backend', 'markMasqBit', 'externalSetMarkChain'],
      }),
    ],
  }
}

/** The reason why the plugin ignores `masqAll` (portmap_iptables.go, portmap_nftables.go); undefined if it does not. */
function whyMasqAllUnread(plugin: Json): string | undefined {
  if (lookUp(plugin, 'snat') === false) return 'the plugin ignores masqAll with "snat": false'
  return lookUp(plugin, 'backend') === 'nftables' ? 'the plugin ignores masqAll with backend nftables' : undefined
}

/** Keys of the packet mark by which the iptables backend selects packets for masquerade; trestle marks no packet. */
function markRemarks(plugin: Json): readonly Remark[] {
  const bit = lookUp(plugin, 'markMasqBit') ?? 13
  const chain = lookUp(plugin, 'externalSetMarkChain') ?? ''
  return [
    ...(bit === 13 ? [] : [note('portmap.markMasqBit', `bit ${String(bit)} is left out: no packet is marked`)]),
    ...(chain === '' ? [] : [warning('portmap.externalSetMarkChain', chainText(String(chain)))]),
  ]
}

function chainText(chain: string): string {
  const why = chain === 'KUBE-MARK-MASQ' ? ': trestle masquerades host ports itself, without a mark of kube-proxy' : ''
  return `"${chain}" is left out, and no packet goes through that chain${why}`
}

function convertFirewall(plugin: Json): Converted {
  const admin = lookUp(plugin, 'iptablesAdminChainName') ?? ''
  const zone = lookUp(plugin, 'firewalldZone') ?? ''
  const chain = admin === '' ? 'CNI-ADMIN' : String(admin)
  return {
    keys: {
      firewall: {
        ingressPolicy: lookUp(plugin, 'ingressPolicy') || 'open',
      },
    },
    remarks: [
      // A chain with a custom name has an administrator's rules; the backend firewalld has no chain.
      (admin === '' || lookUp(plugin, 'backend') === 'firewalld' ? note : warning)(
        'firewall.iptablesAdminChainName',
        `packets of pods no longer pass the rules in ${chain}: put these rules into FORWARD, where trestle's accept ` +
          'stands behind them',
      ),
      note(
        'firewall.hostAccept',
        'accepts packets from pods, answers and host ports, like the firewall plugin, and also new connections ' +
          "from the network's own ranges and nonMasqueradeCIDRs",
      ),
      ...(zone === ''
        ? []
        : [warning('firewall.firewalldZone', 'is left out: docs/host.md has the command that puts pods into a zone')]),
      ...backendRemarks(plugin, 'firewall'),
      ...unknownRemarks(plugin, {
        type: 'firewall',
        known: [...common, 'backend', 'ingressPolicy', 'iptablesAdminChainName', 'firewalldZone'],
      }),
    ],
  }
}

/** Keys of plugins 1.5 alone, by which a limit counts for some addresses only. */
const shapedKeys = ['shapedSubnets', 'unshapedSubnets']

function convertBandwidth(plugin: Json): Converted {
  const kept = ['ingressRate', 'ingressBurst', 'egressRate', 'egressBurst']
  const { keys, remarks } = convertByName(plugin, 'bandwidth', { kept, others: shapedKeys })
  const lost = shapedKeys.filter((key) => isGiven(plugin, key))
  const texts = lost.map((key) => {
    const why = 'trestle has no such key, and limits the traffic with all addresses'
    return warning(`bandwidth.${key}`, `${JSON.stringify(lookUp(plugin, key))} is left out: ${why}`)
  })
  return { keys, remarks: [...remarks, ...texts] }
}

function convertTuning(plugin: Json): Converted {
  const kept = ['sysctl', 'mac', 'promisc', 'mtu', 'txQLen', 'allmulti']
  const { keys, remarks } = convertByName(plugin, 'tuning', { kept, others: ['dataDir', 'args'] })
  const args = lookUp(plugin, 'args')
  const isDir = isGiven(plugin, 'dataDir')
  return {
    keys: args === undefined || args === null ? keys : { ...keys, args },
    remarks: [
      ...remarks,
      ...(isDir
        ? [note('tuning.dataDir', 'left out: the interface goes with the pod, so trestle keeps no backup')]
        : []),
    ],
  }
}

/** Plugins whose empty object has an effect: sbr acts without keys, and `args.cni` needs the key `tuning`. */
const keptEmpty = ['sbr', 'tuning']

/**
 * Converts a plugin whose keys keep their names below `name`. `others`: further known keys, which the caller converts.
 */
function convertByName(
  plugin: Json,
  name: string,
  { kept, others = [] }: { readonly kept: readonly string[]; readonly others?: readonly string[] },
): Converted {
  const given = kept.filter((key) => isGiven(plugin, key)).map((key) => [key, lookUp(plugin, key)] as const)
  return {
    keys: given.length === 0 && !keptEmpty.includes(name) ? {} : { [name]: Object.fromEntries(given) },
    remarks: unknownRemarks(plugin, { type: name, known: [...common, ...kept, ...others] }),
  }
}

function isGiven(plugin: Json, key: string): boolean {
  const value = lookUp(plugin, key)
  return value !== undefined && value !== null
}

/** `warning`: a part of the original has no equivalent, or no effect any more. `note`: nothing is lost. */
export interface Remark {
  readonly level: 'warning' | 'note'
  /** Plugin and key of the remark, like `portmap.markMasqBit`. */
  readonly about: string
  readonly text: string
}

export function warning(about: string, text: string): Remark {
  return { level: 'warning', about, text }
}

export function note(about: string, text: string): Remark {
  return { level: 'note', about, text }
}
