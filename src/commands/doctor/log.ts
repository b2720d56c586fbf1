// SPDX-License-Identifier: Apache-2.0
// Errors of pod networks in the last hour of the runtimes' and kubelet's log, each once, as `trestle explain` knows
// them. From the journal, or from a file that is named.

import { readFileSync } from 'node:fs'
import { basename } from 'node:path'
import { parseObject } from '../../cni/json.ts'
import { findProgram } from '../../process/runner.ts'
import { recognise } from '../explain/recognise.ts'
import { counted, type Finding, findingOf } from '../findings.ts'
import { unreadable } from '../input-file.ts'
import { few, type Node } from './observed-node.ts'

const hourMs = 60 * 60 * 1000
/** A runtime retries within minutes: a newer error is still current. */
const stillMs = 5 * 60 * 1000

const units = ['containerd', 'crio', 'kubelet', 'k3s', 'k3s-agent', 'rke2-server', 'rke2-agent', 'docker']
interface LogLine {
  readonly timeMs: number
  readonly unit: string
  readonly text: string
}

/** An error, and the pods that its lines name. */
export interface LoggedError {
  readonly id: string
  readonly pods: readonly string[]
  readonly finding: Finding
}

/** Each error once, the latest first. Throws CniError 5 if the named file cannot be read. */
export async function readErrors(node: Node): Promise<readonly LoggedError[]> {
  const nowMs = Date.now()
  const lines = (await readLog(node, nowMs)).filter(({ timeMs }) => timeMs > nowMs - hourMs)
  if (lines.length === 0 && node.options.logFile === undefined) {
    const why = 'the journal has no line of a runtime or kubelet of the last hour; --log names another log'
    node.skip({ group: 'log', why, isPartial: true })
  }
  const byId = new Map<string, LogLine[]>()
  for (const same of linesByShape(lines)) {
    for (const id of idsIn(same.at(-1)?.text ?? '')) byId.set(id, [...(byId.get(id) ?? []), ...same])
  }
  // containerd logs a missing configuration at each other file of its directory.
  if (node.configurations.every(({ file }) => file !== undefined)) byId.delete('no-network-config')
  const found = [...byId].map(([id, all]) => ({
    ...errorOf(id, all, nowMs),
    lastMs: Math.max(...all.map(({ timeMs }) => timeMs)),
  }))
  return found.toSorted((a, b) => b.lastMs - a.lastMs)
}

function errorOf(id: string, lines: readonly LogLine[], nowMs: number): LoggedError {
  const last = lines.reduce((a, b) => (b.timeMs >= a.timeMs ? b : a))
  const pods = [...new Set(lines.flatMap(({ text }) => podsIn(text)))]
  const on = few(pods.length > 0 ? pods : [...new Set(lines.map(({ unit }) => unit))])
  // Without source and time of klog or logfmt.
  const text = last.text.replace(/^.*?\b[IWEF]\d{4} [\d:.]+ +\d+ \S+\] /, '').replace(/^time=\S+ level=\w+ msg=/, '')
  const message = `${counted(lines.length, 'time')} in the last hour, last ${new Date(last.timeMs).toISOString()}: ${text.slice(0, 500)}`
  const severity = nowMs - last.timeMs < stillMs ? 'warning' : 'note'
  return { id, pods, finding: findingOf({ id, group: 'log', severity, on, message }) }
}

async function readLog({ machine, options: { logFile } }: Node, nowMs: number): Promise<readonly LogLine[]> {
  if (logFile !== undefined) {
    const unit = basename(logFile)
    const lines = endOf(logFile).split('\n')
    return lines.map((line) => ({ timeMs: timeIn(line, nowMs) ?? nowMs, unit, text: line }))
  }
  if (findProgram('journalctl') === undefined) return []
  const fields = ['--output=json', '--output-fields=MESSAGE,_SYSTEMD_UNIT', '--no-pager', '--quiet', '--since=-1h']
  const args = [...fields, ...units.flatMap((unit) => ['-u', unit])]
  const { stdout } = await machine.ask({ file: 'journalctl', args })
  const found: LogLine[] = []
  for (const line of stdout.split('\n')) {
    // systemd.journal-fields(7): microseconds since 1970; a message that is not UTF-8 is an array of bytes.
    const { __REALTIME_TIMESTAMP: time, MESSAGE: text, _SYSTEMD_UNIT: unit } = parseObject(line) ?? {}
    if (typeof text !== 'string') continue
    found.push({ timeMs: Number(time) / 1000, unit: String(unit ?? '').replace(/\.service$/, ''), text })
  }
  return found
}

