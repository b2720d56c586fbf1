// SPDX-License-Identifier: Apache-2.0
// Where the other end of a pair is: the kernel tells an id that our namespace has for the other one
// (link_netnsid; net/core/net_namespace.c), ip and lsns tell which path that is.

import { namesIn } from '../files/files.ts'
import type { Run } from '../process/runner.ts'

/** Where ip(8) has the names of namespaces (NETNS_RUN_DIR). */
const namedDirectory = '/run/netns'

/**
 * Paths of the namespaces with these ids, as far as they have a name or a process in them. One process, and one more
 * where some have no name. Without lsns those are reported on stderr and left out.
 */
export async function netnsPaths(run: Run, ids: readonly number[]): Promise<ReadonlyMap<number, string>> {
  const named = namesIn(namedDirectory).length === 0 ? new Map<number, string>() : await namedPaths(run)
  if (ids.every((id) => named.has(id))) return named
  return new Map([...(await processPaths(run)), ...named])
}

async function namedPaths(run: Run): Promise<ReadonlyMap<number, string>> {
  const { stdout } = await run({ file: 'ip', args: ['-j', 'netns', 'list'] })
  const entries = JSON.parse(stdout || '[]') as readonly { readonly name: string; readonly id?: number }[]
  return new Map(entries.flatMap(({ name, id }) => (id === undefined ? [] : [[id, `${namedDirectory}/${name}`]])))
}

/** lsns is of util-linux, as nsenter. It says `unassigned` where there is no id. */
async function processPaths(run: Run): Promise<ReadonlyMap<number, string>> {
  const { stdout } = await run({ file: 'lsns', args: ['-t', 'net', '-r', '-n', '-o', 'NETNSID,PID'] }).catch(
    withoutOutput,
  )
  const rows = stdout.split('\n').map((line) => line.split(' '))
  const isRow = ([id = '', pid = '']: readonly string[]) => /^\d+$/.test(id) && /^\d+$/.test(pid)
  return new Map(rows.filter(isRow).map(([id, pid]) => [Number(id), `/proc/${pid}/ns/net`]))
}

/** No other call needs lsns: an ADD is not refused for it. */
function withoutOutput(error: Error): { readonly stdout: string } {
  process.stderr.write(`trestle: cannot tell what pods without a named namespace have: ${error.message}\n`)
  return { stdout: '' }
}
