// SPDX-License-Identifier: Apache-2.0
// What the agent makes of a server that answers, and answers nonsense.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { text } from 'node:stream/consumers'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { openAccess } from '../../../../src-before/cli/agent/access.ts'
import { openMetrics, serveHealth } from '../../../../src-before/cli/agent/metrics.ts'
import { type NodeWatch, watchNodes } from '../../../../src-before/cli/agent/nodes.ts'
import { openReporter } from '../../../../src-before/cli/agent/reporter.ts'

let scratch: string
let end: AbortController
const servers: Server[] = []

beforeEach(() => {
  scratch = mkdtempSync(`${tmpdir()}/trestle-answers-`)
  writeFileSync(`${scratch}/token`, 'token')
  end = new AbortController()
})

afterEach(() => {
  end.abort()
  for (const server of servers.splice(0)) {
    server.close()
    server.closeAllConnections()
  }
  rmSync(scratch, { recursive: true })
})

/** An API server on loopback. Returns how it is reached. */
async function serve(listener: RequestListener) {
  const server = createServer(listener)
  servers.push(server)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const settings = { server: url, tokenFile: `${scratch}/token`, kubeconfigs: [], hostRoot: '' }
  return () => openAccess(settings, {})
}

/** Watches until `isSeen`. Returns what failed on the way. */
async function watched(open: ReturnType<typeof openAccess> extends infer A ? () => A : never, isSeen: Seen) {
  const errors: string[] = []
  let watch: NodeWatch | undefined
  await new Promise<void>((resolve) => {
    const look = () => watch !== undefined && isSeen(watch, errors) && resolve()
    const onError = (error: Error) => {
      errors.push(error.message)
      look()
    }
    watch = watchNodes({ open, signal: end.signal, onChange: () => setImmediate(look), onError })
  })
  return errors
}
type Seen = (watch: NodeWatch, errors: readonly string[]) => boolean

const node = (name: string) => ({ metadata: { name }, spec: { podCIDR: '10.0.2.0/24' } })
const list = (items: readonly object[], more = {}) =>
  JSON.stringify({ kind: 'NodeList', metadata: { resourceVersion: '1', ...more }, items })

it('lists anew when a watch is refused with an event, whatever its code is', async () => {
  let lists = 0
  const open = await serve((request, response) => {
    if (!request.url?.includes('watch=true')) return void response.end(list([node(`listed-${++lists}`)]))
    const object = { kind: 'Status', code: 500, message: 'the watch cache is gone' }
    if (lists === 1) response.end(`${JSON.stringify({ type: 'ERROR', object })}\n`)
  })
  const errors = await watched(open, ({ nodes }) => nodes.has('listed-2'))
  expect(errors).toEqual([expect.stringContaining('500 the watch cache is gone')])
})

it('does not ask for the same page for ever', async () => {
  const open = await serve((_, response) => void response.end(list([node('a')], { continue: 'again' })))
  const errors = await watched(open, (_, found) => found.length > 0)
  expect(errors).toEqual([expect.stringContaining('continues with the same page')])
})

it('tells of the nodes of a page although a later page fails', async () => {
  let asks = 0
  const open = await serve((request, response) => {
    if (request.url?.includes('watch=true')) return
    asks += 1
    if (asks === 2) response.writeHead(500).end('{}')
    else response.end(asks === 1 ? list([node('a')], { continue: 'more' }) : list([node('a')]))
  })
  let changes = 0
  const watch = watchNodes({ open, signal: end.signal, onChange: () => (changes += 1), onError: () => undefined })
  await until(() => changes > 0)
  expect([watch.nodes.has('a'), watch.state.isListed]).toEqual([true, false])
})

it('goes on after a watch that broke off from the last event, not from the first', async () => {
  const asked: (string | null)[] = []
  const open = await serve((request, response) => {
    const { searchParams } = new URL(request.url ?? '', 'http://x')
    if (searchParams.get('watch') !== 'true') return void response.end(list([node('a')]))
    asked.push(searchParams.get('resourceVersion'))
    const object = { ...node('b'), metadata: { name: 'b', resourceVersion: '7' } }
    response.write(`${JSON.stringify({ type: 'ADDED', object })}\n`, () => response.socket?.destroy())
  })
  await watched(open, () => asked.length > 1)
  expect(asked.slice(0, 2)).toEqual(['1', '7'])
})

it('asks for smaller pages where a page is too large, down to a Node', async () => {
  const limits: number[] = []
  const nodes = Array.from({ length: 7 }, (_, at) => ({
    ...node(`n${at}`),
    large: at < 2 ? 'x'.repeat(9_000_000) : '',
  }))
  const open = await serve((request, response) => {
    const { searchParams } = new URL(request.url ?? '', 'http://x')
    if (searchParams.get('watch') === 'true') return
    const [from, limit] = [Number(searchParams.get('continue') ?? 0), Number(searchParams.get('limit'))]
    limits.push(limit)
    const more = from + limit < nodes.length ? { continue: `${from + limit}` } : {}
    response.end(list(nodes.slice(from, from + limit), more))
  })
  const errors = await watched(open, ({ state }) => state.isListed)
  expect([errors, limits.slice(0, 7)]).toEqual([[], [50, 25, 12, 6, 3, 1, 1]])
})

/** Until something holds, or the test is over. */
async function until(test: () => boolean): Promise<void> {
  while (!test() && !end.signal.aborted) await new Promise((resolve) => setImmediate(resolve))
}

