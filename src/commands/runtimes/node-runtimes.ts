// SPDX-License-Identifier: Apache-2.0
// The directories that the runtimes of this node really use, with the source of each answer: the runtime, else its
// files. Read-only.

import { realpathSync, statSync } from 'node:fs'
import { defined } from '../../cni/json.ts'
import { orElse } from '../if-there.ts'
import { askSocket, type RuntimeName, type SocketAnswer } from './ask-runtime.ts'
import { processesOf, type RuntimeProcess } from './processes.ts'
import { type CniSettings, containerdFiles, crioFiles, type FileSettings } from './runtime-settings.ts'

/** A runtime of this node with its directories. */
export interface NodeRuntime {
  readonly runtime: RuntimeName
  /** Absent if the runtime is stopped, or if no known process owns the socket. */
  readonly pid?: number
  readonly socket?: string
  readonly settings: CniSettings
  /** Source of the settings, for reports: `CRI Status`, or the files. */
  readonly source: string
  readonly files: readonly string[]
  readonly edit: FileSettings['edit']
  /** Prefix of the runtime's paths: empty, or /proc/PID/root. */
  readonly root: string
  /** The reason why neither the runtime nor its files answered; then `settings` may be the defaults. */
  readonly problem?: string
  /** The problem is the caller's missing permission, not a fault of the runtime. */
  readonly isDenied?: true
  /** The runtime's message about a network that is not ready. */
  readonly notReady?: string
}

const programs = {
  containerd: { runtime: 'containerd', read: containerdFiles },
  crio: { runtime: 'CRI-O', read: crioFiles },
} as const

interface Asked {
  readonly timeoutMs?: number
  readonly endpoint?: string | undefined
}

/** A process with the settings of its files. */
interface Seen {
  readonly runtime: RuntimeName
  readonly process?: RuntimeProcess
  readonly files: FileSettings
}

/**
 * The running runtimes that serve CRI, in the order of their process ids; without any, the installed ones. `timeoutMs`:
 * for each call to a socket. `endpoint`: the one socket that is asked.
 */
export async function nodeRuntimes({ timeoutMs = 3000, endpoint }: Asked = {}): Promise<readonly NodeRuntime[]> {
  const running: Seen[] = []
  for (const process of endpoint === undefined ? processesOf(Object.keys(programs)) : []) {
    const { runtime, read } = programs[process.name as keyof typeof programs]
    const files = read(process)
    if (files.hasCri) running.push({ runtime, process, files })
  }
  const addressOf = ({ process, files }: Seen) => `${process?.root ?? ''}${files.address}`
  const found: NodeRuntime[] = []
  const answered = new Set<Seen>()
  for (const socket of endpoint === undefined ? existingSockets(running.map(addressOf)) : socketsAt(endpoint)) {
    const answer = await askSocket(socket, timeoutMs).catch(() => undefined)
    if (answer === undefined) continue
    const same = running.filter(({ runtime }) => runtime === answer.runtime)
    const seen = same.find((each) => addressOf(each) === socket) ?? (same.length === 1 ? same[0] : undefined)
    if (seen !== undefined) answered.add(seen)
    const { read } = answer.runtime === 'CRI-O' ? programs.crio : programs.containerd
    found.push(nodeRuntime(seen ?? { runtime: answer.runtime, files: read() }, socket, answer))
  }
  for (const seen of running) if (!answered.has(seen)) found.push(nodeRuntime(seen))
  if (found.length > 0 || endpoint !== undefined) return found.toSorted((a, b) => (a.pid ?? 0) - (b.pid ?? 0))
  return Object.values(programs).flatMap(({ runtime, read }) => {
    const files = read()
    const isThere = files.hasCri && (files.files.length > 0 || files.problem !== undefined)
    return isThere ? [nodeRuntime({ runtime, files })] : []
  })
}

function nodeRuntime({ runtime, process, files }: Seen, socket?: string, asked?: SocketAnswer): NodeRuntime {
  const { answer, notReady } = asked ?? {}
  const problem = answer === undefined ? files.problem : undefined
  return {
    runtime,
    settings: answer?.settings ?? files.settings,
    source: answer?.source ?? (files.files.join(', ') || 'its defaults'),
    files: files.files,
    edit: files.edit,
    root: process?.root ?? '',
    ...defined({ pid: process?.pid, socket, notReady, problem: problem?.message }),
    ...(problem?.isDenied ? { isDenied: true } : {}),
  }
}

/** The name of a runtime with its process, as in a report. */
export function runtimeText({ runtime, pid, socket }: Pick<NodeRuntime, 'runtime' | 'pid' | 'socket'>): string {
  if (pid !== undefined) return `${runtime} (process ${pid})`
  return socket === undefined ? runtime : `${runtime} at ${socket}`
}

/** containerd, CRI-O; containerd of k3s and rke2, of k0s, of MicroK8s. */
const knownSockets = [
  '/run/containerd/containerd.sock',
  '/run/crio/crio.sock',
  '/run/k3s/containerd/containerd.sock',
  '/run/k0s/containerd.sock',
  '/var/lib/k0s/run/containerd.sock',
  '/var/snap/microk8s/common/run/containerd.sock',
]

/** The existing sockets, each once, since distributions link one path to another. `more`: further paths. */
function existingSockets(more: readonly string[] = []): readonly string[] {
  const byFile = new Map<string, string>()
  for (const path of [...knownSockets, ...more].filter(isSocket)) {
    const file = realpathSync(path)
    if (!byFile.has(file)) byFile.set(file, path)
  }
  return [...byFile.values()]
}

/** The socket at `endpoint`, as crictl writes it, else the existing ones. */
export function socketsAt(endpoint: string | undefined): readonly string[] {
  return endpoint === undefined ? existingSockets() : [endpoint.replace(/^unix:\/\//, '')]
}

/** True if the path is a socket and accessible to this process. */
export function isSocket(path: string): boolean {
  return orElse(() => statSync(path).isSocket(), false)
}
