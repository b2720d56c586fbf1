// SPDX-License-Identifier: Apache-2.0
// `trestle replay`: runs a recorded call again on a private node, and shows what differs.

import { spawn } from 'node:child_process'
import { existsSync, realpathSync } from 'node:fs'
import { basename } from 'node:path'
import { text } from 'node:stream/consumers'
import { bareAddress } from '../../cni/addresses.ts'
import type { CniError } from '../../cni/errors.ts'
import { isObject, parseObject } from '../../cni/json.ts'
import { readResult } from '../../cni/results.ts'
import { isExecutable, toolPath } from '../../process/runner.ts'
import { networkOfFile } from '../by-hand/network.ts'
import { type Command, exitCode, type Input, UsageError } from '../command.ts'
import { failureOf } from '../failure.ts'
import { painted } from '../findings.ts'
import { type PluginConf, pluginPath, requestConf } from '../network-list.ts'
import { type Output, print } from '../output.ts'
import { planOf } from '../plan.ts'
import { type Call, type CallRecord, newestFailure, pathOfRecord, readRecord } from '../record/read-record.ts'
import { inputOf } from '../record/stand-in.ts'
import { requireRoot, thisProgram, unshareArgs } from '../self.ts'
import { type Compared, differences, lineDifference, type Part, withoutMadeUp } from './difference.ts'
import type { ReplayInput, ReplayRun } from './replay-inside.ts'

export const replayCommand: Command = {
  name: 'replay',
  words: '[FILE or ID]',
  maxWords: 1,
  summary: 'run a recorded call again on a private node, and show what differs',
  description: [
    'Makes a node with an uplink and an empty pod in private namespaces, without other pods. Runs the recorded call',
    'there, which gets the recorded addresses again, and compares exit status, code, error id, answer, the commands',
    'that trestle ran, and for --against the links, addresses, routes and rules that it leaves. The machine stays',
    'unchanged: its files are read-only. A record of another plugin (record.wrap) runs that plugin of CNI_PATH',
    '(default /opt/cni/bin). Without FILE or ID: the call that `trestle last` shows, or the newest record. Exit code 1:',
    'something differs.',
  ].join('\n'),
  options: {
    against: { type: 'string', value: 'FILE', help: 'compare this executable, in the place of what was recorded' },
    conf: { type: 'string', value: 'FILE', help: 'with the configuration of FILE, in the place of the recorded one' },
    keep: { type: 'boolean', help: 'keep the private node until this command is ended with Ctrl-C' },
    plan: { type: 'boolean', help: 'run nothing: compare the recorded commands with those that trestle would run' },
  },
  examples: [
    'trestle replay',
    'trestle replay 20261124-201719 --conf 10-new.conflist',
    'trestle replay call.jsonl --against ./trestle-new',
    'trestle replay call.jsonl --plan',
  ],
  run,
}

async function run(input: Input): Promise<number> {
  const { words, values } = input
  const record = readRecord(pathOf(words[0], input.output))
  if (/\.\.\. \(\d+ more characters\)$/.test(record.call.stdin ?? ''))
    throw lacking('its standard input was too long to be recorded whole')
  const against = values['against'] as string | undefined
  if (against !== undefined && !isExecutable(against)) throw new UsageError(`--against ${against}: no executable file`)
  const stdin = stdinOf(record, { conf: values['conf'] as string | undefined, against })
  if (values['plan'] === true) return await comparePlan(input, record, stdin)
  requireRoot('replay', 'it makes network namespaces')
  const isKept = values['keep'] === true
  const comparedBy = record.call.wraps === undefined ? (line: string) => line : withoutMadeUp(stdin)
  const compare = (first: Compared, second: Compared, titles: Report['titles']) => {
    const isOther = against !== undefined || values['conf'] !== undefined
    const success = isOther ? 'the call goes well now' : 'the failure was not reproduced'
    const remark = first.exit !== 0 && second.exit === 0 ? success : undefined
    return report(input, { record, parts: differences(first, second, comparedBy), titles, remark })
  }
  if (against === undefined) {
    const replayed = await runOnce(input, record, { file: programOf(record), stdin, isKept })
    return compare(recorded(record), replayed, ['recorded', 'replayed'])
  }
  // The plugin that record.answer stands for is only being written.
  const isAnswered = record.call.answers === true
  const own = isAnswered ? 'recorded' : programOf(record)
  const first = isAnswered ? recorded(record) : await runOnce(input, record, { file: own, stdin, isKept: false })
  const second = await runOnce(input, record, { file: realpathSync(against), stdin, isKept })
  return compare(first, second, [own, against])
}

