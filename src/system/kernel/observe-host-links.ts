// SPDX-License-Identifier: Apache-2.0
// Which link the host would send packets to an address by: its routing decision, not a listing of its routes.

import { toBatchLine } from '../../compile/batch-line.ts'
import { readDocuments, readLinks } from '../../compile/read-ip.ts'
import { reasonOf } from '../../compile/reason.ts'
import type { ObservedNamespace } from '../../plan/model/observed.ts'
import type { Run } from '../process/runner.ts'
import { requireSeen } from './observe.ts'

/** What to ask of the host: links by name, all of them without `names`, and the ways to addresses without prefix. */
export interface RouteQuestion {
  readonly names: readonly string[] | undefined
  readonly addresses: readonly string[]
}

/** The host's links, and the link to each address; an address that the host cannot reach has none. One process. */
export async function observeHostLinks(
  run: Run,
  { names, addresses }: RouteQuestion,
): Promise<{ host: ObservedNamespace; hostLinks: ReadonlyMap<string, string> }> {
  const links = names?.map((name) => toBatchLine(['addr', 'show', 'dev', name])) ?? ['addr show']
  const queries = [...links, ...addresses.map((address) => toBatchLine(['route', 'get', address]))]
  const output = await run({
    file: 'ip',
    args: ['-j', '-d', '-force', '-batch', '-'],
    stdin: `${queries.join('\n')}\n`,
  })
  // "Network is unreachable" is an answer as well.
  if (reasonOf(output.stderr) !== 'invalid') requireSeen(output, 'ip')
  const documents = readDocuments(output.stdout)
  const hostLinks = documents.filter((entry) => 'dst' in entry && 'dev' in entry && !('ifname' in entry))
  return {
    host: { links: readLinks(documents), routes: new Map() },
    hostLinks: new Map(hostLinks.map((entry) => [String(entry['dst']), String(entry['dev'])])),
  }
}
