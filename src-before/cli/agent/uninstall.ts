// SPDX-License-Identifier: Apache-2.0
// `trestle agent --uninstall`: removes all that agent and plugin made, once no pod is attached. A remaining pod keeps
// its network, and the configuration and executable that its removal needs.

import { existsSync, rmdirSync, rmSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { oneLine, toCniError } from '../../cni/error.ts'
import { type CallContext, openContext } from '../../commands/call/context.ts'
import { uninstallAll } from '../../core.ts'
import { removalsOf } from '../../plan/agent/routes.ts'
import { readText, writeText } from '../../system/files/files.ts'
import { stateRoot } from '../../system/files/state.ts'
import { removeCallFiles } from '../../system/process/call-file.ts'
import { type Log, openLog } from './log.ts'
import { openMetrics, serveHealth } from './metrics.ts'
import { removeProgram } from './program.ts'
import { changeRoutes, lookAtRoutes, refusalOf } from './routes.ts'
import type { Settings } from './settings.ts'

declare const TRESTLE_VERSION: string

/** Time between two attempts while pods are attached. */
const againMs = 2000

/**
 * Removes everything, with retries, and with a health port stays until the signal: kubelet would start its pod again.
 */
export async function runUninstall(settings: Settings, signal: AbortSignal): Promise<void> {
  const log = openLog()
  let waitsFor: string | undefined = 'the first try is at work'
  const isStuck = () => undefined
  const health = { metrics: openMetrics(TRESTLE_VERSION), isStuck, isUnready: () => waitsFor, problems: () => [] }
  if (settings.listen) serveHealth(settings.listen, health, { log, signal })
  log('info', 'uninstall started', { node: settings.node, version: TRESTLE_VERSION })
  while (waitsFor !== undefined && !signal.aborted) {
    const found = await removeEverything(settings, log, signal).catch((thrown) => oneLine(toCniError(thrown).message))
    if (found !== undefined && found !== waitsFor) log('warning', found)
    waitsFor = found
    if (waitsFor !== undefined) await sleep(againMs, undefined, { signal }).catch(() => undefined)
  }
  if (waitsFor === undefined) log('info', 'uninstalled: nothing of trestle is left on this node')
  if (settings.listen && waitsFor === undefined)
    await new Promise<void>((resolve) => {
      if (signal.aborted) resolve()
      signal.addEventListener('abort', () => resolve(), { once: true })
    })
}

/** Returns the obstacle; undefined when nothing is left. Throws CniError when the look fails. */
async function removeEverything(settings: Settings, log: Log, signal: AbortSignal): Promise<string | undefined> {
  const context = openContext(signal)
  const before = await uninstallAll(false)
  if (before.live.length > 0) return attachedText(before.live)
  const conflist = `${settings.confDir}/${settings.confName}`
  const kept = readText(conflist)
  rmSync(conflist, { force: true })
  const removed = await removeAll(settings, context).catch((thrown) => oneLine(toCniError(thrown).message))
  if (typeof removed === 'string') {
    // For a pod that came meanwhile: without a configuration containerd removes no pod.
    if (typeof kept === 'object') writeText(conflist, kept.text)
    return removed
  }
  const files = [...(kept === undefined ? [] : [conflist]), ...removed.files]
  log('info', 'removed', { ...removed, files })
  return undefined
}

/** Removes all but the configuration, and returns what it was, or the obstacle. Throws CniError when the look fails. */
async function removeAll(settings: Settings, context: CallContext) {
  const { live, removes, stays, failures } = await uninstallAll(true)
  if (live.length > 0) return attachedText(live)
  if (failures.length > 0) return `could not remove everything: ${failures.join('; ')}`
  const routes = await removeRoutes(context, settings.node)
  if (typeof routes === 'string') return routes
  const files = removeProgram(settings)
  // All tools have ended.
  removeCallFiles()
  removeStateRoot(settings.hostRoot)
  return { files, removed: removes, routes, stays }
}

function attachedText(live: readonly string[]): string {
  const [first, second, ...more] = live
  const named = [first, second].filter((text) => text !== undefined).join('; ')
  return `pods are attached, remove them first: ${named}${more.length > 0 ? `; and ${more.length} more` : ''}`
}

/** Returns how many routes there were, or the kernel's refusal. */
async function removeRoutes({ run }: CallContext, self: string): Promise<number | string> {
  const { routes } = await lookAtRoutes(run)
  const changes = removalsOf(routes)
  const [refused] = await changeRoutes(run, changes)
  return refused === undefined ? changes.length : refusalOf(self, refused).text
}

/** In a container the directory is a mount, so an empty one is removed by its path on the host. */
function removeStateRoot(hostRoot: string): void {
  const directory = `${hostRoot}${stateRoot()}`
  try {
    if (existsSync(directory)) rmdirSync(directory)
  } catch {
    // The directory has other files, or belongs to another user too.
  }
}
