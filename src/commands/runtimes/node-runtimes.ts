// SPDX-License-Identifier: Apache-2.0
// The directories that the runtimes of this node really use, with the source of each answer: the runtime, else its
// files. Read-only.

import { realpathSync, statSync } from 'node:fs'
import { defined } from '../../cni/json.ts'
import { orElse } from '../if-there.ts'
import { askSocket, type RuntimeName, type SocketAnswer } from './ask-runtime.ts'
import { processesOf, type RuntimeProcess } from './processes.ts'
import {
  type CniSettings,
  containerdFiles,
  criDockerdFiles,
  crioFiles,
  type Edit,
  type FileSettings,
} from './runtime-settings.ts'

/** A runtime of this node with its directories. */
export interface NodeRuntime {
  readonly runtime: RuntimeName
  /** Absent if the runtime is stopped, or if no known process owns the socket. */
  readonly pid?: number
  readonly socket?: string
  readonly settings: CniSettings
  /** Source of the settings, for reports: `CRI Status`, or the files. */
  readonly source: string
  /** The settings in the files, if the runtime runs with others. */
  readonly onDisk?: CniSettings
  readonly files: readonly string[]
  readonly edit: Edit
  /** Prefix of the runtime's paths: empty, or /proc/PID/root. */
  readonly root: string
  /** The reason why neither the runtime nor its files answered; then `settings` may be the defaults. */
  readonly problem?: string
  /** The problem is the caller's missing permission, not a fault of the runtime. */
  readonly isDenied?: true
  /** The runtime's message about a network that is not ready. */
  readonly notReady?: string
}

const readers = { containerd: containerdFiles, crio: crioFiles, 'cri-dockerd': criDockerdFiles } as const
const names = { containerd: 'containerd', crio: 'CRI-O', 'cri-dockerd': 'cri-dockerd' } as const

type ProgramName = keyof typeof readers

const programNames = Object.keys(readers) as readonly ProgramName[]

/** A process with the settings of its files. */
interface Seen {
  readonly process?: RuntimeProcess
  readonly program: ProgramName
  readonly files: FileSettings
}

/**
 * The running runtimes that serve CRI, in the order of their process ids; without any, the installed runtimes.
 * `timeoutMs`: for each call to a socket.
 */
export async function nodeRuntimes({ timeoutMs = 3000 } = {}): Promise<readonly NodeRuntime[]> {
  const running = processesOf(programNames).map((process): Seen => {
    const program = process.name as ProgramName
    return { process, program, files: readers[program](process) }
  })
  const serving = running.filter(({ files }) => files.hasCri)
  // Only existing sockets: the file may have changed since the process began to listen.
  const sockets = runtimeSockets(serving.map(addressOf))
  const asked = await Promise.all(sockets.map((socket) => bySocket(socket, serving, timeoutMs)))
  const answered = asked.flatMap((each) => each ?? [])
  const silent = serving.filter((seen) => !answered.some(({ pid }) => pid === seen.process?.pid))
  const others = silent.map((seen) => nodeRuntime(seen))
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

/** The runtime behind a socket; undefined without an answer, or without CRI. */
async function bySocket(socket: string, serving: readonly Seen[], timeoutMs: number): Promise<NodeRuntime | undefined> {
  try {
    const socketAnswer = await askSocket(socket, timeoutMs)
    const ofRuntime = serving.filter(({ program }) => names[program] === socketAnswer.runtime)
    const [only] = ofRuntime.length === 1 ? ofRuntime : []
    const seen = ofRuntime.find((each) => addressOf(each) === socket) ?? only
    const program = programNames.find((name) => names[name] === socketAnswer.runtime) ?? 'containerd'
    const known = seen ?? { program, files: readers[program]() }
    return nodeRuntime(known, socket, socketAnswer)
  } catch {
    return undefined
  }
}

/** Installed runtimes by their files, for a node where none runs. */
function installed(): readonly NodeRuntime[] {
  const all = programNames.map((program): Seen => ({ program, files: readers[program]() }))
  const there = all.filter(({ files }) => (files.files.length > 0 || files.problem !== undefined) && files.hasCri)
  return there.map((seen) => nodeRuntime(seen))
}

function nodeRuntime({ process, program, files }: Seen, socket?: string, asked?: SocketAnswer): NodeRuntime {
  const { settings: onDisk, problem } = files
  const answer = asked?.answer
  const settings = answer?.settings ?? onDisk
  const isComparable = problem === undefined && process !== undefined && files.files.length > 0
  return {
    runtime: names[program],
    settings,
    source: answer?.source ?? (files.files.join(', ') || 'its defaults'),
    ...(isComparable && isOther(settings, onDisk) ? { onDisk } : {}),
    files: files.files,
    edit: files.edit,
    root: process?.root ?? '',
    ...defined({ pid: process?.pid, socket, notReady: asked?.notReady }),
    ...(answer === undefined && problem !== undefined ? { problem: problem.message } : {}),
    ...(answer === undefined && problem?.isDenied === true ? { isDenied: true } : {}),
  }
}

function isOther(a: CniSettings, b: CniSettings): boolean {
  return a.confDir !== b.confDir || a.binDirs.join(':') !== b.binDirs.join(':')
}

// The sockets on which container runtimes of a node serve CRI.

/** containerd, CRI-O; containerd of k3s and rke2, of k0s, of MicroK8s; cri-dockerd. */
const knownSockets = [
  '/run/containerd/containerd.sock',
  '/run/crio/crio.sock',
  '/run/k3s/containerd/containerd.sock',
  '/run/k0s/containerd.sock',
  '/var/lib/k0s/run/containerd.sock',
  '/var/snap/microk8s/common/run/containerd.sock',
  '/run/cri-dockerd.sock',
]

/** The existing sockets, each once, since distributions link one path to another. `more`: further paths. */
function runtimeSockets(more: readonly string[] = []): readonly string[] {
  const byFile = new Map<string, string>()
  for (const path of [...knownSockets, ...more].filter(isSocket)) {
    const file = realpathSync(path)
    if (!byFile.has(file)) byFile.set(file, path)
  }
  return [...byFile.values()]
}

/** The socket at `endpoint`, as crictl writes it, else the existing ones. */
export function socketsAt(endpoint: string | undefined): readonly string[] {
  return endpoint === undefined ? runtimeSockets() : [endpoint.replace(/^unix:\/\//, '')]
}

/** True if the path is a socket and accessible to this process. */
export function isSocket(path: string): boolean {
  return orElse(() => statSync(path).isSocket(), false)
}