function pathOf(word: string | undefined, output: Output): string {
  if (word !== undefined && existsSync(word)) return word
  const failed = word === undefined ? newestFailure(output) : undefined
  return failed?.path ?? pathOfRecord(word)
}

/** The input of the plugin: with another configuration, and as of a plugin that trestle stood in for. */
function stdinOf({ call }: CallRecord, by: { conf: string | undefined; against: string | undefined }): string {
  const { wraps, answers, stdin = '' } = call
  const sent = by.conf === undefined ? stdin : withConf(call, by.conf)
  const plugin = wraps ?? (answers === true && by.against !== undefined ? basename(by.against) : undefined)
  return plugin === undefined ? sent : inputOf({ plugin, stdin: sent })
}

/** The plugin's entry of a configuration, with what the runtime added to the recorded one and this one declares. */
function withConf(call: Call, file: string): string {
  const { type, prevResult, runtimeConfig } = parseObject(call.stdin ?? '') ?? {}
  const { list } = networkOfFile(file)
  const conf = entryOf(call, list.plugins)
  if (conf === undefined) throw new UsageError(`--conf ${file}: it has no plugin "${String(type)}"`)
  const capabilityArgs = isObject(runtimeConfig) ? runtimeConfig : {}
  return JSON.stringify(requestConf(list, conf, { prevResult, capabilityArgs }))
}

/**
 * The entry that was called. Of two of its type the one that is chained, as the recorded one was; in an ADD without a
 * mode prevResult tells, in other verbs every plugin of a list gets one.
 */
export function entryOf(
  { stdin = '', verb, wraps }: Pick<Call, 'stdin' | 'verb' | 'wraps'>,
  plugins: readonly PluginConf[],
): PluginConf | undefined {
  const { type, mode, prevResult } = parseObject(stdin) ?? {}
  const wasChained = (mode ?? usualMode(verb === 'ADD' && prevResult !== undefined)) === 'chained'
  const entries = plugins.map((conf, at) => ({ conf, isChained: (conf['mode'] ?? usualMode(at > 0)) === 'chained' }))
  const ofType = entries.filter(({ conf }) => conf.type === type || conf.type === wraps)
  return (ofType.find(({ isChained }) => isChained === wasChained) ?? ofType[0])?.conf
}

/** What the record says of the run. The links of a pod are known of a failed ADD. */
function recorded({ result, executions, call }: CallRecord): Compared {
  return { exit: result.exit, stdout: result.stdout, ...(call.wraps === undefined ? { executions } : {}) }
}

/** This executable, or of a wrapped plugin the one in CNI_PATH: the record's own paths are not trusted. */
function programOf({ call }: CallRecord): string {
  if (call.answers === true) throw lacking('its answer was given by the configuration: name a plugin with --against')
  if (call.wraps === undefined) return ownProgram()
  const name = call.wraps
  const files = pluginPath()
    .split(':')
    .map((directory) => `${directory}/${name}`)
  const found = /^[\w.-]+$/.test(name) ? files.find(isExecutable) : undefined
  if (found !== undefined) return found
  throw lacking(`the plugin "${name}" is not in ${pluginPath()}: set CNI_PATH to its directory`)
}

function ownProgram(): string {
  const { file, args } = thisProgram()
  if (args.length > 0) throw lacking('this trestle runs unpacked: use dist/trestle')
  return file
}

function lacking(why: string): CniError {
  return failureOf('replay-not-possible', `the call cannot be replayed: ${why}`)
}

/** Runs the call on a node of its own. Throws CniError 50 where there can be none. */
async function runOnce(
  input: Input,
  record: CallRecord,
  run: { file: string; stdin: string; isKept: boolean },
): Promise<ReplayRun> {
  const call = { ...record.call, env: envWithAddresses(record) }
  const inside: ReplayInput = { ...run, call, mtu: mtuOf(record) ?? 1500, cniPath: pluginPath() }
  const { file: self, args } = thisProgram()
  const child = spawn('unshare', [...unshareArgs, '--', self, ...args, '__replay-inside'], {
    stdio: ['pipe', 'pipe', 'pipe'],
    env: { PATH: toolPath() },
  })
  const end = () => child.kill('SIGKILL')
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, end)
  child.on('error', () => undefined)
  child.stdin.on('error', () => undefined)
  child.stdin.end(JSON.stringify(inside))
  const stderr = text(child.stderr)
  const line = await firstLine(child.stdout)
  if (line === undefined) {
    throw failureOf('replay-not-possible', 'the private node of the replay cannot be made', {
      details: (await stderr).trim(),
    })
  }
  if (run.isKept) {
    input.output.err(`the node stays until Ctrl-C: nsenter --target $(pgrep -P ${child.pid}) --net --mount --pid\n`)
    await new Promise((resolve) => child.on('exit', resolve))
  } else end()
  return JSON.parse(line) as ReplayRun
}

