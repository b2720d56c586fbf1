// SPDX-License-Identifier: Apache-2.0
// The recorder of one call, a bundle of its own: the CNI path loads it when a call has failed, or when something asks
// for a record or a log (commands/call/keeper.ts).

import type { RecordedProcess, Recorder, SeenCall } from '../../commands/call/keeper.ts'
import { nowMs } from '../../system/process/clock.ts'
import { parseObject } from './configuration.ts'
import { type Recorded, recordText, type Subject, subjectOf } from './document.ts'
import { keepRecord, mostBytesOf, type RingName, recordId } from './ring.ts'
import type { NodeWorld } from './schema.ts'
import { areFailuresKept, readSwitch, type Settings, type StandIn, settingsOf } from './settings.ts'
import { nodeWorld, podWorld } from './world.ts'

/** Opens the recorder of a call. */
export function main(about: RecordedProcess): Recorder {
  const { env, stateRoot: root, isSwitched } = about
  const startedMs = Date.now() - nowMs()
  let settings: Settings & StandIn = {}
  let subject = subjectOf(env, {})
  let node: NodeWorld | undefined
  const begin = (stdin: string) => {
    const conf = parseObject(stdin) ?? {}
    subject = subjectOf(env, conf)
    settings = { ...settingsOf(conf), ...(isSwitched ? readSwitch(root) : {}) }
    if (isRecorded(settings, subject)) node = nodeWorld(root, subject.network)
    return undefined
  }
  const end = (seen: SeenCall) => {
    if (seen.stdin !== undefined) subject = subjectOf(env, parseObject(seen.stdin) ?? {})
    const hasFailed = seen.exitCode !== 0
    const around = node ?? nodeWorld(root, subject.network)
    const pod = hasFailed && subject.verb === 'ADD' && subject.netns !== '' ? podWorld(subject.netns) : undefined
    const id = recordId(startedMs)
    const recorded: Recorded = {
      ...{ id, startedMs, subject, env, seen, executions: seen.executions, standIn: {}, node: around, pod },
    }
    const keep = (ring: RingName, calls?: number) => {
      const text = recordText(recorded, mostBytesOf(ring, subject.verb))
      keepRecord(root, { id, ring, verb: subject.verb }, text, calls)
    }
    if (hasFailed && areFailuresKept(root)) unlessRefused(() => keep('failures'))
    if (isRecorded(settings, subject)) unlessRefused(() => keep('records', settings.record?.keep ?? usualKeep))
  }
  return { begin, end }
}

/** Calls of a verb that are kept where nothing says how many. */
const usualKeep = 100

function isRecorded({ record }: Settings, { network, pod }: Subject): boolean {
  if (record === undefined) return false
  const { only } = record
  return only === undefined || [network, pod?.name, pod && `${pod.namespace}/${pod.name}`].includes(only)
}

/** A full disk that refuses a record may have room for a line of the log. */
function unlessRefused(work: () => void): void {
  try {
    work()
  } catch {
    // Nobody's network depends on it.
  }
}
