// SPDX-License-Identifier: Apache-2.0
// The agent's routes to and from `ip -batch` (ip-route(8)).

import { familyOf } from '../cni/address.ts'
import { mainTable } from '../model/op.ts'
import { type NodeRoute, type RouteChange, routeMetric, routeProtocol } from '../plan/agent/routes.ts'
import { toBatchLine } from './batches.ts'
import { readDocuments, toCidr } from './ip.ts'

/**
 * The input of `ip -N -j -batch -` that shows the main table of both families. A batch takes no -6, the root prefix
 * says it; with one table named IPv4 is meant all the same (ip/iproute.c, iproute_list_flush_or_save).
 */
export const routeQueries = 'route show table main root 0.0.0.0/0\nroute show table all root ::/0\n'

/** The changes as input of one `ip -force -batch -`, a line each. */
export function routeBatch(changes: readonly RouteChange[]): string {
  return changes.map((change) => `${toBatchLine(['route', ...wordsOf(change)])}\n`).join('')
}

/** Which changes failed, and what `ip` said of each: with -force it goes on after a failure and tells its line. */
export function refusedRoutes(changes: readonly RouteChange[], stderr: string): readonly [RouteChange, string][] {
  const refused: [RouteChange, string][] = []
  let reason: string[] = []
  for (const line of stderr.split('\n')) {
    const failed = /^Command failed -:(\d+)/.exec(line)
    const change = failed === null ? undefined : changes[Number(failed[1]) - 1]
    if (failed === null) reason = [...reason, line]
    else {
      if (change !== undefined) refused.push([change, reason.join(' ').trim()])
      reason = []
    }
  }
  return refused
}

/** The routes of `ip -N -j`: a multipath one is given as its first hop. */
export function readNodeRoutes(stdout: string): readonly NodeRoute[] {
  return readDocuments(stdout)
    .filter((entry) => 'dst' in entry && ['undefined', 'main', `${mainTable}`].includes(String(entry['table'])))
    .map((entry) => {
      const hops = entry['nexthops']
      const hop = Array.isArray(hops) ? { ...entry, ...(hops[0] as object) } : entry
      const via = hop['via'] as { readonly host?: unknown } | undefined
      const gateway = hop['gateway'] ?? via?.host
      return {
        dst: toCidr(String(entry['dst']), 'pref' in entry || familyOf(String(gateway ?? '')) === 6),
        type: typeOf(entry['type']),
        ...(gateway === undefined ? {} : { gateway: String(gateway) }),
        ...(hop['dev'] === undefined ? {} : { dev: String(hop['dev']) }),
        ...(entry['prefsrc'] === undefined ? {} : { source: String(entry['prefsrc']) }),
        metric: Number(entry['metric'] ?? 0),
        protocol: Number(entry['protocol'] ?? 0),
      }
    })
}

function wordsOf({ verb, dst, gateway, dev, metric = routeMetric }: RouteChange): readonly string[] {
  const marks = ['metric', `${metric}`, 'proto', `${routeProtocol}`]
  if (gateway === undefined && verb === 'replace') return [verb, 'unreachable', dst, ...marks]
  if (gateway === undefined) return [verb, dst, ...marks]
  return [verb, dst, 'via', gateway, ...(dev === undefined ? [] : ['dev', dev]), ...marks]
}

/** With -N numbers stand for names, but unicast has no word at all without -d. */
function typeOf(type: unknown): string {
  const names: Readonly<Record<string, string>> = { '1': 'unicast', '6': 'blackhole', '7': 'unreachable' }
  return type === undefined ? 'unicast' : (names[String(type)] ?? String(type))
}
