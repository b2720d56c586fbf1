// SPDX-License-Identifier: Apache-2.0
// What is recorded: by the switch file that `trestle record` writes, and by the key `record` of a configuration.

import { rmSync } from 'node:fs'
import { isObject, type JsonObject, lookUp, parseObject } from '../cni/json.ts'
import { readableText, writeText } from '../state/files.ts'
import { requireState } from '../state/layout.ts'
import { switchFile } from './recorder.ts'

export interface Settings {
  /** The most calls of a verb. */
  readonly keep?: number
  /** A network's name, or a pod's as NAME or NAMESPACE/NAME; absent: every call. */
  readonly only?: string
  /** The plugin in whose place trestle was called. */
  readonly wrap?: string
  /** The answers of a plugin that makes nothing, by verb. */
  readonly answer?: JsonObject
}

/** undefined: off. */
export function readSwitch(): Settings | undefined {
  return settingsOf(parseObject(readableText(switchFile()) ?? '')?.['record'])
}

/** The file is gone when recording is off: a call then looks for its name alone. */
export function writeSwitch(settings: Settings | undefined): void {
  requireState()
  if (settings === undefined) rmSync(switchFile(), { force: true, recursive: true })
  else writeText(switchFile(), `${JSON.stringify({ record: settings })}\n`)
}

/** The key `record` of a configuration; undefined: off. */
export function recordKeyOf(conf: JsonObject): Settings | undefined {
  return settingsOf(lookUp(conf, 'record'))
}

/** `true`, a number of calls, or an object. A value of another type is none: the verb refuses it. */
function settingsOf(value: unknown): Settings | undefined {
  const isOn = value === true || isObject(value) || (typeof value === 'number' && value > 0)
  if (!isOn) return undefined
  const fields: JsonObject = isObject(value) ? value : {}
  const keep = typeof value === 'number' ? value : fields['keep']
  const { only, wrap, answer } = fields
  return {
    ...(typeof keep === 'number' && keep > 0 ? { keep } : {}),
    ...(typeof only === 'string' ? { only } : {}),
    ...(typeof wrap === 'string' ? { wrap } : {}),
    ...(isObject(answer) ? { answer } : {}),
  }
}
