// SPDX-License-Identifier: Apache-2.0
// Which directories the runtimes of this node really use, and who says so. First the runtime itself is asked over CRI;
// where it does not answer its own command prints its settings, as root; else its files are read. Nothing is changed.

import { realpathSync, statSync } from 'node:fs'
import { type Answer, askProgram, askSocket, type RuntimeName, type SocketAnswer } from './ask-runtime.ts'
import { processesOf, type RuntimeProcess } from './processes.ts'
import { containerdFiles, criDockerdFiles, crioFiles, type Edit, type FileSettings } from './runtime-files.ts'
import type { CniSettings } from './runtime-settings.ts'

/** A runtime of this node and where it looks. */
export interface NodeRuntime {
  readonly runtime: RuntimeName
  /** Absent where it does not run, or is behind a socket that is not known to be its process's. */
  readonly pid?: number
  readonly socket?: string
  readonly settings: CniSettings
  /** Who says so, to be shown: `CRI Status`, `containerd config dump`, or the files. */
  readonly source: string
  /** What it would run with after a restart, where that is something else: its files were changed. */
  readonly onDisk?: CniSettings
  /** What its files say and it does not read: a key or table of another version. */
  readonly ignored?: CniSettings
  readonly files: readonly string[]
  readonly edit: Edit
  /** What its paths begin with from here: empty, or /proc/PID/root. */
  readonly root: string
  /** Why it could not be asked, or its files not read: then `settings` may be the defaults. */
  readonly problem?: string
  /** The problem is that of who asks, not of the runtime. */
  readonly isDenied?: true
  /** containerd: what it has loaded. */
  readonly load?: NonNullable<SocketAnswer['load']>
  /** What it says of its network, where it is not ready. */
  readonly notReady?: string
}

const readers = { containerd: containerdFiles, crio: crioFiles, 'cri-dockerd': criDockerdFiles } as const
const names = { containerd: 'containerd', crio: 'CRI-O', 'cri-dockerd': 'cri-dockerd' } as const

type ProgramName = keyof typeof readers

const programNames = Object.keys(readers) as readonly ProgramName[]

/** A process with what its files say. */
interface Seen {
  readonly process?: RuntimeProcess
  readonly program: ProgramName
  readonly files: FileSettings
}

/**
 * The runtimes that run here and serve CRI, or where none does those that are installed; in the order of their process
 * ids. `timeoutMs`: for each call to a socket.
 */
export async function nodeRuntimes({ timeoutMs = 3000 } = {}): Promise<readonly NodeRuntime[]> {
  const running = processesOf(programNames).map((process): Seen => {
    const program = process.name as ProgramName
    return { process, program, files: readers[program](process) }
  })
  const serving = running.filter(({ files }) => files.hasCri)
  const addresses = serving.map((seen) => addressOf(seen))
  // Only those that exist: a process may listen elsewhere than its file says by now.
  const sockets = runtimeSockets(addresses)
  const asked = await Promise.all(sockets.map((socket) => bySocket(socket, serving, timeoutMs)))
  const answered = asked.flatMap((each) => each ?? [])
  const silent = serving.filter((seen) => !answered.some(({ pid }) => pid === seen.process?.pid))
  const others = silent.map((seen) => byFiles(seen))
  const all = [...answered, ...others]
  return all.length > 0 ? all.toSorted((a, b) => (a.pid ?? 0) - (b.pid ?? 0)) : installed()
}

/** The name of a runtime with its process, as in a report. */
export function runtimeText({ runtime, pid, socket }: Pick<NodeRuntime, 'runtime' | 'pid' | 'socket'>): string {
  if (pid !== undefined) return `${runtime} (process ${pid})`
  return socket === undefined ? runtime : `${runtime} at ${socket}`
}

function addressOf({ process, files }: Seen): string {
  return `${process?.root ?? ''}${files.address}`
}

