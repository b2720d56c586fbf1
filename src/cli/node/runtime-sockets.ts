// SPDX-License-Identifier: Apache-2.0
// Where container runtimes of a node listen for CRI.

import { realpathSync, statSync } from 'node:fs'

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
