// SPDX-License-Identifier: Apache-2.0
// The upstream portmap, firewall, bandwidth, tuning and sbr plugins (docs/design.md, "Upstream portmap" and "Upstream
// sbr"), each as one key of trestle.

import { lookUp } from '../../cni/json/json-keys.ts'
import { note, type Remark, warning } from './conflist.ts'
import { type Converted, unknownRemarks } from './main-plugins.ts'

type Json = Readonly<Record<string, unknown>>

/** Converters by type: each makes keys of trestle from one plugin. */
const converters: Readonly<Record<string, (plugin: Json) => Converted>> = {
  portmap: convertPortmap,
  firewall: convertFirewall,
  bandwidth: (plugin) =>
    convertByName(plugin, 'bandwidth', { kept: ['ingressRate', 'ingressBurst', 'egressRate', 'egressBurst'] }),
  tuning: convertTuning,
  sbr: (plugin) => convertByName(plugin, 'sbr', { kept: ['table', 'gateways', 'addSourceHints'] }),
}

const common = ['type', 'name', 'cniVersion', 'capabilities', 'runtimeConfig', 'prevResult']

/** The converter for plugins of this type; undefined when the plugin has to stay in the list. */
export function converterOf(type: unknown): ((plugin: Json) => Converted) | undefined {
  return typeof type === 'string' && Object.hasOwn(converters, type) ? converters[type] : undefined
}

function convertPortmap(plugin: Json): Converted {
  const conditions = ['conditionsV4', 'conditionsV6'] as const
  const kept = conditions.filter((key) => isGiven(plugin, key) && !isIptables(lookUp(plugin, key)))
  const lost = conditions.filter((key) => isGiven(plugin, key) && isIptables(lookUp(plugin, key)))
  const masqAll = lookUp(plugin, 'masqAll') ?? false
  const unread = masqAll === true ? whyMasqAllUnread(plugin) : undefined
  return {
    keys: {
      portmap: {
        snat: lookUp(plugin, 'snat') ?? true,
        masqAll: unread === undefined ? masqAll : false,
        ...Object.fromEntries(kept.map((key) => [key, lookUp(plugin, key)])),
      },
    },
    remarks: [
      ...lost.map((key) =>
        warning(
          `portmap.${key}`,
          `the iptables matches ${JSON.stringify(lookUp(plugin, key))} are left out, ` +
            'so more clients reach the host ports: ' +
            'write nftables matches, like ["ip", "saddr", "!=", "10.0.0.0/8"]',
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
        // The plugin accepts packets from the pod and answers to the pod (docs/design.md, "Upstream firewall").
        hostAccept: 'established',
        ...(zone === '' ? {} : { firewalldZone: zone }),
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
        'accepts packets from pods, answers and host ports, like the firewall plugin; "auto" also accepts new ' +
          'connections from nonMasqueradeCIDRs and acceptFrom',
      ),
      ...backendRemarks(plugin, 'firewall'),
      ...unknownRemarks(plugin, {
        type: 'firewall',
        known: [...common, 'backend', 'ingressPolicy', 'iptablesAdminChainName', 'firewalldZone'],
      }),
    ],
  }
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

function backendRemarks(plugin: Json, type: string): readonly Remark[] {
  const backend = lookUp(plugin, 'backend')
  if (backend === undefined || backend === null || backend === '') return []
  return [note(`${type}.backend`, `"${String(backend)}" is left out: trestle writes nftables rules, in its own tables`)]
}

/** True for iptables matches; like upstream, the first token decides. */
function isIptables(tokens: unknown): boolean {
  return Array.isArray(tokens) && typeof tokens[0] === 'string' && /^[-!]/.test(tokens[0])
}

function isGiven(plugin: Json, key: string): boolean {
  const value = lookUp(plugin, key)
  return value !== undefined && value !== null
}
