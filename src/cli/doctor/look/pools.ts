// SPDX-License-Identifier: Apache-2.0
// How much of the ranges is taken, and whether the next ADD would succeed: STATUS, asked in this process.

import { CniError } from '../../../cni/model/error.ts'
import type { NetConf, PoolIpam } from '../../../cni/model/net-conf.ts'
import type { CallContext } from '../../../commands/call/context.ts'
import type { Listed } from '../../../commands/teardown/collect.ts'
import { status } from '../../../commands/verbs/status.ts'
import { capacity, countedOf, describeSet } from '../../../plan/ipam/allocate.ts'
import { networkFiles } from '../../../system/files/state.ts'
import { upstreamAddresses, upstreamLeases } from '../../../system/ipam/upstream-leases.ts'
import { takenAddresses } from '../../../system/store/addresses.ts'
import { readOwn } from '../../lint/rules/own-plugin.ts'
import { asOwn } from '../../node/own-type.ts'
import type { ConfigurationFacts, PluginFacts, PoolFacts, ReadinessFacts } from './facts.ts'

/** trestle's reading of the plugin of a network: of a bridge or ptp plugin with host-local, its ranges alone. */
function confOf({ conf }: PluginFacts, network: string): NetConf | undefined {
  const own = { ...asOwn({ ...conf, type: 'trestle' }) }
  return readOwn({ conf: own, steps: [], index: 0 }, { name: network, version: '1.0.0' }).conf
}

/** The pools of the configuration in use. */
export function lookAtPools({ network = '', plugins }: ConfigurationFacts, listed: Listed): readonly PoolFacts[] {
  return plugins.flatMap((plugin) => {
    const isHostLocal = !plugin.isOwn && plugin.ipamType === 'host-local'
    if (!plugin.isOwn && !isHostLocal) return []
    const only = isHostLocal ? { ...plugin, conf: { ipam: plugin.conf['ipam'] } } : plugin
    const ipam = confOf(only, network)?.ipam
    return ipam?.kind === 'pool' ? poolsOf(network, ipam, { isHostLocal, listed }) : []
  })
}

function poolsOf(
  network: string,
  ipam: PoolIpam,
  { isHostLocal, listed }: { readonly isHostLocal: boolean; readonly listed: Listed },
): readonly PoolFacts[] {
  const files = networkFiles(network)
  const upstream = isHostLocal
    ? upstreamLeases(ipam.dataDir, network).map(({ address }) => address)
    : upstreamAddresses(ipam.dataDir, network)
  const taken = [...new Set([...(isHostLocal ? [] : takenAddresses(files, ipam.cooldownS)), ...upstream])]
  return ipam.rangeSets.map((set) => {
    const inSet = countedOf(set, ipam.exclude, taken)
    const leases = upstreamLeases(ipam.dataDir, network).filter(({ address }) => inSet.includes(address))
    const leaked = leases.filter(({ containerId }) => listed !== undefined && !listed.has(containerId))
    return {
      network,
      ranges: describeSet(set),
      taken: inSet.length,
      total: capacity(set, ipam.exclude),
      ...(isHostLocal && listed !== undefined ? { leaked: leaked.map(({ address }) => address) } : {}),
      directory: isHostLocal ? `${ipam.dataDir}/${network}` : files.addresses,
      isHostLocal,
    }
  })
}

/** What STATUS says of each plugin of trestle in the configuration in use. */
export async function lookAtReadiness(
  context: CallContext,
  { network = '', plugins, runtime }: ConfigurationFacts,
): Promise<readonly ReadinessFacts[]> {
  const all: ReadinessFacts[] = []
  for (const plugin of plugins.filter(({ isOwn }) => isOwn)) {
    const conf = confOf(plugin, network)
    if (conf === undefined) continue
    try {
      await status(context, { ...statusCall, path: runtime.binDirs }, conf)
    } catch (error) {
      if (!(error instanceof CniError)) throw error
      all.push({ network, id: error.id, message: error.message, details: error.details ?? '' })
    }
  }
  return all
}

const statusCall = {
  verb: 'STATUS',
  containerId: '',
  netns: '',
  ifName: '',
  args: { ip: [], gateway: [] },
  path: [],
  ownTypes: [],
} as const
