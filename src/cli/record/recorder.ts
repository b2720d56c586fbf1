// SPDX-License-Identifier: Apache-2.0
// The recorder of one call, a bundle of its own: the CNI path loads it when a call has failed, or when something asks
// for a record or a log (commands/call/keeper.ts).

import type { RecordedProcess, Recorder, SeenCall } from '../../commands/call/keeper.ts'
import { nowMs } from '../../system/process/clock.ts'
import { ownTypes } from '../../system/process/executable.ts'
import type { Execution } from '../../system/process/executions.ts'
import { parseObject } from './configuration.ts'
import { type Recorded, recordText, type Subject, subjectOf } from './document.ts'
import { log } from './log.ts'
import { keepRecord, mostBytesOf, type RingName, recordId } from './ring.ts'
import type { NodeWorld } from './schema.ts'
import { areFailuresKept, readSwitch, type Settings, type StandIn, settingsOf } from './settings.ts'
import { answerOfPlugin, givenAnswer } from './stand-in.ts'
import { nodeWorld, podWorld } from './world.ts'

/** Opens the recorder of a call. */
export function main({ env, stateRoot: root, isSwitched }: RecordedProcess): Recorder {
  const startedMs = Date.now() - nowMs()
  // Also of a call whose standard input could not be read.
  let settings: Settings & StandIn = isSwitched ? readSwitch(root) : {}
  let standIn: Recorded['standIn'] = {}
  let node: NodeWorld | undefined
  const ofPlugin: Execution[] = []
  const begin = (stdin: string) => {
    const conf = parseObject(stdin) ?? {}
    const subject = subjectOf(env, conf)
    settings = { ...settingsOf(conf), ...settings }
    if (isRecorded(settings, subject)) node = nodeWorld(root, subject.network)
    const own = ownTypes()
    // Another plugin that delegates to trestle passes its own configuration on.
    if (!own.includes(String(conf['type']))) return undefined
    const { wrap, answer } = settings
    if (wrap !== undefined) {
      standIn = { wraps: wrap }
      return answerOfPlugin({ plugin: wrap, ownTypes: own, env, stdin }, (each) => ofPlugin.push(each))
    }
    if (answer === undefined) return undefined
    standIn = { answers: true }
    return Promise.resolve(givenAnswer(answer, subject.verb, stdin))
  }
  const end = (seen: SeenCall) => {
    const subject = subjectOf(env, parseObject(seen.stdin ?? '') ?? {})
    const executions = [...seen.executions, ...ofPlugin]
    if (settings.log !== undefined) {
      const logged = {
        subject,
        startedMs,
        seen,
        executions,
        traceparent: env['TRACEPARENT'],
        by: standIn.wraps ?? 'trestle',
      }
      unlessRefused(() => log(root, settings.log ?? {}, logged))
    }
    const [isFailure, isAsked] = [seen.exitCode !== 0 && areFailuresKept(root), isRecorded(settings, subject)]
    if (!isFailure && !isAsked) return
    const isFailedAdd = seen.exitCode !== 0 && subject.verb === 'ADD' && subject.netns !== ''
    const around = {
      node: node ?? nodeWorld(root, subject.network),
      pod: isFailedAdd ? podWorld(subject.netns) : undefined,
    }
    const recorded: Recorded = {
      id: recordId(startedMs),
      startedMs,
      subject,
      env,
      seen,
      executions,
      standIn,
      ...around,
    }
    if (isFailure) unlessRefused(() => keep(root, recorded, 'failures'))
    if (isAsked) unlessRefused(() => keep(root, recorded, 'records', settings.record?.keep ?? usualKeep))
  }
  return { begin, end }
}

function keep(root: string, recorded: Recorded, ring: RingName, calls?: number): void {
  const { id, subject } = recorded
  keepRecord(root, { id, ring, verb: subject.verb }, recordText(recorded, mostBytesOf(ring, subject.verb)), calls)
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
