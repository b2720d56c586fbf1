// SPDX-License-Identifier: Apache-2.0
// A fault run of `trestle agent`: what it keeps is damaged, it is killed at a random moment or at a random change of a
// file, the API server fails in every way, and a TCP connection between pods of two nodes goes on or is back soon. A part
// of the rounds by seed; more with TRESTLE_TEST_FULL=1. Prints how long the connection was silent.

import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { execaSync } from 'execa'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { isReady, type Running, startAgent, until } from '../../support/cluster/cluster.ts'
import { nodesSeenBy, openTwoNodes, type Side, type TwoNodes } from '../../support/cluster/two-nodes.ts'
import { haveStrace, nameChanges } from '../../support/faults/strace.ts'
import { openStream, type Silence } from '../../support/traffic/silence.ts'

const isFull = process.env['TRESTLE_TEST_FULL'] === '1'
/** Of a test: forty or sixty rounds of some seconds each. */
const timeout = isFull ? 1_800_000 : 240_000
const seed = Number(process.env['TRESTLE_TEST_SEED'] ?? Date.now() % 1_000_000)

/** What a person or another program does to a node. */
const damages: Readonly<Record<string, (side: Side) => void>> = {
  nothing: () => undefined,
  'all rules flushed': ({ host }) => void host.run('nft', ['flush', 'ruleset']),
  'rules of the table flushed': ({ host }) => void host.run('nft', ['flush', 'table', 'inet', 'trestle']),
  'bridge deleted': ({ host }) => void host.run('ip', ['link', 'del', 'cni0']),
  'forwarding off': ({ host }) => void host.run('sysctl', ['-qw', 'net.ipv4.ip_forward=0']),
  'routes deleted': ({ host }) => void host.run('ip', ['route', 'flush', 'proto', '116']),
  'configuration removed': ({ files }) => rmSync(files.conflist),
  'executable deleted': ({ files }) => rmSync(files.program),
}
const names = Object.keys(damages)

const refusals = [
  { answer: 401 },
  { answer: 410 },
  { answer: 429 },
  { answer: 500 },
  { answer: 503 },
  { garbage: true },
]

let nodes: TwoNodes
let stream: Silence
let right: readonly string[]
const told: string[] = []

beforeEach(async () => {
  nodes = await openTwoNodes()
  const { one, two } = nodes
  stream = await openStream(one.pod, two.pod, two.address.v4)
  right = stateOf(one)
})

afterEach(async () => {
  stream?.close()
  await nodes?.close()
  console.log(`agent faults, seed ${seed}:\n${told.splice(0).join('\n')}`)
})

/** All that the agent keeps right, as text: rules without counters, routes, files. */
function stateOf({ host, files }: Side): readonly string[] {
  const text = (file: string, ...args: string[]) => host.run(file, args).stdout
  const rules = text('nft', 'list', 'table', 'inet', 'trestle').replace(/ct .*|handle.*/g, '')
  const routes = [4, 6].map((family) => text('ip', `-${family}`, 'route', 'show', 'proto', '116'))
  const forwarding = text('sysctl', '-n', 'net.ipv4.ip_forward')
  const links = text('ip', '-br', 'link', 'show', 'master', 'cni0').replace(/ .*/g, '')
  const conf = existsSync(files.conflist) ? readFileSync(files.conflist, 'utf8') : 'none'
  return [rules, ...routes, forwarding, links, conf, existsSync(files.program) ? 'there' : 'none']
}

/** The same numbers for the same seed (mulberry32). */
function chances(from: number): () => number {
  let state = from
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}

const isRight = () => stream.isBack() && JSON.stringify(stateOf(nodes.one)) === JSON.stringify(right)

async function expectRight(what: string, since: number): Promise<void> {
  await until(isRight, () => `${what}: right again; ${stream.broken() ?? ''} ${differences()}`)
  expect(stream.broken(), what).toBeUndefined()
  const rightMs = Math.round(performance.now() - since)
  told.push(`  ${what}: silent for ${Math.round(stream.longestMs())} ms, all right after ${rightMs} ms`)
}

const differences = () =>
  stateOf(nodes.one)
    .map((now, at) => (now === right[at] ? '' : `${now} instead of ${right[at]}`))
    .join('\n')

