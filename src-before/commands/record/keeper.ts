// SPDX-License-Identifier: Apache-2.0
// What is kept of a call: of each that fails, and of every call where a person or the configuration asks for a record
// or a log. A call that succeeds and is not asked about looks for one file.

import { existsSync } from 'node:fs'
import { orElse } from '../../cni/error.ts'
import type { Environment } from '../../cni/invocation.ts'
import { parseObject } from '../../cni/json.ts'
import { stateRoot } from '../../system/files/state.ts'
import { nowMs } from '../../system/process/clock.ts'
import { ownTypes } from '../../system/process/executable.ts'
import { type Execution, notedExecutions, noteExecutions } from '../../system/process/executions.ts'
import type { DispatchOutput } from '../call/dispatch.ts'
import { type Recorded, recordText, type Subject, subjectOf } from './document.ts'
import { log } from './log.ts'
import { keepRecord, mostBytesOf, type RingName, recordId } from './ring.ts'
import type { NodeWorld } from './schema.ts'
import { areFailuresKept, readSwitch, type Settings, type StandIn, settingsOf, switchFile } from './settings.ts'
import { answerOfPlugin, givenAnswer } from './stand-in.ts'
import { nodeWorld, podLinks, podWorld } from './world.ts'

/** A call as far as its process knows it. `ms`: since the process began. */
export interface SeenCall {
  readonly stdin?: string
  readonly stdout: string
  readonly stderr: string
  readonly exitCode: number
  readonly ms: number
}

/** The key of a configuration, whatever its case (cni/json.ts). */
const askedFor = /"(?:record|log)"/i

/** More of standard error is not kept. */
const mostStderr = 64 * 1024

/**
 * Keeps a call where something asks for that: no verdict depends on what is kept. The answer of a plugin in trestle's
 * place is no part of that: where it fails, the call fails.
 */
export function openKeeper(env: Environment) {
  noteExecutions()
  const root = stateRoot()
  const isSwitched = existsSync(switchFile(root))
  let [stdin, stderr]: [string | undefined, string] = [undefined, '']
  let asked: Asked | undefined
  const switched = () => (isSwitched ? (unlessItFails(() => readSwitch(root)) ?? {}) : {})
  return {
    /** Before the verb. A promise: the answer of another plugin, or a given one, in place of the verb's. */
    onStdin: (text: string): Promise<DispatchOutput> | undefined => {
      stdin = text
      if (!isSwitched && !askedFor.test(text)) return undefined
      asked = askedBy(env, text, switched())
      return answerInPlace(asked, env, text)
    },
    onStderr: (text: string) => {
      if (stderr.length < mostStderr) stderr += text
    },
    /** After the answer. */
    end: ({ stdout, exitCode }: DispatchOutput) => {
      const executions = notedExecutions()
      if (exitCode === 0 && asked === undefined) return
      const seen = { ...(stdin === undefined ? {} : { stdin }), stdout, stderr, exitCode, ms: nowMs() }
      unlessItFails(() => {
        // Also of a call whose standard input could not be read.
        const about = asked ?? askedBy(env, stdin ?? '', switched())
        keep({ root, env, about, seen, executions: [...executions, ...about.ofPlugin] })
      })
    },
  }
}

/** What is asked about a call, and what was seen before its verb. */
interface Asked {
  readonly subject: Subject
  readonly settings: Settings & StandIn
  readonly node: NodeWorld | undefined
  readonly isOwnType: boolean
  readonly ofPlugin: Execution[]
  podLinks?: readonly string[] | undefined
  readonly startedMs: number
}

/** The switch counts before the configuration. */
function askedBy(env: Environment, stdin: string, bySwitch: Settings): Asked {
  const conf = parseObject(stdin) ?? {}
  const subject = subjectOf(env, conf)
  const settings = { ...settingsOf(conf), ...bySwitch }
  const node = isRecorded(settings, subject) ? nodeAround(stateRoot(), subject) : undefined
  // Another plugin that delegates to trestle passes its own configuration on.
  const isOwnType = ownTypes().includes(conf['type'] as string)
  return { subject, settings, node, isOwnType, ofPlugin: [], startedMs: Date.now() - nowMs() }
}

/** The answer of record.wrap's plugin, or of record.answer. */
function answerInPlace(asked: Asked, env: Environment, stdin: string): Promise<DispatchOutput> | undefined {
  const { wraps: plugin, answers } = standInOf(asked)
  if (plugin !== undefined) {
    // trestle undoes what a failed ADD has made, and other plugins may leave that to DEL.
    if (asked.subject.verb === 'ADD') asked.podLinks = unlessItFails(() => podLinks(asked.subject.netns))
    return answerOfPlugin({ plugin, ownTypes: ownTypes(), env, stdin }, (each) => asked.ofPlugin.push(each))
  }
  return answers ? Promise.resolve(givenAnswer(asked.settings.answer ?? {}, asked.subject.verb, stdin)) : undefined
}

function standInOf({ settings: { wrap, answer }, isOwnType }: Asked): Recorded['standIn'] {
  if (!isOwnType) return {}
  return wrap === undefined ? (answer === undefined ? {} : { answers: true }) : { wraps: wrap }
}

/** An answered call, as the parts that keep it read it. */
interface Answered {
  readonly root: string
  readonly env: Environment
  readonly about: Asked
  readonly seen: SeenCall
  readonly executions: readonly Execution[]
}

function keep({ root, env, about, seen, executions }: Answered): void {
  const { subject, settings, startedMs } = about
  const standIn = standInOf(about)
  if (settings.log !== undefined) {
    const [traceparent, by, to] = [env['TRACEPARENT'], standIn.wraps ?? 'trestle', settings.log]
    unlessItFails(() => log(root, to, { subject, startedMs, seen, executions, traceparent, by }))
  }
  const [isFailure, isAsked] = [seen.exitCode !== 0 && areFailuresKept(root), isRecorded(settings, subject)]
  if (!isFailure && !isAsked) return
  const isFailedAdd = seen.exitCode !== 0 && subject.verb === 'ADD' && subject.netns !== ''
  const node = about.node ?? nodeAround(root, subject)
  const pod = isFailedAdd ? unlessItFails(() => podWorld(subject.netns, about.podLinks)) : undefined
  const isNetnsAbsent = subject.netns !== '' && !existsSync(subject.netns)
  const around = { node, pod, isNetnsAbsent }
  const recorded = { id: recordId(startedMs), startedMs, subject, env, seen, executions, standIn, ...around }
  if (isFailure) unlessItFails(() => keepIn('failures', { root, recorded }))
  if (isAsked) unlessItFails(() => keepIn('records', { root, recorded, calls: settings.record?.keep ?? usualKeep }))
}

/** A node that cannot be looked at ends neither the record nor the call. */
function nodeAround(root: string, subject: Subject): NodeWorld {
  const unknown: NodeWorld = { type: 'world', of: 'node', links: [], state: {}, isStateWhole: false }
  return unlessItFails(() => nodeWorld(root, subject)) ?? unknown
}

function keepIn(ring: RingName, { root, recorded, calls }: { root: string; recorded: Recorded; calls?: number }): void {
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

/**
 * Nobody's network depends on a record: a full or read-only disk, or a file in a directory's place, ends it alone. A
 * disk that refuses a record may have room for a line of the log.
 */
function unlessItFails<T>(work: () => T): T | undefined {
  return orElse(work, undefined)
}
