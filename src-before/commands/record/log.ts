// SPDX-License-Identifier: Apache-2.0
// The log: one JSON line a call, with flat keys after OpenTelemetry's names, and traces as OTLP JSON lines, which the
// collector's otlpjsonfile receiver reads. A line is one write after the answer, so that 200 calls at once give 200
// whole lines (open(2), O_APPEND).

import {
  closeSync,
  constants,
  fstatSync,
  lstatSync,
  openSync,
  renameSync,
  rmSync,
  type Stats,
  writeSync,
} from 'node:fs'
import { basename, dirname, resolve } from 'node:path'
import { orElse } from '../../cni/error.ts'
import { parseObject } from '../../cni/json.ts'
import { masked } from '../../cni/secrets.ts'
import { sha256 } from '../../model/sha256.ts'
import { makeDirectory, namesIn } from '../../system/files/files.ts'
import { timestamp } from '../../system/process/clock.ts'
import type { Execution } from '../../system/process/executions.ts'
import { build, errorOf, type Subject } from './document.ts'
import type { SeenCall } from './keeper.ts'
import type { LogSettings } from './settings.ts'

/** A call as its line tells it. */
interface Logged {
  readonly subject: Subject
  readonly startedMs: number
  readonly seen: SeenCall
  readonly executions: readonly Execution[]
  readonly traceparent: string | undefined
  readonly by: string
}

export function defaultLogFile(root: string): string {
  return `${root}/log/calls.jsonl`
}

/** Beside the log. */
export function traceFile(file: string): string {
  return `${dirname(file)}/traces.jsonl`
}

/** Adds the call to its files. Throws when a file is refused. */
export function log(root: string, settings: LogSettings, logged: Logged): void {
  const file = settings.file ?? defaultLogFile(root)
  if (settings.file === undefined) makeDirectory(dirname(file))
  append(file, `${JSON.stringify(lineOf(logged))}\n`)
  if (settings.isOtlp === true) append(traceFile(file), `${JSON.stringify(otlpOf(logged))}\n`)
}

function lineOf(logged: Logged): object {
  const { subject, startedMs, seen, executions, by } = logged
  const { traceId, spanId } = idsOf(logged)
  const failed = seen.exitCode !== 0
  const { code, msg } = failed ? errorOf(seen.stdout) : {}
  const outcome = failed ? `failed: ${msg ?? 'no error object'}` : 'succeeded'
  return {
    time: timestamp(startedMs),
    severity_text: failed ? 'ERROR' : 'INFO',
    body: `${subject.verb} ${subject.network ?? ''} ${outcome}`.replace('  ', ' '),
    trace_id: traceId,
    span_id: spanId,
    ...attributesOf(subject),
    ...addressesOf(seen),
    ...(code === undefined ? {} : { 'cni.error.code': code }),
    'cni.plugin': by,
    'process.pid': process.pid,
    'process.exit.code': seen.exitCode,
    duration_ms: tenths(seen.ms),
    steps: executions.map(({ command, startMs, ms, output }) => ({
      name: nameOf(command),
      start_ms: tenths(startMs),
      ...(ms === undefined ? {} : { duration_ms: tenths(ms) }),
      ...(output?.code === undefined ? {} : { 'process.exit.code': output.code }),
    })),
  }
}

function attributesOf({ verb, network, containerId, ifName, pod }: Subject): Record<string, string> {
  const all = {
    'cni.command': verb,
    'cni.network': network,
    'cni.ifname': ifName,
    'container.id': containerId,
    'k8s.namespace.name': pod?.namespace,
    'k8s.pod.name': pod?.name,
    'k8s.pod.uid': pod?.uid,
  }
  const given = Object.entries(all).filter((entry): entry is [string, string] => (entry[1] ?? '') !== '')
  return Object.fromEntries(given.map(([name, value]) => [name, masked(value).slice(0, 300)]))
}

function addressesOf({ exitCode, stdout }: SeenCall): { readonly 'cni.addresses'?: readonly string[] } {
  const ips = exitCode === 0 ? parseObject(stdout)?.['ips'] : undefined
  if (!Array.isArray(ips)) return {}
  return { 'cni.addresses': ips.map((ip: { address?: unknown }) => String(ip?.address)).slice(0, 16) }
}

/** A program and what it does, without what belongs to this call alone. */
function nameOf({ file, args }: Execution['command']): string {
  return [basename(file), ...args.filter((word) => !word.startsWith('/') && !word.startsWith('--net'))]
    .join(' ')
    .slice(0, 60)
}

/** The caller's trace (W3C Trace Context), else that of the container: its ADD, CHECK and DEL are one trace. */
function idsOf({ subject, startedMs, traceparent }: Logged) {
  const [, traceId, parentId] = /^[\da-f]{2}-([\da-f]{32})-([\da-f]{16})-[\da-f]{2}/.exec(traceparent ?? '') ?? []
  const isGiven = traceId !== undefined && parentId !== undefined && !/^0+$/.test(traceId) && !/^0+$/.test(parentId)
  const own = hex(subject.containerId || `${subject.verb} ${subject.network ?? ''} ${startedMs}`, 32)
  const spanId = hex(`${subject.containerId} ${subject.verb} ${startedMs} ${process.pid}`, 16)
  return { traceId: isGiven ? traceId : own, spanId, parentId: isGiven ? parentId : undefined }
}

function hex(text: string, digits: number): string {
  return sha256(text).toString('hex').slice(0, digits)
}