it('takes the end of a watch that a load balancer cuts for no failure', { timeout: 20_000 }, async () => {
  const asked: number[] = []
  const open = await serve((request, response) => {
    if (!request.url?.includes('watch=true')) return void response.end(list([node('a')]))
    asked.push(performance.now())
    response.flushHeaders()
    setTimeout(() => response.socket?.destroy(), 3200)
  })
  const errors: string[] = []
  const onError = (error: Error) => errors.push(error.message)
  watchNodes({ open, signal: end.signal, onChange: () => undefined, onError })
  await until(() => asked.length > 1)
  expect(errors).toEqual([])
})

it('keeps ten events waiting, however many problems begin while the server is slow', async () => {
  const held: (() => void)[] = []
  const bodies: string[] = []
  let [asked, isSlow] = [0, true]
  const open = await serve(async (request, response) => {
    asked += 1
    bodies.push(await text(request))
    const answer = () => void response.writeHead(201).end('{}')
    if (isSlow) held.push(answer)
    else answer()
  })
  const metrics = openMetrics('0')
  const reporter = openReporter({ node: 'self', open, signal: end.signal, log: () => undefined, metrics })
  const problems = (count: number, of: string) =>
    Array.from({ length: count }, (_, at) => ({ id: 'NoPodCIDR' as const, node: `${of}-${at}`, text: 'x' }))
  reporter.report('Warning', problems(10, 'a'), () => true)
  reporter.clearCondition({ uid: 'a', networkUnavailable: 'True' })
  reporter.report('Warning', problems(100, 'b'), () => true)
  await until(() => held.length > 0)
  isSlow = false
  for (const answer of held) answer()
  await until(() => asked >= 11)
  // With eleven sent there is room again, and nothing of the hundred before it.
  reporter.report('Warning', problems(1, 'last'), () => true)
  await until(() => bodies.at(-1)?.includes('last-0') === true)
  reporter.report('Normal', problems(1, 'last'), () => true)
  await until(() => bodies.at(-1)?.includes('"message":"over: node last-0: x"') === true)
  expect(JSON.parse(bodies.at(-1) ?? '')).toMatchObject({ type: 'Normal', reason: 'NoPodCIDR' })
  expect(bodies.filter((body) => body.includes('b-'))).toEqual([])
})

it('sends a burst of events, says once that there are more, and none of them', async () => {
  const bodies: string[] = []
  const logged: string[] = []
  const open = await serve(async (request, response) => {
    bodies.push(await text(request))
    response.writeHead(201).end('{}')
  })
  const log = (_: string, message: string) => void logged.push(message)
  const reporter = openReporter({ node: 'self', open, signal: end.signal, log, metrics: openMetrics('0') })
  for (let count = 1; count <= 40; count++) {
    reporter.report('Warning', [{ id: 'BadInternalIP', node: 'evil', text: `${count}` }], () => true)
    await until(() => bodies.length >= Math.min(count, 25))
  }
  reporter.report('Warning', [], () => true)
  await new Promise((resolve) => setTimeout(resolve, 100))
  expect(bodies.length).toBe(25)
  expect(logged).toEqual([expect.stringContaining('too many events')])
})

it('clears the condition although no event is taken, and drops an event that the server fails to take', async () => {
  const asked: string[] = []
  const open = await serve(async (request, response) => {
    const isEvent = request.url?.includes('/events') === true
    asked.push(isEvent ? JSON.parse(await text(request)).message : 'condition')
    response.writeHead(isEvent ? 500 : 200).end('{}')
  })
  const parts = { node: 'self', open, signal: end.signal, log: () => undefined, metrics: openMetrics('0') }
  const reporter = openReporter(parts)
  for (const each of ['a', 'b']) reporter.report('Warning', [{ id: 'NoPodCIDR', node: 'self', text: each }], () => true)
  reporter.clearCondition({ uid: 'u', networkUnavailable: 'True' })
  await until(() => asked.includes('b'))
  expect(asked.slice(0, 2).sort()).toEqual(['a', 'condition'])
  expect(asked.filter((each) => each === 'a')).toHaveLength(3)
})

it('serves health on a port that a former agent leaves later, and says once that it is taken', async () => {
  const held = createServer((_, response) => void response.end('former'))
  await new Promise<void>((resolve) => held.listen(0, '127.0.0.1', resolve))
  const { port } = held.address() as AddressInfo
  const logged: string[] = []
  const log = (_: string, message: string) => void logged.push(message)
  const [metrics, nothing] = [openMetrics('0'), () => undefined]
  const health = { metrics, isStuck: nothing, isUnready: nothing, problems: () => [] }
  const server = serveHealth({ host: '127.0.0.1', port }, health, { log, signal: end.signal })
  await until(() => logged.length > 0)
  held.close()
  await new Promise<void>((resolve) => server.once('listening', resolve))
  expect(await fetch(`http://127.0.0.1:${port}/healthz`).then((answer) => answer.text())).toBe('ok\n')
  expect(logged).toEqual(['health and metrics are not served'])
})

it('answers 500 for metrics that cannot be read, and lives', async () => {
  const logged: string[] = []
  const metrics = openMetrics('0', {
    pools: () => {
      throw new Error('EIO: the state cannot be read')
    },
    calls: () => [],
  })
  const health = { metrics, isStuck: () => undefined, isUnready: () => undefined, problems: () => [] }
  const log = (_: string, message: string) => void logged.push(message)
  const server = serveHealth({ host: '127.0.0.1', port: 0 }, health, { log, signal: end.signal })
  await new Promise<void>((resolve) => server.once('listening', resolve))
  const { port } = server.address() as AddressInfo
  const answer = await fetch(`http://127.0.0.1:${port}/metrics`)
  expect({ status: answer.status, text: await answer.text() }).toEqual({
    status: 500,
    text: 'EIO: the state cannot be read\n',
  })
  expect(logged).toEqual(['metrics'])
})
