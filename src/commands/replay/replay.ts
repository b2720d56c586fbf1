// SPDX-License-Identifier: Apache-2.0
// `trestle replay`: runs a recorded call again on a private node, and shows what differs.

import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, realpathSync, writeFileSync } from 'node:fs'
import { basename } from 'node:path'
import { bareAddress } from '../../cni/addresses.ts'
import type { CniError } from '../../cni/errors.ts'
import { asObject, parseObject } from '../../cni/json.ts'
import { readResult } from '../../cni/results.ts'
import { isExecutable, toolPath } from '../../process/runner.ts'
import { inputOf } from '../../recording/stand-in.ts'
import { networkOfFile } from '../by-hand/network.ts'
import { type Command, exitCode, type Input, UsageError } from '../command.ts'
import { failureOf } from '../failure.ts'
import { painted } from '../findings.ts'
import { orElse } from '../if-there.ts'
import { print } from '../output.ts'
import { pluginPath, requestConf } from '../plugin-runtime.ts'
import { insideNode, makePod, type PrivateNode, runOnPrivateNode } from '../private-node.ts'
import { type Call, type CallRecord, newestFailure, pathOfRecord, readRecord } from '../record/read-record.ts'
import type { ExecLine } from '../record/record-schema.ts'
import { requireRoot, thisProgram } from '../self.ts'
import { differencesOf, type Run } from './difference.ts'

export const replayCommand: Command = {
  name: 'replay',
  words: '[FILE or ID]',
  maxWords: 1,
  summary: 'run a recorded call again on a private node, and show what differs',
  description: [
    'Runs a recorded call again in private namespaces with an uplink, and compares exit status, code, answer and',
    'commands. Without FILE or ID: the call that `trestle last` shows, or the newest record. Exit code 1: something',
    'differs.',
  ].join('\n'),
  options: {
    against: { type: 'string', value: 'FILE', help: 'run this executable too, and compare both runs' },
    conf: { type: 'string', value: 'FILE', help: 'with the configuration of FILE, in the place of the recorded one' },
  },
  examples: [
    'trestle replay',
    'trestle replay 20261124-201719 --conf 10-new.conflist',
    'trestle replay call.jsonl --against ./trestle-new',
  ],
  run,
}

async function run(input: Input): Promise<number> {
  const { words, values, output } = input
  requireRoot('replay', 'it makes network namespaces')
  const [word] = words
  const isFile = word !== undefined && existsSync(word)
  const failed = word === undefined ? newestFailure(output) : undefined
  const record = readRecord(isFile ? word : (failed?.path ?? pathOfRecord(word)))
  const { call, result, executions } = record
  if (/\.\.\. \(\d+ more characters\)$/.test(call.stdin ?? '')) {
    throw lacking('its standard input was too long to be recorded whole')
  }
  const against = values['against'] as string | undefined
  if (against !== undefined && !isExecutable(against)) throw new UsageError(`--against ${against}: no executable file`)
  const conf = values['conf'] as string | undefined
  const { wraps, answers } = call
  const sent = conf === undefined ? (call.stdin ?? '') : withConf(call, conf)
  // Where trestle answered for a plugin that is still to be written, that is the other executable.
  const isFirstVersion = answers === true && against !== undefined
  const plugin = isFirstVersion ? basename(against) : wraps
  const stdin = plugin === undefined ? sent : inputOf({ plugin, stdin: sent })
  const own = isFirstVersion ? undefined : programOf(call)
  const recorded: Run = { ...result, ...(wraps === undefined ? { executions } : {}) }
  const first = against === undefined || own === undefined ? recorded : await runOnce(record, own, stdin)
  const second = await runOnce(record, against === undefined ? (own ?? '') : realpathSync(against), stdin)
  const isOther = against !== undefined || conf !== undefined
  const success = isOther ? 'the call goes well now' : 'the failure was not reproduced'
  const titles = [against === undefined ? 'recorded' : (own ?? 'recorded'), against ?? 'replayed'] as const
  const remark = first.exit !== 0 && second.exit === 0 ? `: ${success}` : ''
  return report(input, { record, first, second, titles, remark })
}

function lacking(why: string): CniError {
  return failureOf('replay-not-possible', `the call cannot be replayed: ${why}`)
}

/** The plugin's entry of a configuration, with what the runtime added to the recorded one and this one declares. */
function withConf({ stdin = '', wraps }: Call, file: string): string {
  const { type, mode, prevResult, runtimeConfig } = parseObject(stdin) ?? {}
  const { list } = networkOfFile(file)
  const ofType = list.plugins.filter((conf) => conf.type === type || conf.type === wraps)
  // Of two entries of its type the one that is chained, as the recorded one was.
  const wasChained = mode === undefined ? prevResult !== undefined : mode === 'chained'
  const conf = ofType.find((each) => list.plugins.indexOf(each) > 0 === wasChained) ?? ofType[0]
  if (conf === undefined) throw new UsageError(`--conf ${file}: it has no plugin "${type}"`)
  return JSON.stringify(requestConf(list, conf, { prevResult, capabilityArgs: asObject(runtimeConfig) }))
}