/** One request of OTLP (opentelemetry-proto, trace/v1) with the call and its processes as spans. */
function otlpOf(logged: Logged): object {
  const { subject, startedMs, seen, executions, by } = logged
  const { traceId, spanId, parentId } = idsOf(logged)
  const nano = (ms: number) => `${Math.round((startedMs + ms) * 1000)}000`
  const status = (exit: number | undefined) => ({ code: exit === 0 ? 1 : 2 })
  const call = {
    ...{ traceId, spanId, parentSpanId: parentId, name: `CNI ${subject.verb}`, kind: 1 },
    ...{ startTimeUnixNano: nano(0), endTimeUnixNano: nano(seen.ms), status: status(seen.exitCode) },
    attributes: [...keyValues(attributesOf(subject)), ...keyValues({ 'cni.plugin': by })],
  }
  const steps = executions.map(({ command, startMs, ms, output }, at) => ({
    ...{ traceId, spanId: hex(`${spanId} ${at}`, 16), parentSpanId: spanId, name: nameOf(command), kind: 1 },
    ...{ startTimeUnixNano: nano(startMs), endTimeUnixNano: nano(ms === undefined ? seen.ms : startMs + ms) },
    ...(output === undefined ? {} : { status: status(output.code) }),
  }))
  const scope = { name: 'trestle', version: build.version }
  const resource = { attributes: keyValues({ 'service.name': 'trestle', 'service.version': build.version }) }
  return { resourceSpans: [{ resource, scopeSpans: [{ scope, spans: [call, ...steps] }] }] }
}

function keyValues(attributes: Readonly<Record<string, string>>) {
  return Object.entries(attributes).map(([key, stringValue]) => ({ key, value: { stringValue } }))
}

function tenths(ms: number): number {
  return Math.round(ms * 10) / 10
}

/** A log has this size and the one before it, too. */
const mostBytes = 10 * 1024 * 1024

/** Why a file cannot be a log, as far as this user sees; undefined for a log, or where one can be made. */
export function refusalOfLog(file: string): string | undefined {
  if (!file.startsWith('/') || resolve(file) !== file) return 'use an absolute path without "." and ".."'
  if (/\p{Cc}/u.test(file) || Buffer.byteLength(basename(file)) > 255)
    return 'its name has a line break or more than 255 bytes'
  const directory = dirname(file)
  const link = [directory, ...parentsOf(directory)].find((each) => {
    const stat = seen(each)
    // The system's own links, as /var/run, lead where they always do.
    return stat?.isSymbolicLink() === true && (each === directory || !isOwned(stat))
  })
  if (link !== undefined) return `${link} is a symbolic link`
  const stat = seen(file)
  return stat === undefined || isPrivate(stat)
    ? undefined
    : 'it is there, and no regular file that its owner alone can read and write (mode 0600, one link)'
}

function parentsOf(path: string): readonly string[] {
  const parent = dirname(path)
  return parent === path ? [] : [parent, ...parentsOf(parent)]
}

function seen(path: string): Stats | undefined {
  return orElse(() => lstatSync(path), undefined)
}

function isOwned({ uid }: Stats): boolean {
  return uid === 0 || uid === process.geteuid?.()
}

function isPrivate(stat: Stats): boolean {
  return stat.isFile() && isOwned(stat) && stat.nlink === 1 && (stat.mode & 0o077) === 0
}

/**
 * A descriptor of a file that is private, or made so. No link is followed and no pipe waited for. Throws when the file
 * is refused.
 */
export function openLog(file: string): number {
  const refusal = refusalOfLog(file)
  if (refusal !== undefined) throw new Error(`${file}: ${refusal}`)
  const { O_WRONLY, O_APPEND, O_CREAT, O_NOFOLLOW, O_NONBLOCK } = constants
  const fd = openSync(file, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK, 0o600)
  if (isPrivate(fstatSync(fd))) return fd
  closeSync(fd)
  throw new Error(`${file}: it was changed meanwhile`)
}

/** One write. A full file gets a name of its own by rename(2): no lock, and who has it open writes whole lines on. */
function append(file: string, line: string): void {
  const fd = openLog(file)
  try {
    const stat = fstatSync(fd)
    writeSync(fd, line)
    if (stat.size + line.length > mostBytes && lstatSync(file).ino === stat.ino) rotate(file)
  } finally {
    closeSync(fd)
  }
}

/** Calls that found a full log at the same time rotate within this time. */
const longestCallMs = 60_000

/**
 * The name has time and process, so that two that rotate at once take nothing from each other. A rotated file stays
 * while newer ones have less than a whole log, and while a call that found the same log full may be at work.
 */
function rotate(file: string): void {
  const [directory, stem] = [dirname(file), basename(file).replace(/\.jsonl$/, '')]
  renameSync(file, `${directory}/${stem}.${timestamp().replaceAll(/[:.]/g, '-')}-${process.pid}.jsonl`)
  const rotated = namesIn(directory).filter((name) => name.startsWith(`${stem}.`) && /Z-\d+\.jsonl$/.test(name))
  let newerBytes = 0
  for (const name of rotated.toSorted().toReversed()) {
    const path = `${directory}/${name}`
    const { size = 0, mtimeMs = 0 } = lstatSync(path, { throwIfNoEntry: false }) ?? {}
    if (newerBytes >= mostBytes && Date.now() - mtimeMs > longestCallMs) rmSync(path, { force: true })
    newerBytes += size
  }
}
