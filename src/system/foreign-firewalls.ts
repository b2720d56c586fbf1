// SPDX-License-Identifier: Apache-2.0
// Looks for chains of others that drop forwarded packets: nft's chains without their rules, and FORWARD
// of each iptables variant in use. No table is created by looking.

import { readFileSync } from 'node:fs'
import { CniCode, CniError, oneLine } from '../cni/error.ts'
import { type AcceptPlace, acceptPlaces, readChains, type SeenChain, type SeenFirewalls } from '../plan/host-accept.ts'
import { tableName } from '../plan/ruleset.ts'
import type { Run } from './runner.ts'
import { isOnPath } from './tools.ts'

/** The bridge in question, and whether its firewalld zone was given by us. */
export interface Sought {
  readonly bridge: string
  readonly families: readonly (4 | 6)[]
  readonly isOurs: boolean
}

/** Where the bridge's accept pair belongs. A process or a few; nothing is changed. Throws CniError 100 when nft does not tell. */
export async function lookForDrops(run: Run, sought: Sought): Promise<readonly AcceptPlace[]> {
  const listed = await run({ file: 'nft', args: ['list', 'chains'] })
  if (listed.code !== 0) {
    throw new CniError(CniCode.commandFailed, `cannot look for chains that drop: ${oneLine(listed.stderr)}`, {
      details: 'nft list chains; set firewall.hostAccept to "off" to go without',
    })
  }
  const chains = readChains(listed.stdout).filter(
    ({ family }) => family === 'inet' || sought.families.some((each) => family === (each === 4 ? 'ip' : 'ip6')),
  )
  const programs = sought.families.flatMap((family) => programsInUse(family, chains))
  const iptables = await Promise.all(
    programs.map(async (program) => {
      const output = await run({ file: program, args: ['-w', '5', '-S', 'FORWARD'] })
      return { program, forward: output.stdout }
    }),
  )
  const firewalld = await lookAtFirewalld(run, sought)
  return acceptPlaces({ chains, iptables, ...(firewalld && { firewalld }) }, tableName)
}

/** The iptables variants whose filter table has a FORWARD chain: asking one that has none would make it. */
function programsInUse(family: 4 | 6, chains: readonly SeenChain[]): readonly string[] {
  const prefix = family === 4 ? 'ip' : 'ip6'
  const hasNft = chains.some((each) => each.family === prefix && each.table === 'filter' && each.name === 'FORWARD')
  const nft = hasNft && isOnPath(`${prefix}tables-nft`) ? [`${prefix}tables-nft`] : []
  const legacy = [`${prefix}tables-legacy`, `${prefix}tables`].find(isOnPath)
  return hasLegacyFilter(prefix) && legacy !== undefined ? [...nft, legacy] : nft
}

/** net/netfilter/x_tables.c: the legacy tables that are loaded in our network namespace. */
function hasLegacyFilter(prefix: string): boolean {
  try {
    return readFileSync(`/proc/net/${prefix}_tables_names`, 'latin1').split('\n').includes('filter')
  } catch {
    return false
  }
}

async function lookAtFirewalld(run: Run, { bridge, isOurs }: Sought): Promise<SeenFirewalls['firewalld']> {
  if (!isOnPath('firewall-cmd')) return undefined
  const state = await run({ file: 'firewall-cmd', args: ['--state'] })
  if (state.code !== 0) return undefined
  const zone = await run({ file: 'firewall-cmd', args: [`--get-zone-of-interface=${bridge}`] })
  return { zone: zone.code === 0 && !isOurs ? zone.stdout.trim() : undefined }
}
