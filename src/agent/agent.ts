// SPDX-License-Identifier: Apache-2.0
// The agent's life: one round after the other, each time that a Node has changed, and every few seconds.

import { statSync } from 'node:fs'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { sweep } from '../commands/gc-command.ts'
import { poolUse } from '../commands/pools.ts'
import { stateRoot } from '../state/layout.ts'
import { openRemovingContext } from '../verbs/context.ts'
import { backoffMs, openAccess } from './api.ts'
import { type Metrics, openMetrics, serveHealth } from './metrics.ts'
import { type NodeWatch, watchNodes } from './nodes.ts'
import { onHost } from './program.ts'
import { log, openReporter, type Reporter } from './report.ts'
import { type Known, notListed, type RoundInput, type RoundResult, runRound } from './round.ts'
import { type Settings, usualLookMs } from './settings.ts'

declare const TRESTLE_VERSION: string

/** Between two rounds: changes of Nodes come in bursts. */
const burstMs = 100

/** A longer round is stuck: the deadlines of its calls end sooner. */
const stuckMs = 120_000

/** So often everything is looked at, also where no sign says that something has changed. */
const wholeMs = 300_000

interface Life {
  readonly settings: Settings
  readonly signal: AbortSignal
  readonly metrics: Metrics
  readonly watch: NodeWatch
  readonly reporter: Reporter
  readonly known: Known
  /** Ends the wait for the next round. */
  wake: () => void
  isChanged: boolean
  startedMs: number | undefined
  failures: number
  last: RoundResult | undefined
}

/** Runs until the signal; routes, rules and files stay. Throws CniError 50 without an API server's address. */
export async function runAgent(settings: Settings, signal: AbortSignal): Promise<void> {
  const known: Known = { refused: [], slow: [], fullRanges: [] }
  const metrics = openMetrics(TRESTLE_VERSION, () => {
    const own = known.decision?.own ?? []
    return poolUse(
      settings.network,
      own.map(({ text }) => text),
    )
  })
  const openApi = () => openAccess(settings.access)
  const { server, source } = openApi()
  log('info', 'started', { node: settings.node, apiServer: server, from: source, version: TRESTLE_VERSION })
  const onChange = () => {
    life.isChanged = true
    life.wake()
  }
  const onError = (error: Error, failures: number) => {
    metrics.apiFailures.inc()
    if (failures === 1 || failures % 20 === 0) log('warning', 'API server', { error: error.message, failures })
  }
  const life: Life = {
    settings,
    signal,
    metrics,
    watch: watchNodes({ open: openApi, signal, onChange, onError }),
    reporter: openReporter({ node: settings.node, open: openApi, signal, metrics }),
    known,
    wake: () => undefined,
    isChanged: false,
    startedMs: undefined,
    failures: 0,
    last: undefined,
  }
  if (settings.listen) serveHealth(settings.listen, healthOf(life), signal)
  signal.addEventListener('abort', () => life.wake())
  collectGarbageRegularly(life)
  const { lookMs } = settings
  // Below the usual time, as tests have it, each look is a whole one.
  const everyWholeMs = lookMs < usualLookMs ? lookMs : Math.max(wholeMs, lookMs)
  let [lookAtMs, wholeAtMs] = [0, 0]
  while (!signal.aborted) {
    const nowMs = performance.now()
    const [isLook, isWhole] = [nowMs >= lookAtMs, nowMs >= wholeAtMs]
    if (isLook) lookAtMs = nowMs + lookMs
    if (isWhole) wholeAtMs = nowMs + everyWholeMs
    await round(life, { isLook, isWhole })
    await waitForNext(life, { lookAtMs, endedMs: performance.now() })
  }
  log('info', 'ended: the network of pods stays as it is')
}

/** Until a Node has changed, or the next look is due; after a failure some time more, for others to recover. */
async function waitForNext(life: Life, { lookAtMs, endedMs }: Record<'lookAtMs' | 'endedMs', number>): Promise<void> {
  const wait = (ms: number) =>
    new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, Math.max(0, Math.ceil(ms)))
      life.wake = () => {
        clearTimeout(timer)
        resolve()
      }
    })
  if (life.failures > 0 && !life.signal.aborted)
    await wait(Math.min(backoffMs(life.failures, Math.random()), life.settings.lookMs))
  if (!life.isChanged && !life.signal.aborted) await wait(lookAtMs - performance.now())
  if (life.isChanged && !life.signal.aborted) await wait(endedMs + burstMs - performance.now())
}