/** What a killed agent may not leave for good: files under other names. */
function expectNoLeftovers(what: string): void {
  const { files, host } = nodes.one
  expect(readdirSync(`${files.root}/net.d`), what).toEqual(['10-trestle.conflist'])
  expect(
    readdirSync(`${files.root}/bin`).filter((name) => name.startsWith('.')),
    what,
  ).toEqual([])
  const { conf, pod, result } = nodes.one
  const checked = host.cni('CHECK', { ...conf, prevResult: result }, { id: 'pod1', netns: pod })
  expect(checked.stdout + checked.stderr, what).toBe('')
}

describe('trestle agent, damaged and killed', { timeout }, () => {
  it('makes each damage good while a connection goes on', async () => {
    for (const name of names.slice(1)) {
      stream.start()
      const since = performance.now()
      damages[name]?.(nodes.one)
      await expectRight(name, since)
    }
    expectNoLeftovers('damaged')
  })

  it('killed at any moment, of its start or of a repair: the next one makes all of it right', async () => {
    const chance = chances(seed)
    for (let round = 0; round < (isFull ? 60 : 6); round++) {
      const damage = names[Math.floor(chance() * names.length)] ?? 'nothing'
      const isAtStart = chance() < 0.5
      const killMs = Math.round(chance() * (isAtStart ? 600 : 1500))
      if (isAtStart) await replaceAgent()
      stream.start()
      damages[damage]?.(nodes.one)
      await sleep(killMs)
      const since = performance.now()
      await replaceAgent()
      await expectRight(`${damage}, killed ${isAtStart ? 'at its start ' : ''}after ${killMs} ms`, since)
      expectNoLeftovers(`seed ${seed}, round ${round}`)
    }
  })

  it.skipIf(!haveStrace())('killed at a change of a file: the next one makes all of it right', async () => {
    const chance = chances(seed + 1)
    for (let round = 0; round < (isFull ? 20 : 3); round++) {
      const damage = names[Math.floor(chance() * names.length)] ?? 'nothing'
      const when = 1 + Math.floor(chance() * 4)
      await nodes.one.agent.end('SIGKILL')
      stream.start()
      damages[damage]?.(nodes.one)
      const traced = startTraced(nodes.one, when)
      await until(
        () => traced.child.exitCode !== null || traced.child.signalCode !== null || traced.lines.some(isReady),
        'its end',
      )
      const hasMet = !traced.lines.some(isReady)
      // The agent itself: strace would leave it running.
      if (!hasMet) execaSync('pkill', ['-TERM', '-P', String(traced.child.pid)])
      await traced.end('SIGCONT')
      const since = performance.now()
      nodes.one.agent = startAgent(nodes.one.host, nodes.one.files)
      await expectRight(`${damage}, ${hasMet ? 'killed' : 'not killed'} at change ${when} of a file`, since)
      expectNoLeftovers(`seed ${seed}, round ${round}`)
    }
  })

  it('started while the API server fails: pods keep their network, and it goes on when the server is back', async () => {
    const { one } = nodes
    const first = seed % refusals.length
    for (const order of isFull ? refusals : [refusals[first] ?? {}, { garbage: true }]) {
      stream.start()
      const since = performance.now()
      await one.api.order({ ...order, cut: true })
      await one.agent.end('SIGKILL')
      one.agent = startAgent(one.host, one.files)
      await one.agent.seen(({ message }) => message === 'API server', 'the failure')
      expect(stateOf(one)).toEqual(right)
      // Repair needs no API server.
      one.host.run('nft', ['flush', 'ruleset'])
      await until(isRight, () => `the rules; ${differences()}`)
      await one.api.order({ answer: 0, garbage: false, put: nodesSeenBy(1) })
      await one.agent.seen(isReady, 'ready')
      await expectRight(`API server: ${JSON.stringify(order)}`, since)
    }
  })
})

async function replaceAgent(): Promise<void> {
  const { one } = nodes
  await one.agent.end('SIGKILL')
  one.agent = startAgent(one.host, one.files)
}

/** An agent that strace kills at the nth change of a name on disk, all of which its main thread makes. */
function startTraced({ host, files }: Side, when: number): Running {
  const tracer = ['strace', '-qq', '-I1', '-o', '/dev/null', '-e', `trace=${nameChanges}`]
  return startAgent(host, files, [], [...tracer, '-e', `inject=${nameChanges}:signal=KILL:when=${when}`])
}
