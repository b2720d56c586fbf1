// SPDX-License-Identifier: Apache-2.0
// The agent's life: rounds, one at a time, that the cluster, the kernel, directories and the clock ask for.

import { statSync } from 'node:fs'
import { dirname } from 'node:path'
import { contextOfCore, ownBridges, sweep } from '../../core.ts'
import { isPodGone, type News, newsOfIp, newsOfNft } from '../../plan/agent/kernel-news.ts'
import { changedProblems, graceMs, type Problem, ripeProblems, type SeenProblems } from '../../plan/agent/problem.ts'
import { isEcho } from '../../plan/agent/routes.ts'
import { stateRoot } from '../../system/files/state.ts'
import { writeAgentProblems } from '../../system/store/agent-problems.ts'
import { openAccess } from './access.ts'
import { shrinkHeap } from './heap.ts'
import { type Log, openLog } from './log.ts'
import { type Metrics, openMetrics, serveHealth } from './metrics.ts'
import { type NodeWatch, watchNodes } from './nodes.ts'
import { poolUse } from './pools.ts'
import { openReporter, type Reporter } from './reporter.ts'
import { backoffMs } from './request.ts'
import { type Known, notListed, type RoundResult, runRound } from './round.ts'
import type { Settings } from './settings.ts'
import { openTally } from './tally.ts'
import { type AcceptNews, followDirectory, followLines, openAcceptNews } from './watchers.ts'

declare const TRESTLE_VERSION: string

/** Milliseconds from a request to its round, and between rounds, because changes come in bursts. */
const soonMs = { cluster: 5, routes: 200, all: 300 }
const gapMs = { cluster: 0, routes: 1000, all: 2000 }
type Asked = keyof typeof soonMs

/** A longer round is stuck: the deadlines of its calls end sooner. */
const stuckMs = 120_000

interface Life {
  readonly settings: Settings
  readonly signal: AbortSignal
  readonly log: Log
  readonly metrics: Metrics
  readonly watch: NodeWatch
  bridges: ReadonlySet<string>
  asked: Asked | undefined
  timer: NodeJS.Timeout | undefined
  startedMs: number | undefined
  endedMs: number
  failures: number
  problems: readonly Problem[]
  seen: SeenProblems
  grace: NodeJS.Timeout | undefined
  last: RoundResult | undefined
  readonly known: Known
  readonly reporter: Reporter
  readonly acceptNews: AcceptNews
}

/**
 * Runs the agent until the signal; its routes, rules and files stay. Throws CniError 50 without an API server's
 * address.
 */
export async function runAgent(settings: Settings, signal: AbortSignal): Promise<void> {
  const log = openLog()
  const own = () => watch.nodes.get(settings.node)?.podCidrs ?? []
  const { read: calls } = openTally()
  const metrics = openMetrics(TRESTLE_VERSION, { pools: () => poolUse(settings.network, own()), calls })
  const open = () => openAccess(settings.access)
  const { found } = open()
  log('info', 'started', { node: settings.node, apiServer: found.server, from: found.source, version: TRESTLE_VERSION })
  const watch = watchNodes({
    open,
    signal,
    onChange: () => ask(life, 'cluster'),
    onError: (error, failures) => {
      metrics.apiFailures.inc()
      if (failures === 1 || failures % 20 === 0) log('warning', 'API server', { error: error.message, failures })
    },
  })
  const life: Life = {
    ...{ settings, signal, log, metrics, watch, bridges: new Set(), asked: undefined, timer: undefined },
    ...{ startedMs: undefined, endedMs: 0, failures: 0, problems: [], last: undefined },
    ...{ seen: new Map(), grace: undefined, known: {} },
    reporter: openReporter({ node: settings.node, open, signal, log, metrics }),
    acceptNews: openAcceptNews(signal, () => ask(life, 'all')),
  }
  if (settings.listen) serveHealth(settings.listen, healthOf(life), { log, signal })
  follow(life)
  ask(life, 'all')
  await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }))
  clearTimeout(life.timer)
  clearTimeout(life.grace)
  log('info', 'ended: the network of pods stays as it is')
}

