// SPDX-License-Identifier: Apache-2.0
// Whether this is a container that sees nothing of its node: then what is missing here says nothing about the node.

import { existsSync, statfsSync } from 'node:fs'
import { linkIfThere } from '../../../system/files/if-there.ts'
import { processesOf } from '../../node/runtime-processes.ts'
import { type Group, groups } from '../checks/check.ts'

/** The pid namespace that the kernel starts with (include/linux/proc_ns.h, PROC_PID_INIT_INO). */
const firstPidNamespace = 'pid:[4026531836]'

/** statfs(2). */
const OVERLAYFS_MAGIC = 0x794c7630

const nodePrograms = ['containerd', 'crio', 'cri-dockerd', 'dockerd', 'kubelet', 'k3s', 'k3s-server', 'k3s-agent']

/** What is the node's own, and not to be seen from a container without its processes and files: all but a probe. */
export const groupsOfNode: readonly Group[] = groups.filter((group) => group !== 'probe')

/**
 * Why nothing of a node can be seen from here; undefined where this is a node. One that is a container itself, as with
 * kind, has its runtime beside us.
 */
export function containerReason(env: Readonly<Record<string, string | undefined>> = process.env): string | undefined {
  if (linkIfThere('/proc/self/ns/pid') === firstPidNamespace || !isMarked(env)) return undefined
  if (processesOf(nodePrograms).length > 0) return undefined
  const cure = 'run it on the node itself, or with its pid and network namespaces and its directories'
  return `it runs in a container that sees neither the processes nor the files of its node: ${cure}`
}

/** Kubernetes tells every pod where the API server is; podman and systemd-nspawn set `container`. */
function isMarked(env: Readonly<Record<string, string | undefined>>): boolean {
  const isNamed = Boolean(env['KUBERNETES_SERVICE_HOST'] || env['container'])
  return isNamed || existsSync('/run/.containerenv') || (existsSync('/.dockerenv') && isOverlay('/'))
}

function isOverlay(path: string): boolean {
  try {
    return statfsSync(path).type === OVERLAYFS_MAGIC
  } catch {
    return false
  }
}
