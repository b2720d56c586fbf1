// SPDX-License-Identifier: Apache-2.0
// Removes what trestle made on this node, to the last rule: bridges, tables, accepts in other firewalls, and the state.

import { rmdirSync } from 'node:fs'
import { CniError, Code, toCniError } from '../cni/errors.ts'
import { ownBridgeAlias } from '../drivers/names.ts'
import type { BridgeSpec } from '../drivers/spec.ts'
import { readAcceptPlaces, settleAccepts } from '../features/host-accept.ts'
import { lookAtHost, lookAtTable } from '../kernel/look.ts'
import { acceptMarkText, tableName } from '../kernel/nft-table.ts'
import { deleteTable, type Op } from '../kernel/operation.ts'
import { readSysctl } from '../kernel/proc.ts'
import { stepsToAdd, stepsToRemove } from '../process/order.ts'
import { isTaken, namesIn, removeFile } from '../state/files.ts'
import { machineLockFile, requireStateIfThere, stateRoot } from '../state/layout.ts'
import { withLock } from '../state/lock.ts'
import { type AttachmentRecord, allRecords, describeRecord, knownNetworks } from '../state/records.ts'
import { recoverIfLost } from '../state/recover.ts'
import type { Context } from './context.ts'
import { detachAll } from './gc.ts'
import { removeBridges } from './remove-network.ts'

export interface UninstallPlan {
  readonly records: readonly AttachmentRecord[]
  readonly bridges: readonly BridgeSpec[]
  /** Bridges of others that trestle opened to 127.0.0.1. */
  readonly open: readonly BridgeSpec[]
  readonly tables: readonly ('inet' | 'bridge')[]
  /** In words: what is removed, and bridges of others that stay. */
  readonly removes: readonly string[]
  readonly stays: readonly string[]
}

/** What would be removed. */
export async function planUninstall({ machine }: Context): Promise<UninstallPlan> {
  requireStateIfThere()
  // Without their records live pods would lose their bridge.
  await recoverIfLost(machine)
  const { links } = await lookAtHost(machine, 'all')
  const records = allRecords()
  const known = unique(knownNetworks(records).flatMap(({ bridge }) => bridge ?? []))
  const isOurs = ({ name, isForeign }: BridgeSpec) => !isForeign && links.get(name)?.alias === ownBridgeAlias
  const bridges = known.filter(isOurs)
  const isOpen = ({ name }: BridgeSpec) => readSysctl(`net/ipv4/conf/${name}/route_localnet`) === '1'
  const open = known.filter((bridge) => links.has(bridge.name) && !isOurs(bridge) && isOpen(bridge))
  const tables: ('inet' | 'bridge')[] = []
  for (const table of ['inet', 'bridge'] as const)
    if ((await lookAtTable(machine, table)) !== undefined) tables.push(table)
  const accepts = readAcceptPlaces().map(
    ({ family, table, chain }) => `accept of mark ${acceptMarkText} in nft chain ${family} ${table} ${chain}`,
  )
  const removes = [
    ...records.map(({ id }) => `attachment ${id.ifName} of container ${id.containerId} (network ${id.network})`),
    ...bridges.map(({ name }) => `link ${name}`),
    ...open.map(({ name }) => `route_localnet of ${name}`),
    ...accepts,
    ...tables.map((table) => `nft table ${table} ${tableName}`),
    ...(isTaken(stateRoot()) ? [`directory ${stateRoot()}`] : []),
  ]
  const stays = known
    .filter((bridge) => links.has(bridge.name) && !isOurs(bridge))
    .map(({ name }) => `bridge ${name}: another program made it`)
  return { records, bridges, open, tables, removes, stays }
}

function unique(bridges: readonly BridgeSpec[]): readonly BridgeSpec[] {
  return [...new Map(bridges.map((bridge) => [bridge.name, bridge])).values()]
}

/** Removes it. The state goes only when nothing has failed. */
export async function uninstall(
  { records, bridges, open, tables }: UninstallPlan,
  context: Context,
): Promise<readonly CniError[]> {
  const { machine, deadline } = context
  const errors = [
    ...(await detachAll(records, { ...context, path: (process.env['CNI_PATH'] ?? '/opt/cni/bin').split(':') })),
  ]
  await withLock({ file: machineLockFile(), purpose: 'uninstall', deadline, isDispensable: true }, async () => {
    const [first] = errors.length === 0 ? allRecords() : []
    if (first !== undefined) {
      const message = `${describeRecord(first)} was attached meanwhile`
      errors.push(new CniError(Code.cleanupIncomplete, 'cleanup-incomplete', message, { details: 'run it again' }))
      return
    }
    errors.push(...(await removeBridges(bridges, machine)))
    // Before the rules that guard it.
    const closing = open.map(
      ({ name }): Op => ({
        place: 'host',
        kind: 'sysctl.set',
        key: `net/ipv4/conf/${name}/route_localnet`,
        value: '0',
        when: 'first',
        why: `close ${name} to 127.0.0.1`,
      }),
    )
    errors.push(...(await machine.run(stepsToAdd(closing), { goesOn: true })).errors)
    const ops = tables.map((table): Op => deleteTable(table))
    errors.push(...(await machine.run(stepsToRemove(ops), { goesOn: true })).errors)
    try {
      await settleAccepts(machine, [])
    } catch (error) {
      errors.push(toCniError(error))
    }
  })
  if (errors.length === 0) removeState()
  return errors
}

/** In a container the directory may be a mount: then what is in it. */
function removeState(): void {
  for (const name of namesIn(stateRoot())) removeFile(`${stateRoot()}/${name}`)
  try {
    rmdirSync(stateRoot())
  } catch (error) {
    if (!['EBUSY', 'EROFS', 'EPERM', 'ENOENT'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error
  }
}
