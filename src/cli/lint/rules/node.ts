// SPDX-License-Identifier: Apache-2.0
// What the node itself has against a configuration: subnets of its interfaces. Looked at by root where the plugins are
// installed; a configuration that is written elsewhere is not compared with that machine.

import { spawnSync } from 'node:child_process'
import type { NetConf } from '../../../cni/model/net-conf.ts'
import { readDocuments, readLinks } from '../../../compile/read-ip.ts'
import { describeOverlap, rangeOverlaps } from '../../../plan/ipam/range-overlap.ts'
import type { ObservedNamespace } from '../../../plan/model/observed.ts'
import { gatewaySide } from '../../../plan/modes/build-spec.ts'
import { gatewayModes } from '../../../plan/modes/modes.ts'
import { pathWithTools } from '../../../system/process/runner.ts'
import type { Found } from '../checks/finding.ts'
import type { PluginEntry } from './list.ts'
import { subnetsOf } from './overlaps.ts'

const timeoutMs = 5000

/** The links of the node, looked at once; undefined where they cannot be seen, or for anybody but root. */
export function openNode(): () => ObservedNamespace | undefined {
  let seen: ObservedNamespace | undefined | 'not yet' = 'not yet'
  return () => {
    if (seen === 'not yet') seen = process.geteuid?.() === 0 ? hostLinks() : undefined
    return seen
  }
}

function hostLinks(): ObservedNamespace | undefined {
  const env = { PATH: pathWithTools(), LC_ALL: 'C' }
  const { status, stdout } = spawnSync('ip', ['-j', '-d', 'addr', 'show'], {
    env,
    encoding: 'utf8',
    timeout: timeoutMs,
  })
  return status === 0 ? { links: readLinks(readDocuments(stdout)), routes: new Map() } : undefined
}

/** The ranges of the file that an ADD refuses on this node (110); those that a runtime gives are not known. */
export function rangesInUse(entry: PluginEntry, conf: NetConf, host: ObservedNamespace | undefined): readonly Found[] {
  const isPool = conf.ipam.kind === 'pool' && gatewayModes.includes(conf.mode)
  if (host === undefined || conf.allowOverlap || !isPool) return []
  const written = subnetsOf(entry)
  const found = rangeOverlaps({ network: gatewaySide(conf, []), host, others: [] })
  const key = entry.conf['ipam'] === undefined ? 'podcidr' : 'ipam'
  return found
    .filter(({ range }) => written.includes(range))
    .map((overlap) => ({ id: 'subnet-in-use', message: describeOverlap(overlap), steps: [...entry.steps, key] }))
}
