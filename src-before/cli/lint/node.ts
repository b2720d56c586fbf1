// SPDX-License-Identifier: Apache-2.0
// Subnets of the node's interfaces that conflict with a configuration. Examined by root where the plugins are
// installed; a configuration for another machine is not compared.

import { spawnSync } from 'node:child_process'
import { orElse } from '../../cni/error.ts'
import type { OwnNetConf } from '../../config/net-conf.ts'
import { changeRefused } from '../../core.ts'
import { interfaceDriverOf } from '../../drivers/drivers.ts'
import type { ObservedNamespace } from '../../model/observed.ts'
import { describeOverlap, linkOverlaps } from '../../plan/ipam/range-overlap.ts'
import { pathWithTools } from '../../system/process/programs.ts'
import { readDocuments, readLinks } from '../../tools/ip.ts'
import { asOwn } from '../node/own-type.ts'
import type { Found } from './finding.ts'
import type { PluginEntry } from './list.ts'
import type { NetworkHead } from './own-plugin.ts'
import { subnetsOf } from './semantics.ts'

/** The links of the node, read once; undefined if they cannot be seen, or for other users than root. */
export function openNode(): () => ObservedNamespace | undefined {
  let seen: ObservedNamespace | undefined | 'not yet' = 'not yet'
  return () => {
    if (seen === 'not yet') seen = process.geteuid?.() === 0 ? hostLinks() : undefined
    return seen
  }
}

function hostLinks(): ObservedNamespace | undefined {
  const env = { PATH: pathWithTools(), LC_ALL: 'C' }
  const { status, stdout } = spawnSync('ip', ['-j', '-d', 'addr', 'show'], { env, encoding: 'utf8', timeout: 10_000 })
  return status === 0 ? { links: readLinks(readDocuments(stdout)), routes: new Map() } : undefined
}

/** Ranges of the file that an ADD refuses on this node (110); ranges from a runtime are unknown. */
export function rangesInUse(
  entry: PluginEntry,
  conf: OwnNetConf,
  host: ObservedNamespace | undefined,
): readonly Found[] {
  if (host === undefined || !('isGateway' in conf) || conf.allowOverlap || conf.ipam.kind !== 'pool') return []
  const written = subnetsOf(entry)
  const found = linkOverlaps(interfaceDriverOf(conf).gatewaySide(conf, []), host)
  const key = entry.conf['ipam'] === undefined ? 'podcidr' : 'ipam'
  return found
    .filter(({ range }) => written.includes(range))
    .map((overlap) => ({ id: 'range-in-use', message: describeOverlap(overlap), steps: [...entry.steps, key] }))
}

/** What an ADD refuses because the network has pods (110). */
export function networkChanged({ conf, steps }: PluginEntry, { name }: NetworkHead): readonly Found[] {
  const sent = { ...asOwn({ ...conf, type: 'trestle' }), name, cniVersion: '1.1.0' }
  const found = orElse(() => changeRefused(JSON.stringify(sent)), undefined)
  return found === undefined ? [] : [{ id: 'network-changed', message: found.message, cure: found.details, steps }]
}