/** Subscribes to all sources of changes. */
function follow(life: Life): void {
  const { signal, settings } = life
  const news = (found: News) => found !== undefined && ask(life, found)
  followLines({ file: 'ip', args: ['-o', 'monitor', 'link', 'route', 'netconf'], signal }, (line) => {
    if (isPodGone(line) && waitsForPods(life)) ask(life, 'all')
    if (newsOfIp(line, life.bridges) === undefined || isEcho(line, life.known.routes)) return
    // The network's first pod may have made the bridge since the last round.
    life.bridges = ownBridges() ?? life.bridges
    news(newsOfIp(line, life.bridges))
  })
  // nft 1.0.7 and newer have a command `destroy` and refuse the word here (nftables, src/parser_bison.y).
  const nft = { file: 'nft', args: ['monitor', 'destroy'], otherArgs: ['monitor'], signal }
  followLines(nft, (line) => {
    news(newsOfNft(line))
    life.acceptNews.onLine(line)
  })
  for (const directory of [settings.confDir, settings.binDir])
    followDirectory({ directory, isOurs: true }, signal, () => ask(life, 'routes'))
  followDirectory({ directory: dirname(settings.template.file), isOurs: false }, signal, () => ask(life, 'routes'))
  const look = setInterval(() => {
    ask(life, 'all')
    collectMetrics(life)
  }, settings.lookMs)
  const collect = () =>
    void collectGarbage(life).catch((error: Error) => life.log('error', 'gc', { error: error.message }))
  const garbage = settings.gcMs === 0 ? undefined : setInterval(collect, settings.gcMs)
  if (settings.gcMs !== 0) collect()
  signal.addEventListener('abort', () => {
    clearInterval(look)
    clearInterval(garbage)
  })
}

/** Whether something is to change with the end of a pod: pods have earlier ranges, another mode or another bridge. */
function waitsForPods({ problems }: Life): boolean {
  return problems.some(({ id }) => id === 'MovedPodCIDR' || id === 'ModeChanged')
}

/** Adds the tally of calls to the metrics. Rounds continue with unreadable state. */
function collectMetrics({ metrics, log }: Life): void {
  try {
    metrics.collect()
  } catch (error) {
    log('error', 'metrics', { error: (error as Error).message })
  }
}

/** Asks for a round. Requests during a running or waiting round become one round. */
function ask(life: Life, what: Asked): void {
  if (what !== 'cluster') Object.assign(life.known, { routes: undefined })
  const { asked } = life
  // A waiting round does the most that was asked for: what is looked at more is asked for later.
  const isMore = asked === undefined || soonMs[what] > soonMs[asked]
  if (!isMore && what !== 'cluster') return
  if (isMore) life.asked = what
  const isSooner = asked === 'cluster' && what === 'routes'
  if (life.startedMs === undefined && !isSooner) schedule(life, what)
}

function schedule(life: Life, what: Asked): void {
  if (life.signal.aborted) return
  clearTimeout(life.timer)
  const sinceMs = performance.now() - life.endedMs
  const waitMs =
    life.failures > 0 && what !== 'cluster'
      ? backoffMs(life.failures, Math.random())
      : Math.max(soonMs[what], gapMs[what] - sinceMs)
  life.timer = setTimeout(() => void round(life), waitMs)
}

async function round(life: Life): Promise<void> {
  const { settings, signal, log, metrics, watch } = life
  const isWhole = life.asked === 'all'
  if (life.asked !== 'cluster') Object.assign(life.known, { routes: undefined })
  life.asked = undefined
  life.startedMs = performance.now()
  const nodes = watch.state.isListed ? watch.nodes : undefined
  // A large cluster's list leaves garbage, for which the first round's tools leave no room.
  if (life.last === undefined || life.last.waitsFor === notListed) shrinkHeap()
  const { server: apiServer } = watch.state
  const found = await runRound({ settings, nodes, apiServer, isWhole, known: life.known, signal, log, metrics }).catch(
    // An unforeseen error is reported and the round repeated; an agent that ends would only be started again.
    (error: Error): RoundResult => ({
      isDone: false,
      waitsFor: undefined,
      problems: life.problems,
      failures: [error.message],
    }),
  )
  const result = { ...found, problems: lasting(life, found.problems) }
  const isNews = life.last?.waitsFor !== result.waitsFor || life.last?.isDone !== result.isDone
  if (isNews) shrinkHeap()
  if (isNews) log('info', result.isDone ? 'ready' : (result.waitsFor ?? 'not ready'), { nodes: watch.nodes.size })
  for (const failure of result.failures) log('error', 'round failed', { failure })
  life.last = result
  life.failures = result.failures.length > 0 ? life.failures + 1 : 0
  life.bridges = ownBridges() ?? life.bridges
  life.acceptNews.learn()
  count(life, result, performance.now() - life.startedMs)
  report(life, result)
  life.endedMs = performance.now()
  life.startedMs = undefined
  if (result.failures.length > 0) life.asked = 'all'
  if (life.asked !== undefined) schedule(life, life.asked)
}