/** This executable, or of a wrapped plugin the one in CNI_PATH: the record's own paths are not trusted. */
function programOf({ answers, wraps: name }: Call): string {
  if (answers === true) throw lacking('its answer was given by the configuration: name a plugin with --against')
  if (name === undefined) {
    const { file, args } = thisProgram()
    if (args.length > 0) throw lacking('this trestle runs unpacked: use dist/trestle')
    return file
  }
  const files = pluginPath()
    .split(':')
    .map((directory) => `${directory}/${name}`)
  const found = /^[\w.-]+$/.test(name) ? files.find(isExecutable) : undefined
  if (found !== undefined) return found
  throw lacking(`the plugin "${name}" is not in ${pluginPath()}: set CNI_PATH to its directory`)
}

interface ReplayInput extends PrivateNode {
  readonly file: string
  readonly env: Readonly<Record<string, string>>
  readonly stdin: string
  /** The pod's namespace, as the call names it; empty: none. */
  readonly netns: string
}

async function runOnce({ call, executions, result }: CallRecord, file: string, stdin: string): Promise<Run> {
  const mtu = executions.map(({ stdin: text = '' }) => /^link add .* mtu (\d+)/m.exec(text)?.[1]).find((found) => found)
  const cniPath = pluginPath()
  const named = Object.entries(call.env).filter(([name]) => /^CNI_[A-Z]+$/.test(name))
  const env = { ...Object.fromEntries(named), PATH: toolPath(), CNI_PATH: cniPath, ...argsWith(call, result) }
  const programs = [...cniPath.split(':'), file]
  const node = { programs, uplink: 'node0', mtu: Number(mtu ?? 1500), links: [], netns: call.netns ?? '' }
  return await runOnPrivateNode<Run, ReplayInput>('__replay-inside', { ...node, file, env, stdin })
}

/** Asks for the addresses of the answer: a node without other pods would give the first of each range. */
function argsWith({ env, verb, wraps }: Call, { exit, stdout }: CallRecord['result']) {
  const args = env['CNI_ARGS'] ?? ''
  if (verb !== 'ADD' || exit !== 0 || wraps !== undefined || /\bIP=/.test(args)) return {}
  const { ips } = readResult(parseObject(stdout) ?? {}, '0.1.0')
  const wanted = ips.map((ip) => bareAddress(ip.address)).join(',')
  return ips.length === 0 ? {} : { CNI_ARGS: `${args || 'IgnoreUnknown=1'};IP=${wanted}` }
}

/** A runtime waits longer; a person does not. */
const callMs = 60_000
const stateDirectory = '/run/trestle'

/** The inner process: runs the call of standard input once. */
export async function runReplay(): Promise<number> {
  return await insideNode<ReplayInput>((input): Run => {
    const netns = input.netns === '' ? '' : makePod()
    // trestle then records its own call: its processes are compared.
    mkdirSync(stateDirectory, { mode: 0o700 })
    writeFileSync(`${stateDirectory}/recording.json`, '{"record":{}}')
    const env = netns === '' ? input.env : { ...input.env, CNI_NETNS: netns }
    const options = { input: input.stdin, env, encoding: 'utf8', timeout: callMs } as const
    const { status, signal, stdout, error } = spawnSync(input.file, [], options)
    // Another plugin, or a trestle of before, does not record.
    const recorded = orElse((): readonly ExecLine[] | undefined => {
      return readRecord(pathOfRecord(undefined, stateDirectory)).executions
    }, undefined)
    return {
      exit: status ?? (signal === null ? 127 : 137),
      stdout: (stdout ?? error?.message ?? '').replaceAll(netns === '' ? '\0' : netns, input.netns),
      ...(recorded === undefined ? {} : { executions: recorded }),
    }
  })
}

interface Report {
  readonly record: CallRecord
  readonly first: Run
  readonly second: Run
  readonly titles: readonly [string, string]
  /** What the difference means. */
  readonly remark: string
}

const mostLines = 60

function report(input: Input, { record, first, second, titles, remark }: Report): number {
  const { call, header } = record
  const parts = differencesOf(first, second, call.wraps !== undefined)
  const differs = parts.some(({ lines }) => lines.length > 0)
  const rows = parts.map(({ title, lines }) => {
    const symbol = lines.length === 0 ? painted('ok  ', 'ok', input.output) : painted('DIFF', 'fail', input.output)
    return `  ${symbol}  ${title}\n${lines
      .slice(0, mostLines)
      .map((line) => `          ${line}\n`)
      .join('')}`
  })
  const head = `${call.verb} of record ${header.id}: - ${titles[0]}, + ${titles[1]}\n\n`
  const verdict = differs ? `\nthe runs differ${remark}\n` : '\nboth runs are the same\n'
  const masked = call.stdin?.includes('***') ? 'secrets of the configuration are masked in the record\n' : ''
  const document = { record: header.id, from: titles[0], to: titles[1], parts, differs }
  const code = differs ? exitCode.findings : exitCode.fine
  return print(input, { command: 'replay', document, text: `${head}${rows.join('')}${verdict}${masked}`, code })
}