/** What the runtime behind a socket says; undefined where it does not answer, or has no CRI. */
async function bySocket(socket: string, serving: readonly Seen[], timeoutMs: number): Promise<NodeRuntime | undefined> {
  try {
    const socketAnswer = await askSocket(socket, timeoutMs)
    const ofRuntime = serving.filter(({ program }) => names[program] === socketAnswer.runtime)
    const [only] = ofRuntime.length === 1 ? ofRuntime : []
    const seen = ofRuntime.find((each) => addressOf(each) === socket) ?? only
    const program = programNames.find((name) => names[name] === socketAnswer.runtime) ?? 'containerd'
    const known = seen ?? { program, files: readers[program]() }
    return nodeRuntime(known, { socket, socketAnswer, answer: socketAnswer.answer ?? dumped(known) })
  } catch {
    return undefined
  }
}

function dumped({ process }: Seen): Answer | undefined {
  return process === undefined ? undefined : askProgram(process)
}

function byFiles(seen: Seen): NodeRuntime {
  return nodeRuntime(seen, { answer: dumped(seen) })
}

/** Nothing runs: what would, by the files that are there. */
function installed(): readonly NodeRuntime[] {
  const all = programNames.map((program): Seen => ({ program, files: readers[program]() }))
  const there = all.filter(({ files }) => (files.files.length > 0 || files.problem !== undefined) && files.hasCri)
  return there.map((seen) => byFiles(seen))
}

interface About {
  readonly socket?: string
  readonly socketAnswer?: SocketAnswer
  readonly answer: Answer | undefined
}

function nodeRuntime({ process, program, files }: Seen, { socket, socketAnswer, answer }: About): NodeRuntime {
  const { settings: onDisk, problem } = files
  const settings = answer?.settings ?? onDisk
  const isAsked = problem === undefined && process !== undefined && answer !== undefined
  return {
    runtime: names[program],
    ...(process === undefined ? {} : { pid: process.pid }),
    ...(socket === undefined ? {} : { socket }),
    settings,
    source: answer?.source ?? (files.files.join(', ') || 'its defaults'),
    ...(isAsked && isOther(settings, onDisk) ? oddsOf({ process, program, files }, answer) : {}),
    files: files.files,
    edit: files.edit,
    root: process?.root ?? '',
    ...(problem === undefined || answer !== undefined ? {} : { problem: problem.message }),
    ...(problem?.isDenied === true && answer === undefined ? { isDenied: true } : {}),
    ...(socketAnswer?.load === undefined ? {} : { load: socketAnswer.load }),
    ...(socketAnswer?.notReady === undefined ? {} : { notReady: socketAnswer.notReady }),
  }
}

/** Whether the files were changed since it started, or are not read as they look: its own command tells. */
function oddsOf(seen: Seen, { settings, source }: Answer): Pick<NodeRuntime, 'onDisk' | 'ignored'> {
  const next = source === 'CRI Status' || source === 'crio status config' ? dumped(seen)?.settings : settings
  const onDisk = next ?? seen.files.settings
  return {
    ...(isOther(onDisk, settings) ? { onDisk } : {}),
    ...(isOther(onDisk, seen.files.settings) ? { ignored: seen.files.settings } : {}),
  }
}

function isOther(a: CniSettings, b: CniSettings): boolean {
  return a.confDir !== b.confDir || a.binDirs.join(':') !== b.binDirs.join(':')
}

// Where container runtimes of a node listen for CRI.

/** containerd and CRI-O by themselves; inside k3s and rke2, k0s, MicroK8s; cri-dockerd. */
const knownSockets = [
  '/run/containerd/containerd.sock',
  '/run/crio/crio.sock',
  '/run/k3s/containerd/containerd.sock',
  '/run/k0s/containerd.sock',
  '/var/lib/k0s/run/containerd.sock',
  '/var/snap/microk8s/common/run/containerd.sock',
  '/run/cri-dockerd.sock',
]

/**
 * The sockets that exist, each once: distributions link one path to another. `more`: paths that were found otherwise.
 */
export function runtimeSockets(more: readonly string[] = []): readonly string[] {
  const byFile = new Map<string, string>()
  for (const path of [...knownSockets, ...more].filter(isSocket)) {
    const file = realpathSync(path)
    if (!byFile.has(file)) byFile.set(file, path)
  }
  return [...byFile.values()]
}

/** Whether a path is a socket that we can see. */
export function isSocket(path: string): boolean {
  try {
    return statSync(path).isSocket()
  } catch {
    return false
  }
}