/** The problems old enough to report; another round will judge the rest. */
function lasting(life: Life, problems: readonly Problem[]): readonly Problem[] {
  const { ripe, seen, isWaiting } = ripeProblems(problems, {
    self: life.settings.node,
    nowMs: performance.now(),
    seen: life.seen,
  })
  life.seen = seen
  clearTimeout(life.grace)
  if (isWaiting) life.grace = setTimeout(() => ask(life, 'cluster'), graceMs + 100)
  return ripe
}

function count({ metrics, watch }: Life, result: RoundResult, tookMs: number): void {
  metrics.rounds.inc()
  metrics.roundSeconds.set(tookMs / 1000)
  metrics.nodes.set(watch.nodes.size)
  metrics.ready.set(result.isDone ? 1 : 0)
  if (result.failures.length > 0) metrics.failedRounds.inc()
  metrics.setProblems(result.problems)
}

/** Reports news in the log and to the API server: the condition once, and events. */
function report(life: Life, { isDone, problems }: RoundResult): void {
  const { log, settings, reporter } = life
  const { begun, over } = changedProblems(life.problems, problems)
  for (const { id, node, text } of begun) log('warning', text, { problem: id, node })
  for (const { id, node, text } of over) log('info', `over: ${text}`, { problem: id, node })
  life.problems = problems
  if (begun.length > 0 || over.length > 0) keepForDoctor(life)
  const own = life.watch.nodes.get(settings.node)
  if (isDone && !settings.isCloudRouted && own !== undefined) reporter.clearCondition(own)
  const isThere = (problem: Problem) => changedProblems(life.problems, [problem]).begun.length === 0
  reporter.report('Warning', begun, isThere)
  reporter.report('Normal', over, (problem) => !isThere(problem))
}

/** A full disk stops no round. */
function keepForDoctor({ problems, log }: Life): void {
  try {
    writeAgentProblems(problems)
  } catch (error) {
    log('warning', 'doctor does not see the problems', { error: (error as Error).message })
  }
}

function healthOf(life: Life) {
  return {
    metrics: life.metrics,
    isStuck: () => {
      const lost = removedDirectory(life.settings)
      if (lost !== undefined) return `${lost} was removed on the node: the container has to start again`
      const sinceMs = life.startedMs === undefined ? 0 : performance.now() - life.startedMs
      return sinceMs > stuckMs ? `a round has been at work for ${Math.round(sinceMs / 1000)} s` : undefined
    },
    problems: () => life.problems.map(({ id, node, text }) => `${id} (node ${node}): ${text}`),
    isUnready: () => {
      if (life.last === undefined) return 'the first round is at work'
      const { isDone, waitsFor, failures } = life.last
      const { lastError } = life.watch.state
      if (waitsFor === notListed && lastError !== '') return `${notListed}: ${lastError}`
      return isDone ? undefined : (waitsFor ?? failures.join('; '))
    },
  }
}

/** A directory that was removed while the container has it mounted: one of the same name is another directory. */
function removedDirectory({ confDir, binDir }: Settings): string | undefined {
  const directories = [confDir, binDir, stateRoot()]
  return directories.find((directory) => statSync(directory, { throwIfNoEntry: false })?.nlink === 0)
}

// Garbage collection by the agent: `trestle gc --apply` with the runtime's list of sandboxes. Without an answer of the
// runtime nothing is collected.

/** Collects garbage and logs it. Throws CniError when the look fails. */
async function collectGarbage({ settings, log, metrics }: Life): Promise<void> {
  const request = { endpoint: settings.runtimeEndpoint, isAsked: true, open: contextOfCore }
  const found = await sweep({ ...request, isApplied: false }, () => undefined)
  const count = (verdict: string) => found.judged.filter((each) => each.verdict === verdict).length
  metrics.orphans.set(count('report'))
  if (!found.isComplete || count('collect') === 0) return
  const { collected, failures } = await sweep({ ...request, isApplied: true }, () => undefined)
  metrics.collected.inc(count('collect'))
  log('info', 'garbage collected', { attachments: collected, all: count('collect'), failures })
}