/** RFC 3339; else klog (`E1122 19:48:41.914392`), in local time without a year. */
function timeIn(text: string, nowMs: number): number | undefined {
  const [full] = /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)/.exec(text) ?? []
  const [, month, day, clock] = /(?:^|[:\s])[IWEF](\d\d)(\d\d) (\d\d:\d\d:\d\d)(?:\.\d+)? /.exec(text) ?? []
  const year = new Date(nowMs).getFullYear()
  const inYear = (of: number) => Date.parse(full ?? `${month} ${day} ${of} ${clock}`)
  const time = inYear(year) > nowMs + 24 * hourMs ? inYear(year - 1) : inYear(year)
  return Number.isNaN(time) ? undefined : time
}

const mostBytes = 8 * 1024 * 1024

/** Throws CniError 5 where it cannot be read: an empty result would look like a clean log. */
function endOf(file: string): string {
  try {
    return readFileSync(file).subarray(-mostBytes).toString('utf8')
  } catch (cause) {
    throw unreadable(file, cause)
  }
}

/** A line with an error about pod networks. Messages of a program's own start do not match. */
const isAboutPods =
  /(?:level=(?:error|warning|fatal)|\b[EW]\d{4} |error|fail).*(?:\bcni\b|sandbox|network plugin|NetworkReady|plugin type=)/i

/** Of lines that differ in ids, addresses and times one is examined, and of so many different ones the last. */
const mostShapes = 500

function linesByShape(lines: readonly LogLine[]): readonly (readonly LogLine[])[] {
  const byShape = new Map<string, LogLine[]>()
  for (const line of lines.filter(({ text }) => isAboutPods.test(text))) {
    const shape = line.text.replace(/[0-9a-f]{8,}|\d+|"[^" ]*"/gi, '#')
    byShape.set(shape, [...(byShape.get(shape) ?? []), line])
  }
  return [...byShape.values()].slice(-mostShapes)
}

/** The failure of a sandbox whose ADD went well. */
export const sandboxFailed = 'sandbox-failed'

/**
 * Steps of RunPodSandbox that follow the network: of containerd (internal/cri/server, sandbox_run.go, and
 * podsandbox/sandbox_run.go), and of CRI-O (server/sandbox_run_linux.go).
 */
const isBehindNetwork =
  /(?:RunPodSandbox|pod sandbox|t sandbox)[^\n]*(?:failed to (?:create containerd|start sandbox container) task|container create failed)/i

function idsIn(text: string): readonly string[] {
  const { errors, codes, own } = recognise(text)
  const causes = errors.filter(({ role }) => role === 'cause')
  const found = [...(own.length > 0 ? own : codes), ...causes].map(({ id }) => id)
  return found.length === 0 && isBehindNetwork.test(text) ? [sandboxFailed] : found
}

/** kubelet writes pod="NAMESPACE/NAME", containerd &PodSandboxMetadata{Name:N,Uid:U,Namespace:NS,…}. */
function podsIn(text: string): readonly string[] {
  const ofKubelet = [...text.matchAll(/\bpod=\\?"([\w.-]+\/[\w.-]+)\\?"/g)].map(([, pod = '']) => pod)
  const ofContainerd = [...text.matchAll(/PodSandboxMetadata\{Name:([\w.-]+),Uid:[^,]*,Namespace:([\w.-]+),/g)]
  return [...ofKubelet, ...ofContainerd.map(([, name, namespace]) => `${namespace}/${name}`)]
}
