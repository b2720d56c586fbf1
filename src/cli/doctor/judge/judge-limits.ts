// SPDX-License-Identifier: Apache-2.0
// What is used up, or nearly.

import { type Finding, findingOf } from '../checks/finding.ts'
import type { SharedCheckId } from '../checks/shared-checks.ts'
import type { LimitFacts, NodeFacts } from '../look/facts.ts'

const nearlyFull = 0.9

const limitChecks: Readonly<Record<LimitFacts['what'], SharedCheckId>> = {
  inotify: 'inotify-limit',
  watches: 'inotify-limit',
  files: 'file-limit',
  processes: 'process-limit',
  disk: 'disk-full',
  inodes: 'disk-full',
  neighbours: 'neighbours-full',
  conntrack: 'conntrack-full',
}

/** A disk is full later than a table, and by itself. */
const fullFrom: Readonly<Partial<Record<LimitFacts['what'], number>>> = { disk: 0.97, inodes: 0.97 }

/** A state directory that is full is STATUS's to tell. */
export function judgeLimits({ limits = [], readiness }: NodeFacts): readonly Finding[] {
  const isTold = ({ what, used, most }: LimitFacts) =>
    limitChecks[what] === 'disk-full' && used >= most && readiness.some(({ id }) => id === 'not-ready-state')
  return limits
    .filter(({ what, used, most }) => used / most >= (fullFrom[what] ?? nearlyFull))
    .filter((limit) => !isTold(limit))
    .map((limit) => {
      const { what, on, used, most } = limit
      const severity = used >= most ? 'error' : 'warning'
      const run = raiseCommand(limit)
      const more = run === undefined ? {} : { run }
      return findingOf({ id: limitChecks[what], on, seen: `${what}: ${used} of ${most} in use`, severity, ...more })
    })
}

/** Raises the limit now; what is used and a half more have room. Undefined: as the check says. */
function raiseCommand({ what, on, pid, used, most }: LimitFacts): string | undefined {
  const enough = 2 ** Math.ceil(Math.log2(Math.max(used, most) * 2))
  if (what === 'processes') return `sysctl -w kernel.pid_max=${enough} kernel.threads-max=${enough}`
  if (what === 'conntrack') return `sysctl -w net.netfilter.nf_conntrack_max=${enough}`
  if (what === 'files')
    return pid === undefined ? `sysctl -w fs.file-max=${enough}` : `prlimit --pid ${pid} --nofile=${enough}:${enough}`
  if (what !== 'neighbours') return undefined
  const key = `net.ipv${on === 'IPv6' ? 6 : 4}.neigh.default`
  return `sysctl -w ${[1, 2, 3].map((at) => `${key}.gc_thresh${at}=${4096 * 2 ** (at - 1)}`).join(' ')}`
}
