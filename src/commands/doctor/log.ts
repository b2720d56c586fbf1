// SPDX-License-Identifier: Apache-2.0
// Errors of pod networks in the last hour of the runtimes' and kubelet's log, each once, as `trestle explain` knows
// them. From the journal, else from log files.

import { closeSync, openSync, readFileSync, readSync, statSync } from 'node:fs'
import { isOnPath } from '../../../src-before/system/process/programs.ts'
import { parseObject } from '../../cni/json.ts'
import type { Run } from '../../process/runner.ts'
import { recognise } from '../explain/recognise.ts'
import { orElse } from '../if-there.ts'
import { unreadable } from '../input-file.ts'
import type { LoggedError } from './facts.ts'

const hourMs = 60 * 60 * 1000

const units = ['containerd', 'crio', 'kubelet', 'k3s', 'k3s-agent', 'rke2-server', 'rke2-agent', 'docker']
const files = [
  '/var/lib/rancher/k3s/agent/containerd/containerd.log',
  '/var/lib/rancher/rke2/agent/containerd/containerd.log',
  '/var/lib/rancher/rke2/agent/logs/kubelet.log',
  '/var/log/syslog',
  '/var/log/messages',
]

/** Only the end of a file is read. */
const mostBytes = 8 * 1024 * 1024
/** Of lines that differ in names and numbers one is examined. */
const mostTexts = 500

interface LogLine {
  readonly timeMs: number
  readonly unit: string
  readonly text: string
}

/** A line of a file for all programs: by a runtime's or kubelet's name, or in their formats (logfmt, klog). */
const isOfRuntime = /containerd|crio|kubelet|k3s|rke2|dockerd|\blevel=\w|\b[IWEF]\d{4} /

/**
 * The lines of the last hour of runtimes and kubelet; undefined without such lines. `file`: replaces all others. Throws
 * CniError 5 if that file cannot be read: an empty result would look like a clean log.
 */
export async function readLog(run: Run, nowMs: number, file?: string): Promise<readonly LogLine[] | undefined> {
  if (file !== undefined) return recent(linesOf(file, endOfNamed(file), nowMs), nowMs)
  const journal = isOnPath('journalctl') ? await readJournal(run) : []
  // Distributions differ in their log files.
  const endIfThere = (file: string) => orElse(() => endOf(file), '')
  const ofFiles = () => files.flatMap((each) => linesOf(each, endIfThere(each), nowMs))
  const all = recent(journal.length > 0 ? journal : ofFiles().filter(({ text }) => isOfRuntime.test(text)), nowMs)
  return all.length > 0 ? all : undefined
}

function recent(lines: readonly LogLine[], nowMs: number): readonly LogLine[] {
  return lines.filter(({ timeMs }) => timeMs > nowMs - hourMs)
}

async function readJournal(run: Run): Promise<readonly LogLine[]> {
  const ofUnits = units.flatMap((unit) => ['-u', unit])
  const args = ['--since=-1h', '--output=json', '--output-fields=MESSAGE,_SYSTEMD_UNIT', '--no-pager', ...ofUnits]
  const { code, stdout } = await run({ file: 'journalctl', args: ['--quiet', ...args] }).catch(() => ({
    code: undefined,
    stdout: '',
  }))
  return code === 0 ? stdout.split('\n').flatMap(journalLine) : []
}

/** systemd.journal-fields(7): microseconds since 1970; a message that is not UTF-8 is an array of bytes. */
function journalLine(line: string): readonly LogLine[] {
  const { __REALTIME_TIMESTAMP: time, MESSAGE: text, _SYSTEMD_UNIT: unit } = parseObject(line) ?? {}
  if (typeof text !== 'string') return []
  return [{ timeMs: Number(time) / 1000, unit: String(unit ?? '').replace(/\.service$/, ''), text }]
}

function linesOf(file: string, end: string, nowMs: number): readonly LogLine[] {
  const unit = file.slice(file.lastIndexOf('/') + 1)
  return end
    .split('\n')
    .filter((text) => text !== '')
    .map((text) => ({ timeMs: timeIn(text, nowMs) ?? nowMs, unit, text }))
}

/**
 * RFC 3339, as containerd and rsyslog write it; else syslog (`Nov 22 19:48:41`) or klog (`E1122 19:48:41.914392`), in
 * local time without a year: the last such date. An unknown format counts as now.
 */
