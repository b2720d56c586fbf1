// SPDX-License-Identifier: Apache-2.0
// The entry of the agent's bundle, and `trestle agent --uninstall`: removes all that agent and plugin made, once no pod is
// attached. A remaining pod keeps its network, and the configuration and executable that its removal needs.

import { existsSync, rmdirSync, rmSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { oneLine, toCniError } from '../cni/errors.ts'
import { runCommand } from '../commands/command.ts'
import { standardOutput } from '../commands/output.ts'
import { requireRoot } from '../commands/self.ts'
import { attached } from '../commands/uninstall-command.ts'
import { removeCallFiles } from '../process/killed-calls.ts'
import { readableText, writeText } from '../state/files.ts'
import { stateRoot } from '../state/layout.ts'
import { allRecords } from '../state/records.ts'
import { openRemovingContext } from '../verbs/context.ts'
import { planUninstall, uninstall } from '../verbs/uninstall.ts'
import { runAgent } from './agent.ts'
import { openMetrics, serveHealth } from './metrics.ts'
import { changeDevice } from './overlay.ts'
import { onHost, removeProgram } from './program.ts'
import { log } from './report.ts'
import { lookAtRoutes, overlayLink, settleRoutes } from './routes.ts'
import { agentCommand, readSettings, type Settings } from './settings.ts'

declare const TRESTLE_VERSION: string

/** The first argument is `agent`. Returns the exit code; never rejects. */
export async function main([, ...words]: readonly string[]): Promise<number> {
  const run = async (input: Parameters<typeof readSettings>[0]) => {
    const settings = readSettings(input)
    requireRoot('agent', 'it changes routes and rules of the node')
    keepHeapSmall()
    const interruption = new AbortController()
    for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => interruption.abort())
    await (settings.isUninstall ? runUninstall : runAgent)(settings, interruption.signal)
    return 0
  }
  try {
    return await runCommand({ ...agentCommand, run }, words, standardOutput())
  } finally {
    removeCallFiles()
  }
}

/**
 * The young generation would grow to 64 MB and seldom shrink (v8/src/flags/flag-definitions.h). Incremental marking took a
 * fifth of an idle agent's CPU.
 */
function keepHeapSmall(): void {
  for (const flag of ['--semi-space-growth-factor=1', '--sparkplug', '--no-incremental-marking'])
    setFlagsFromString(flag)
}

/** Between two attempts while pods are attached. */
const againMs = 2000

/** With a health port it stays until the signal when all is gone: kubelet would start its pod again. */
async function runUninstall(settings: Settings, signal: AbortSignal): Promise<void> {
  let waitsFor: string | undefined = 'the first try is at work'
  const health = {
    metrics: openMetrics(TRESTLE_VERSION),
    isStuck: () => undefined,
    isUnready: () => waitsFor,
    problems: () => [],
  }
  if (settings.listen) serveHealth(settings.listen, health, signal)
  log('info', 'uninstall started', { node: settings.node, version: TRESTLE_VERSION })
  while (waitsFor !== undefined && !signal.aborted) {
    const found = await removeEverything(settings).catch((thrown) => oneLine(toCniError(thrown).message))
    if (found !== undefined && found !== waitsFor) log('warning', found)
    waitsFor = found
    if (waitsFor !== undefined) await sleep(againMs, undefined, { signal }).catch(() => undefined)
  }
  if (waitsFor !== undefined) return
  log('info', 'uninstalled: nothing of trestle is left on this node')
  if (!settings.listen || signal.aborted) return
  await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }))
}

/** Returns what is in the way; undefined when nothing is left. Throws CniError where something cannot be seen. */
async function removeEverything(settings: Settings): Promise<string | undefined> {
  const open = () => openRemovingContext({ wrap: onHost(settings.hostRoot) })
  const plan = await planUninstall(open())
  const live = await attached(plan, open())
  if (live.length > 0) return attachedText(live)
  const conflist = `${settings.confDir}/${settings.confName}`
  const kept = readableText(conflist)
  rmSync(conflist, { force: true })
  const remove = async (): Promise<string | undefined> => {
    // A pod may have come since the plan was made.
    const late = await attached({ ...plan, records: allRecords() }, open())
    if (late.length > 0) return attachedText(late)
    const errors = await uninstall(plan, open())
    if (errors.length > 0) return `could not remove everything: ${errors.map(({ message }) => message).join('; ')}`
    const { ask } = open().machine
    const looked = await lookAtRoutes(ask)
    const { made, refusals } = await settleRoutes(ask, looked, { wanted: [] })
    const [refused] = refusals
    if (refused !== undefined) return `could not ${refused.change.why}: ${refused.text}`
    if (looked.device !== undefined) await changeDevice(ask, [['link', 'del', overlayLink]])
    const files = [...(await removeProgram(settings)), ...(kept === undefined ? [] : [conflist])]
    // All tools have ended.
    removeCallFiles()
    removeStateRoot(settings.hostRoot)
    log('info', 'removed', { files, removed: plan.removes, routes: made.length, stays: plan.stays })
    return undefined
  }
  const inTheWay = await remove().catch((thrown) => oneLine(toCniError(thrown).message))
  // For a pod that came meanwhile: without a configuration containerd removes no pod.
  if (inTheWay !== undefined && kept !== undefined) writeText(conflist, kept)
  return inTheWay
}

function attachedText(live: readonly string[]): string {
  const [first, second, ...more] = live
  const named = [first, second].filter((text) => text !== undefined).join('; ')
  return `pods are attached, remove them first: ${named}${more.length > 0 ? `; and ${more.length} more` : ''}`
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
