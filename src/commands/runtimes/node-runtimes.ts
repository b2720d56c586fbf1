// SPDX-License-Identifier: Apache-2.0
// The runtimes of this node, and the directories that they really use, as they say themselves. Read-only.

import { realpathSync, statSync } from 'node:fs'
import { orElse, textIfThere } from '../if-there.ts'
import { askSocket, hasNoCri, type RuntimeName } from './ask-runtime.ts'
import { type CniSettings, defaultSettings } from './runtime-settings.ts'

/** A runtime of this node with its directories. */
export interface NodeRuntime {
  readonly runtime: RuntimeName
  readonly socket: string
  /** Where it does not tell them the defaults. */
  readonly settings: CniSettings
  /** Source of the settings, for reports: `CRI Status`, or `the defaults`. */
  readonly source: string
  /** It does not answer: why. */
  readonly silent?: string
  /** The runtime's message about a network that is not ready. */
  readonly notReady?: string
}

interface Asked {
  readonly timeoutMs?: number
  readonly endpoint?: string | undefined
}

/** The runtimes that serve CRI. `timeoutMs`: for each call to a socket. `endpoint`: the one socket that is asked. */
export async function nodeRuntimes({ timeoutMs = 3000, endpoint }: Asked = {}): Promise<readonly NodeRuntime[]> {
  const found: NodeRuntime[] = []
  for (const socket of socketsAt(endpoint)) {
    const answer = await askSocket(socket, timeoutMs).catch((error: Error) => error)
    const isLeft = answer instanceof Error && answer.message.includes('ECONNREFUSED')
    // Docker's containerd serves no CRI, and no pods; a killed runtime leaves its socket.
    if (hasNoCri(answer) || (isLeft && endpoint === undefined)) continue
    const unknown = { socket, settings: defaultSettings, source: 'the defaults' }
    if (answer instanceof Error) {
      const runtime = socket.includes('crio') ? 'CRI-O' : 'containerd'
      const isDenied = answer.message.includes('EACCES')
      found.push({ ...unknown, runtime, silent: isDenied ? 'permission denied: run it as root' : answer.message })
    } else {
      const { runtime, answer: told, notReady } = answer
      found.push({ ...unknown, ...told, runtime, ...(notReady === undefined ? {} : { notReady }) })
    }
  }
  return found
}

/** The name of a runtime with its socket, as in a report. */
export function runtimeText({ runtime, socket }: Pick<NodeRuntime, 'runtime' | 'socket'>): string {
  return `${runtime} at ${socket}`
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

/**
 * The socket at `endpoint`, as crictl writes it, else the one that crictl asks, by its variable or /etc/crictl.yaml, and the
 * known ones, each once, since distributions link one path to another.
 */
export function socketsAt(endpoint: string | undefined): readonly string[] {
  const path = (text: string) => text.replace(/^unix:\/\//, '')
  if (endpoint !== undefined) return [path(endpoint)]
  const [, written = ''] = /^runtime-endpoint: *["']?([^"'\s]+)/m.exec(textIfThere('/etc/crictl.yaml')) ?? []
  const named = [process.env['CONTAINER_RUNTIME_ENDPOINT'] ?? '', written].map(path)
  const byFile = new Map<string, string>()
  for (const each of [...named, ...knownSockets].filter(isSocket)) {
    const file = realpathSync(each)
    if (!byFile.has(file)) byFile.set(file, each)
  }
  return [...byFile.values()]
}

/** True if the path is a socket and accessible to this process. */
export function isSocket(path: string): boolean {
  return orElse(() => statSync(path).isSocket(), false)
}
