// SPDX-License-Identifier: Apache-2.0
// Looks at the kernel, only where asked, and only at what is ours: named links, the pod, our table.

import { CniCode, CniError, oneLine } from '../cni/error.ts'
import { toBatchLine } from '../compile/batch-line.ts'
import { readVlans } from '../compile/bridge-tool.ts'
import { podNetns } from '../compile/ip.ts'
import { readDocuments, readLinks, readRoutes } from '../compile/read-ip.ts'
import { readTable } from '../compile/read-nft.ts'
import { readQueue } from '../compile/read-tc.ts'
import { reasonOf } from '../compile/reason.ts'
import { emptyNamespace, type ObservedNamespace, type ObservedQueue, type ObservedTable } from '../plan/observed.ts'
import type { TableFamily } from '../plan/op.ts'
import { tableName } from '../plan/ruleset.ts'
import { readKey } from './kernel-files.ts'
import type { Output, Run } from './runner.ts'

/** Links of the host by name, those of `names` that exist, and routes to `destinations`; all links without `names`. One process. */
export async function observeHost(
  run: Run,
  names?: readonly string[],
  destinations: readonly string[] = [],
): Promise<ObservedNamespace> {
  if (names?.length === 0 && destinations.length === 0) return emptyNamespace
  const links = names?.map((name) => toBatchLine(['addr', 'show', 'dev', name])) ?? ['addr show']
  const queries = [...links, ...destinations.map((dst) => toBatchLine(['route', 'show', 'table', 'all', 'exact', dst]))]
  const output = await run({
    file: 'ip',
    args: ['-j', '-d', '-force', '-batch', '-'],
    stdin: `${queries.join('\n')}\n`,
  })
  // -force goes on after a link that is not there; any other failure means we did not see.
  requireSeen(output, 'ip')
  const documents = readDocuments(output.stdout)
  return { links: readLinks(documents), routes: readRoutes(documents) }
}

/** The pod's links, addresses and routes. One process. */
export async function observePod(run: Run, netnsFd: number): Promise<ObservedNamespace> {
  const output = await run({
    file: 'nsenter',
    args: [`--net=${podNetns}`, '--', 'ip', '-j', '-d', '-force', '-batch', '-'],
    // A batch takes no -6: the root prefix says the family.
    stdin: 'addr show\nroute show table all root 0.0.0.0/0\nroute show table all root ::/0\n',
    netnsFd,
  })
  requireSeen(output, 'ip in the pod')
  const documents = readDocuments(output.stdout)
  return { links: readLinks(documents), routes: readRoutes(documents) }
}

/** One of our nft tables with its elements, or 'absent'. One process. */
export async function observeTable(run: Run, family: TableFamily): Promise<ObservedTable | 'absent'> {
  const output = await run({ file: 'nft', args: ['-j', 'list', 'table', family, tableName] })
  if (output.code === 0) return readTable(output.stdout)
  if (reasonOf(output.stderr) === 'absent') return 'absent'
  throw notSeen('nft', output)
}

/** VLAN ids of every bridge port. One process. */
export async function observeVlans(run: Run): Promise<ReadonlyMap<string, readonly number[]>> {
  const output = await run({ file: 'bridge', args: ['-j', 'vlan', 'show'] })
  requireSeen(output, 'bridge')
  return readVlans(output.stdout)
}

/** Queueing of the host's links. One process. */
export async function observeQueues(run: Run, names: readonly string[]): Promise<ReadonlyMap<string, ObservedQueue>> {
  const queues = new Map<string, ObservedQueue>()
  // A document does not name its link: each link's three are told apart by their order, a process per link.
  await Promise.all(
    names.map(async (name) => {
      const queries = [
        ['qdisc', 'show', 'dev', name],
        ['filter', 'show', 'dev', name, 'parent', 'ffff:'],
      ].map(toBatchLine)
      const output = await run({ file: 'tc', args: ['-j', '-force', '-batch', '-'], stdin: `${queries.join('\n')}\n` })
      queues.set(name, readQueue(readDocuments(output.stdout)))
    }),
  )
  return queues
}

/** Sysctls of the pod by key. One process. */
export async function observePodSysctls(
  run: Run,
  netnsFd: number,
  keys: readonly string[],
): Promise<ReadonlyMap<string, string | undefined>> {
  const output = await run({ file: 'nsenter', args: [`--net=${podNetns}`, '--', 'sysctl', '-e', ...keys], netnsFd })
  const lines = output.stdout.split('\n').map((line) => line.split(' = '))
  const found = new Map(lines.map(([key, ...value]) => [key, value.join(' = ')]))
  return new Map(keys.map((key) => [key, found.get(key.replaceAll('/', '.'))]))
}

/** Sysctls by key. No process. */
export function observeSysctls(keys: readonly string[]): ReadonlyMap<string, string | undefined> {
  return new Map(keys.map((key) => [key, readKey(key)]))
}

function requireSeen(output: Output, what: string): void {
  if (output.code === 0 || reasonOf(output.stderr) === 'absent') return
  throw notSeen(what, output)
}

function notSeen(what: string, output: Output): CniError {
  return new CniError(CniCode.commandFailed, `cannot look at the network with ${what}: ${oneLine(output.stderr)}`, {
    details: output.stderr,
  })
}
