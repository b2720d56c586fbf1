// SPDX-License-Identifier: Apache-2.0
// Looks for chains of others that drop forwarded packets: nft's chains without their rules, and FORWARD
// of each iptables variant in use. No table is created by looking.

import { readFileSync } from 'node:fs'
import { CniCode, CniError, oneLine } from '../cni/error.ts'
import { firewalldZoneCommand } from '../compile/host-accept.ts'
import { acceptPlaces, familyOf, type HostAccept, readChains, type SeenChain } from '../plan/host-accept.ts'
import { tableName } from '../plan/ruleset.ts'
import { lackNote, refusedFor } from './capabilities.ts'
import type { Run } from './runner.ts'
import { isOnPath } from './tools.ts'

/** What is to be accepted (plan/host-accept.ts, HostAccept), and whether its firewalld zone was given by us. */
export interface Sought {
  readonly accepted: readonly string[]
  readonly families: readonly (4 | 6)[]
  readonly isOurs: (of: string) => boolean
}

/**
 * Where the accept pairs belong; nothing for what is dropped nowhere. A process or a few; nothing is changed. Throws
 * CniError 100 when nft does not tell.
 */
export async function lookForDrops(run: Run, sought: Sought): Promise<readonly HostAccept[]> {
  const listed = await run({ file: 'nft', args: ['list', 'chains'] })
  if (listed.code !== 0) {
    const lack = refusedFor(listed.stderr)
    const told = `${oneLine(listed.stderr)}${lackNote(lack)}`
    throw new CniError(CniCode.commandFailed, `cannot look for chains that drop: ${told}`, {
      details: `nft list chains; ${lack?.hint ?? 'set firewall.hostAccept to "off" to go without'}`,
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
  const zones = await lookAtFirewalld(run, sought)
  const places = (of: string, at: number) =>
    acceptPlaces({ chains, iptables, ...(zones && { firewalld: { zone: zones[at] } }) }, tableName, familyOf(of))
  return sought.accepted.map((of, at) => ({ of, places: places(of, at) })).filter((accept) => accept.places.length > 0)
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

/** The zone of each that somebody else gave it; undefined where no firewalld runs. */
async function lookAtFirewalld(
  run: Run,
  { accepted, isOurs }: Sought,
): Promise<readonly (string | undefined)[] | undefined> {
  if (!isOnPath('firewall-cmd')) return undefined
  const state = await run({ file: 'firewall-cmd', args: ['--state'] })
  if (state.code !== 0) return undefined
  return await Promise.all(
    accepted.map(async (of) => {
      const zone = await run(firewalldZoneCommand(of))
      return zone.code === 0 && !isOurs(of) ? zone.stdout.trim() : undefined
    }),
  )
}
