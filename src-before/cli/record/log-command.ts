// SPDX-License-Identifier: Apache-2.0
// `trestle log`: switches the log of calls, and prints its last lines.

import { closeSync } from 'node:fs'
import { dirname } from 'node:path'
import { CniError, oneLine } from '../../cni/error.ts'
import { parseObject } from '../../cni/json.ts'
import { defaultLogFile, openLog, traceFile } from '../../commands/record/log.ts'
import { readSwitch, writeSwitch } from '../../commands/record/settings.ts'
import { makeDirectory } from '../../system/files/files.ts'
import { requireState, stateRoot } from '../../system/files/state.ts'
import { textIfThere } from '../node/if-there.ts'
import { type Command, exitCode, type Input, requireRead, UsageError } from '../shell/command.ts'
import { print } from '../shell/output.ts'
import { requireRoot } from '../shell/self.ts'

export const logCommand: Command = {
  name: 'log',
  words: '[ACTION]',
  maxWords: 1,
  summary: 'write a line for each CNI call, also as traces for OpenTelemetry',
  description: [
    'ACTION is on, off or show (default). on writes a JSON line for each call from now on, off ends that; no',
    'configuration changes. A line has verb, pod, container, addresses, outcome and the time of each process, under',
    'the names of OpenTelemetry. --otlp writes traces beside it, as OTLP JSON lines: children of TRACEPARENT, or one',
    'trace for each container. A file has at most 10 MB, and the one before it is kept. show prints the last lines.',
  ].join('\n'),
  options: {
    file: { type: 'string', value: 'FILE', help: 'on: an absolute path; default: /run/trestle/log/calls.jsonl' },
    otlp: { type: 'boolean', help: 'on: also traces.jsonl beside the log' },
  },
  examples: ['trestle log on', 'trestle log', 'trestle log on --otlp --file /var/log/trestle.jsonl', 'trestle log off'],
  run,
}

function run(input: Input): number {
  requireRoot('log', 'the log is a file that only root may read')
  const [action = 'show'] = input.words
  requireRead(input, action, action === 'on' ? Object.keys(logCommand.options) : [])
  if (action === 'on') return switchOn(input)
  if (action === 'off') return switchOff(input)
  if (action === 'show') return show(input)
  throw new UsageError(`there is no "log ${action}"; use on, off or show`)
}

function switchOn(input: Input): number {
  const { file, otlp } = input.values
  const path = typeof file === 'string' ? file : defaultLogFile(stateRoot())
  requireState()
  if (file === undefined) makeDirectory(dirname(path))
  requireLogs(otlp === true ? [path, traceFile(path)] : [path])
  const settings = { ...(typeof file === 'string' ? { file } : {}), ...(otlp === true ? { isOtlp: true } : {}) }
  writeSwitch({ ...readSwitch(stateRoot()), log: settings })
  const traces = otlp === true ? ` and a trace to ${traceFile(path)}` : ''
  const text = `trestle writes a line for each call to ${path}${traces}; \`trestle log off\` ends it\n`
  return print(input, { command: 'log', document: { log: true, file: path }, text, code: exitCode.fine })
}

function switchOff(input: Input): number {
  const { log, ...others } = readSwitch(stateRoot())
  writeSwitch(others)
  const document = { log: false, file: log?.file ?? defaultLogFile(stateRoot()) }
  return print(input, {
    command: 'log',
    document,
    text: 'trestle writes no log; its files stay\n',
    code: exitCode.fine,
  })
}

/** A call tells nobody of a file that it refuses. Throws CniError 5. */
function requireLogs(files: readonly string[]): void {
  for (const file of files) {
    try {
      closeSync(openLog(file))
    } catch (cause) {
      const details = 'a log is made by trestle, or is a file of root with mode 0600, in a directory that is no link'
      throw new CniError('output-unwritable', `cannot log to ${oneLine((cause as Error).message)}`, { details, cause })
    }
  }
}

const shown = 20

function show(input: Input): number {
  const { log } = readSwitch(stateRoot())
  const file = log?.file ?? defaultLogFile(stateRoot())
  // Room for some of the longest lines.
  const lines = textIfThere(file)
    .slice(-256 * 1024)
    .trimEnd()
    .split('\n')
    .slice(-shown)
    .map((line) => parseObject(line))
    .filter((line) => line !== undefined)
  const rows = lines.map((line) => {
    const whose = line['k8s.pod.name'] ?? line['container.id'] ?? ''
    return `${line['time']}  ${line['duration_ms']} ms  ${line['body']}  ${whose}\n`
  })
  const state = `the log is ${log === undefined ? 'off but for configurations with the key "log"' : `on: ${file}`}\n`
  const document = { lines, file, log: log !== undefined }
  return print(input, { command: 'log', document, text: `${rows.join('')}${state}`, code: exitCode.fine })
}