async function round(life: Life, due: Pick<RoundInput, 'isLook' | 'isWhole'>): Promise<void> {
  const { settings, metrics, watch, known, isChanged } = life
  life.isChanged = false
  life.startedMs = performance.now()
  const { isListed, server: apiServer } = watch.state
  const nodes = isListed ? new Map(watch.nodes) : undefined
  // A large cluster's list leaves garbage, for which the first round's tools leave no room.
  if (life.last === undefined || life.last.waitsFor === notListed) collectHeap()
  const input = { settings, nodes, apiServer, isChanged, ...due, known, metrics, nowMs: performance.now() }
  const result = await runRound(life.failures > 0 ? { ...input, isLook: true } : input)
  const isNews = life.last?.waitsFor !== result.waitsFor || life.last?.isDone !== result.isDone
  if (isNews || due.isWhole || process.memoryUsage().heapUsed > collectFromBytes) collectHeap()
  if (isNews) log('info', result.isDone ? 'ready' : (result.waitsFor ?? 'not ready'), { nodes: watch.nodes.size })
  for (const failure of result.failures) log('error', 'round failed', { failure })
  if (result.failures.length > 0) metrics.failedRounds.inc()
  life.last = result
  life.failures = result.failures.length > 0 ? life.failures + 1 : 0
  metrics.nodes.set(watch.nodes.size)
  metrics.ready.set(result.isDone ? 1 : 0)
  const published = known.decision?.subnets.map(({ text }) => text).join(' ') || 'none'
  life.reporter.report({
    own: watch.nodes.get(settings.node),
    isAvailable: result.isDone && !settings.isCloudRouted,
    subnets: settings.overlay.when === 'auto' && known.decision !== undefined ? published : undefined,
    problems: result.problems,
    // Without the own Node nothing was decided: what was found before is not over.
    isComplete: result.failures.length === 0 && watch.nodes.has(settings.node),
  })
  life.startedMs = undefined
}

function healthOf(life: Life) {
  const { confDir, binDir } = life.settings
  return {
    metrics: life.metrics,
    isStuck: () => {
      // A directory that was removed while the container has it mounted: one of the same name is another directory.
      const lost = [confDir, binDir, stateRoot()].find(
        (directory) => statSync(directory, { throwIfNoEntry: false })?.nlink === 0,
      )
      if (lost !== undefined) return `${lost} was removed on the node: the container has to start again`
      const sinceMs = life.startedMs === undefined ? 0 : performance.now() - life.startedMs
      return sinceMs > stuckMs ? `a round has been at work for ${Math.round(sinceMs / 1000)} s` : undefined
    },
    problems: () => life.reporter.problems().map(({ id, node, text }) => `${id} (node ${node}): ${text}`),
    isUnready: () => {
      if (life.last === undefined) return 'the first round is at work'
      const { isDone, waitsFor, failures } = life.last
      const { lastError } = life.watch.state
      if (waitsFor === notListed && lastError !== '') return `${notListed}: ${lastError}`
      return isDone ? undefined : (waitsFor ?? failures.join('; '))
    },
  }
}

/** `trestle gc --apply` with the runtime's list of sandboxes. Without its answer nothing is collected. */
function collectGarbageRegularly({ settings, metrics, signal }: Life): void {
  const { gcMs, runtimeEndpoint: endpoint, hostRoot } = settings
  if (gcMs === 0) return
  const collect = async () => {
    const request = { endpoint, isAsked: true, open: () => openRemovingContext({ wrap: onHost(hostRoot) }) }
    const found = await sweep({ ...request, isApplied: false }, () => undefined)
    const count = (verdict: string) => found.judged.filter((each) => each.verdict === verdict).length
    metrics.orphans.set(count('report'))
    if (!found.isComplete || count('collect') === 0) return
    const { collected, failures } = await sweep({ ...request, isApplied: true }, () => undefined)
    metrics.collected.inc(collected)
    log('info', 'garbage collected', { attachments: collected, failures })
  }
  const run = () => void collect().catch((error: Error) => log('error', 'gc', { error: error.message }))
  const timer = setInterval(run, gcMs)
  signal.addEventListener('abort', () => clearInterval(timer))
  run()
}

// V8 adds `gc` to contexts that are made while the flag is set (v8/src/extensions/gc-extension.h).
setFlagsFromString('--expose-gc')
const gc = runInNewContext('gc') as () => void
let collectFromBytes = 0

/** In some 20 ms of CPU. V8 alone lets garbage grow to twice the size of what is used, or collects none for days. */
function collectHeap(): void {
  gc()
  collectFromBytes = process.memoryUsage().heapUsed + 32e6
}