function timeIn(text: string, nowMs = Date.now()): number | undefined {
  const [found] = /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)/.exec(text) ?? []
  const [, month, day, clock] =
    /^([A-Z][a-z]{2}) {1,2}(\d{1,2}) (\d\d:\d\d:\d\d)/.exec(text) ??
    /(?:^|[:\s])[IWEF](\d\d)(\d\d) (\d\d:\d\d:\d\d)(?:\.\d+)? /.exec(text) ??
    []
  const inYear = (year: number) => Date.parse(found ?? `${month} ${day} ${year} ${clock}`)
  const year = new Date(nowMs).getFullYear()
  const time = inYear(year)
  if (found === undefined && time > nowMs + 24 * hourMs) return inYear(year - 1)
  return Number.isNaN(time) ? undefined : time
}

function endOfNamed(file: string): string {
  try {
    // A pipe has no end to seek to: `--log <(journalctl -u kubelet)`.
    return statSync(file).isFile() ? endOf(file) : readFileSync(file, 'utf8')
  } catch (cause) {
    throw unreadable(file, cause)
  }
}

function endOf(file: string): string {
  const { size } = statSync(file)
  const length = Math.min(size, mostBytes)
  const buffer = Buffer.alloc(length)
  const fd = openSync(file, 'r')
  try {
    return buffer.toString('utf8', 0, readSync(fd, buffer, 0, length, size - length))
  } finally {
    closeSync(fd)
  }
}

/** Each error once, the latest first. */
export function errorsIn(lines: readonly LogLine[]): readonly LoggedError[] {
  const byText = new Map<string, LogLine[]>()
  for (const line of lines.filter(({ text }) => isAboutPods.test(text))) {
    const same = shapeOf(line.text)
    byText.set(same, [...(byText.get(same) ?? []), line])
  }
  const byId = new Map<string, LoggedError>()
  for (const same of [...byText.values()].slice(-mostTexts)) {
    for (const error of causesIn(same)) byId.set(error.id, joined(byId.get(error.id), error))
  }
  return [...byId.values()].toSorted((a, b) => b.lastMs - a.lastMs)
}

/** A line with an error about pod networks. Messages of a program's own start do not match. */
const isAboutPods =
  /(?:level=(?:error|warning|fatal)|\b[EW]\d{4} |error|fail).*(?:\bcni\b|sandbox|network plugin|NetworkReady|plugin type=)/i

/** Ids, addresses and times differ from pod to pod. */
function shapeOf(text: string): string {
  return text.replace(/[0-9a-f]{8,}|\d+|"[^" ]*"/gi, '#')
}

function causesIn(lines: readonly LogLine[]): readonly LoggedError[] {
  const last = lines.at(-1)
  if (last === undefined) return []
  const { errors, codes, own } = recognise(last.text)
  const about = {
    count: lines.length,
    lastMs: Math.max(...lines.map(({ timeMs }) => timeMs)),
    pods: [...new Set(lines.flatMap(({ text }) => podsIn(text)))],
    units: [...new Set(lines.map(({ unit }) => unit))],
    text: last.text,
  }
  const ofOthers = errors.filter(({ role }) => role === 'cause')
  const all = [...(own.length > 0 ? own : codes), ...ofOthers]
  const found = all.length === 0 && isBehindNetwork.test(last.text) ? [{ id: sandboxFailed }] : all
  return found.map(({ id }) => ({ id, ...about }))
}

/** The failure of a sandbox whose ADD went well. */
export const sandboxFailed = 'sandbox-failed'

/**
 * Steps of RunPodSandbox that follow the network: of containerd (internal/cri/server, sandbox_run.go, and
 * podsandbox/sandbox_run.go), and of CRI-O (server/sandbox_run_linux.go).
 */
const isBehindNetwork =
  /(?:RunPodSandbox|pod sandbox|t sandbox)[^\n]*(?:failed to (?:create containerd|start sandbox container) task|container create failed)/i

/** kubelet writes pod="NAMESPACE/NAME", containerd &PodSandboxMetadata{Name:N,Uid:U,Namespace:NS,…}. */
function podsIn(text: string): readonly string[] {
  const ofKubelet = [...text.matchAll(/\bpod=\\?"([\w.-]+\/[\w.-]+)\\?"/g)].map(([, pod = '']) => pod)
  const ofContainerd = [...text.matchAll(/PodSandboxMetadata\{Name:([\w.-]+),Uid:[^,]*,Namespace:([\w.-]+),/g)]
  return [...ofKubelet, ...ofContainerd.map(([, name, namespace]) => `${namespace}/${name}`)]
}

function joined(before: LoggedError | undefined, error: LoggedError): LoggedError {
  if (before === undefined) return error
  const later = before.lastMs > error.lastMs ? before : error
  return {
    ...later,
    count: before.count + error.count,
    pods: [...new Set([...before.pods, ...error.pods])],
    units: [...new Set([...before.units, ...error.units])],
  }
}