async function firstLine(stream: AsyncIterable<Buffer>): Promise<string | undefined> {
  const chunks: Buffer[] = []
  for await (const chunk of stream) {
    chunks.push(chunk)
    if (chunk.includes('\n')) return Buffer.concat(chunks).toString('utf8')
  }
  return undefined
}

interface Report {
  readonly record: CallRecord
  readonly parts: readonly Part[]
  readonly titles: readonly [string, string]
  /** What the difference means. */
  readonly remark?: string | undefined
}

function report(input: Input, { record, parts, titles, remark }: Report): number {
  const { call, header } = record
  const differs = parts.some(({ lines }) => lines.length > 0)
  const masked = call.stdin?.includes('***') ? 'secrets of the configuration are masked in the record\n' : ''
  const rows = parts.map(({ title, lines }) => {
    const symbol = lines.length === 0 ? painted('ok  ', 'ok', input.output) : painted('DIFF', 'fail', input.output)
    return `  ${symbol}  ${title}\n${lines
      .slice(0, 60)
      .map((line) => `          ${line}\n`)
      .join('')}`
  })
  const head = `${call.verb} of record ${header.id}: - ${titles[0]}, + ${titles[1]}\n\n`
  const verdict = differs
    ? `\nthe runs differ${remark === undefined ? '' : `: ${remark}`}\n`
    : '\nboth runs are the same\n'
  const document = { record: header.id, from: titles[0], to: titles[1], parts, differs }
  const code = differs ? exitCode.findings : exitCode.fine
  return print(input, { command: 'replay', document, text: `${head}${rows.join('')}${verdict}${masked}`, code })
}

/** Inputs of ip, nft and tc: their order depends on which tool ends first. */
async function comparePlan(input: Input, record: CallRecord, stdin: string): Promise<number> {
  const { call, executions, result } = record
  if (call.wraps !== undefined || call.answers === true || call.verb !== 'ADD' || result.exit !== 0)
    throw lacking('only an ADD of trestle itself that succeeded can be planned')
  const mtu = mtuOf(record)
  const conf = parseObject(stdin) ?? {}
  const isAuto = mtu !== undefined && (conf['mtu'] ?? 'auto') === 'auto'
  const isFirst = executions.some((each) => each.stdin?.includes('add table'))
  const env = envWithAddresses(record)
  const steps = await planOf(isAuto ? JSON.stringify({ ...conf, mtu }) : stdin, isFirst ? 'first' : 'later', env)
  const planned = steps.flatMap(({ command, stdin: text }) => (command.startsWith('written') ? [] : inputLines(text)))
  const ran = executions.flatMap(({ stdin }) => inputLines(stdin ?? ''))
  const lines = lineDifference(ran.toSorted(), planned.toSorted())
  const part = { title: `lines for ip, nft, tc and sysctl (${ran.length} and ${planned.length})`, lines }
  return report(input, { record, parts: [part], titles: ['recorded', 'planned'] })
}

/** Asks for the addresses of the answer: a node without other pods would give the first of each range. */
function envWithAddresses({ call: { env, verb, wraps }, result }: CallRecord): Readonly<Record<string, string>> {
  if (verb !== 'ADD' || result.exit !== 0 || wraps !== undefined || /\bIP=/.test(env['CNI_ARGS'] ?? '')) return env
  const { ips } = readResult(parseObject(result.stdout) ?? {}, '0.1.0')
  const args = [env['CNI_ARGS'] || 'IgnoreUnknown=1', `IP=${ips.map((ip) => bareAddress(ip.address)).join(',')}`]
  return ips.length === 0 ? env : { ...env, CNI_ARGS: args.join(';') }
}

/** Of the links that the call made. Bytes. */
function mtuOf({ executions }: CallRecord): number | undefined {
  const [, mtu] = executions.map(({ stdin = '' }) => /^link add .* mtu (\d+)/m.exec(stdin)).find((found) => found) ?? []
  return mtu === undefined ? undefined : Number(mtu)
}

/** Without looks: which of them are made depends on what is found. */
function inputLines(text: string): readonly string[] {
  return text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '' && !/\bshow\b|^list /.test(line))
}

function usualMode(isBehind: boolean): string {
  return isBehind ? 'chained' : 'bridge'
}
