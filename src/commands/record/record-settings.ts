// SPDX-License-Identifier: Apache-2.0
// What is kept: by the switch file that `trestle record` writes, by the key `record` of a configuration, and failures
// unless they were switched off.

import { existsSync, rmSync } from 'node:fs'
import { isObject, parseObject } from '../../cni/json.ts'
import { readText, writeText } from '../../state/files.ts'
import { requireState, stateRoot } from '../../state/layout.ts'

interface RecordSettings {
  /** A network's name, or a pod's as NAME or NAMESPACE/NAME; absent: every call. */
  readonly only?: string
  /** The most calls of a verb. */
  readonly keep?: number
}

/** Absent parts are off. */
export interface Settings {
  readonly record?: RecordSettings
}

/** `record.wrap` and `record.answer`. */
export interface StandIn {
  readonly wrap?: string
  readonly answer?: Readonly<Record<string, unknown>>
}

/** Written by `trestle record`. */
export function switchFile(root: string): string {
  return `${root}/recording.json`
}

/** The switch file; what is no object there switches nothing. */
export function readSwitch(root: string): Settings {
  const read = readText(switchFile(root))
  if (read === undefined || read === 'unreadable') return {}
  const { record } = (parseObject(read.text) ?? {}) as Settings
  return isObject(record) ? { record } : {}
}

/** The file is gone when nothing is on: a call then looks for its name alone. */
export function writeSwitch(settings: { [K in keyof Settings]?: Settings[K] | undefined }): void {
  requireState()
  const file = switchFile(stateRoot())
  if (settings.record === undefined) rmSync(file, { force: true, recursive: true })
  else writeText(file, `${JSON.stringify(settings)}\n`)
}

/** Its being there switches the keeping of failures off. */
export function failuresOffFile(root: string): string {
  return `${root}/failures.off`
}

export function areFailuresKept(root: string): boolean {
  return !existsSync(failuresOffFile(root))
}

/** The settings of a configuration. A value of another type is none: the verb refuses it. */
export function settingsOf(conf: Readonly<Record<string, unknown>>): Settings & StandIn {
  const record = keyIn(conf, 'record')
  const fields = isObject(record) ? record : {}
  const [keep, wrap, answer] = [typeof record === 'number' ? record : fields['keep'], fields['wrap'], fields['answer']]
  const isOn = record === true || isObject(record) || (typeof record === 'number' && record > 0)
  return {
    ...(isOn ? { record: typeof keep === 'number' && keep > 0 ? { keep } : {} } : {}),
    ...(typeof wrap === 'string' ? { wrap } : {}),
    ...(isObject(answer) ? { answer } : {}),
  }
}

/** Exactly, else regardless of case, as keys are read (cni/json.ts). */
function keyIn(conf: Readonly<Record<string, unknown>>, key: string): unknown {
  if (Object.hasOwn(conf, key)) return conf[key]
  return conf[Object.keys(conf).find((name) => name.toLowerCase() === key) ?? key]
}
