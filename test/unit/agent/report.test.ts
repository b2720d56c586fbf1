// SPDX-License-Identifier: Apache-2.0
// What is told of problems, when, and what goes to the API server, however slow that is.

import { text } from 'node:stream/consumers'
import { describe, expect, it } from 'vitest'
import type { Access } from '../../../src/agent/api.ts'
import type { Problem } from '../../../src/agent/cluster.ts'
import { openMetrics } from '../../../src/agent/metrics.ts'
import { readNode } from '../../../src/agent/nodes.ts'
import { changedProblems, openReporter, ripeProblems } from '../../../src/agent/report.ts'
import { here, serve, until, useServers } from './api-server.ts'
import { node } from './cluster-facts.ts'

useServers()

const problem = (about: string, what = 'x'): Problem => ({ id: 'NoPodCIDR', node: about, text: what })

describe('problems', () => {
  it('begin and are over, and nothing is told of what goes on', () => {
    const [a, b, c] = ['a', 'b', 'c'].map((name) => problem(name)) as [Problem, Problem, Problem]
    expect(changedProblems([a, b], [b, c])).toEqual({ appeared: [c], over: [a] })
    const other = problem('b', 'y')
    expect(changedProblems([b], [other])).toEqual({ appeared: [other], over: [b] })
  })

  it('of the own node are told at once, another’s when it has lasted, anew when it was over', () => {
    const both = [problem('self'), problem('b')]
    const at = (nowMs: number, seen: ReadonlyMap<string, number>, now: readonly Problem[] = both) =>
      ripeProblems(now, { self: 'self', nowMs, seen })
    const first = at(1000, new Map())
    expect(first.ripe).toEqual([both[0]])
    expect(at(10_999, first.seen).ripe).toEqual([both[0]])
    const later = at(11_000, first.seen)
    expect(later.ripe).toEqual(both)
    expect(at(30_000, at(20_000, later.seen, []).seen).ripe).toEqual([both[0]])
  })
})

interface Asked {
  readonly method: string
  readonly url: string
  readonly type: string
  /** An event, or a patch of a Node: each test reads what it expects. */
  readonly body: {
    readonly message: string
    readonly metadata: { readonly name: string; readonly annotations: Readonly<Record<string, string>> }
    readonly status: { readonly conditions: readonly Readonly<Record<string, string>>[] }
  }
}

/** A server that notes what it is asked, and answers as `answer` says. */
async function notedBy(answer: (asked: Asked, count: number) => number | Promise<number>) {
  const asked: Asked[] = []
  const open = await serve(async (request, response) => {
    const { method = '', url = '', headers } = request
    const one = { method, url, type: `${headers['content-type']}`, body: JSON.parse(await text(request)) }
    asked.push(one)
    response.writeHead(await answer(one, asked.length)).end('{}')
  })
  return { asked, open }
}

function reporterOf(open: () => Access) {
  return openReporter({ node: 'self', open, signal: here.end.signal, metrics: openMetrics('0') })
}

const events = (asked: readonly Asked[]) => asked.filter(({ url }) => url.includes('/events'))
const always = () => true

describe('events', () => {
  it('are on this node, of a name of their own, and are counted anew where one is there', async () => {
    const { asked, open } = await notedBy(({ method }) => (method === 'POST' ? 409 : 200))
    reporterOf(open).report('Warning', [problem('b', 'no podCIDR')], always)
    await until(() => asked.length > 1)
    const [made, again] = asked
    expect(made?.body).toMatchObject({
      ...{ type: 'Warning', reason: 'NoPodCIDR', message: 'node b: no podCIDR', count: 1 },
      involvedObject: { kind: 'Node', name: 'self', uid: 'self' },
      source: { component: 'trestle-agent', host: 'self' },
    })
    expect(made?.body.metadata.name).toMatch(/^self\.[0-9a-f]{16}$/)
    expect(again).toMatchObject({
      ...{ method: 'PATCH', url: `${made?.url}/${made?.body.metadata.name}`, type: 'application/merge-patch+json' },
      body: { lastTimestamp: expect.any(String) },
    })
  })

  it('wait ten at most, however many problems begin while the server is slow', async () => {
    const slow = Promise.withResolvers<void>()
    const { asked, open } = await notedBy(() => slow.promise.then(() => 201))
    const reporter = reporterOf(open)
    const many = (count: number, of: string) => Array.from({ length: count }, (_, at) => problem(`${of}-${at}`))
    reporter.report('Warning', many(10, 'a'), always)
    reporter.report('Warning', many(100, 'b'), always)
    await until(() => asked.length > 0)
    slow.resolve()
    await until(() => asked.length >= 10)
    // With ten sent there is room again, and nothing of the hundred before it.
    await until(() => {
      reporter.report('Normal', [problem('last')], () => asked.length === 10)
      return asked.length > 10
    })
    expect(asked.at(-1)?.body).toMatchObject({ type: 'Normal', message: 'over: node last: x' })
    expect(asked.filter(({ body }) => body.message.includes('b-'))).toEqual([])
  })

  it('are a burst, and then none of those that are too many', async () => {
    const { asked, open } = await notedBy(() => 201)
    const reporter = reporterOf(open)
    for (let count = 1; count <= 40; count++) {
      reporter.report('Warning', [problem('evil', `${count}`)], always)
      await until(() => asked.length >= Math.min(count, 25))
    }
    await new Promise((resolve) => setTimeout(resolve, 100))
    expect(asked).toHaveLength(25)
  })

  it('that the server fails to take are dropped, and keep nothing else waiting', async () => {
    const { asked, open } = await notedBy(({ url }) => (url.includes('/events') ? 500 : 200))
    const reporter = reporterOf(open)
    for (const each of ['a', 'b']) reporter.report('Warning', [problem('self', each)], always)
    reporter.clearCondition(node('self', [], []))
    await until(() => events(asked).some(({ body }) => body.message === 'b'))
    expect(asked.slice(0, 2).filter(({ method }) => method === 'PATCH')).toHaveLength(1)
    expect(events(asked).filter(({ body }) => body.message === 'a')).toHaveLength(3)
  })
})

describe('the Node', () => {
  const path = '/api/v1/nodes/self/status'
  const type = 'application/strategic-merge-patch+json'
  const withCondition = (uid: string, status?: string) => {
    const conditions = status === undefined ? [] : [{ type: 'NetworkUnavailable', status }]
    return readNode({ metadata: { name: 'self', uid }, status: { conditions } }) ?? node('self', [], [])
  }

  it('gets the condition once for each uid, unless it has it', async () => {
    const { asked, open } = await notedBy(() => 200)
    const reporter = reporterOf(open)
    for (const each of ['a', 'a', 'b']) reporter.clearCondition(withCondition(each, 'True'))
    reporter.clearCondition(withCondition('c', 'False'))
    reporter.clearCondition(withCondition('d'))
    await until(() => asked.length >= 3)
    expect(asked).toHaveLength(3)
    const [condition] = asked[0]?.body.status.conditions ?? []
    expect(asked[0]).toMatchObject({ method: 'PATCH', url: path, type })
    expect(condition).toMatchObject({ type: 'NetworkUnavailable', status: 'False' })
  })

  it('gets the subnets in its annotation where they are others', async () => {
    const { asked, open } = await notedBy(() => 200)
    const reporter = reporterOf(open)
    const publish = (text: string, there?: string) =>
      reporter.publish(node('self', [], [], there === undefined ? {} : { subnets: there }), text)
    publish('192.0.2.0/24')
    publish('192.0.2.0/24')
    publish('198.51.100.0/24', '198.51.100.0/24')
    publish('198.51.100.0/24', '192.0.2.0/24')
    await until(() => asked.length >= 2)
    expect(asked.map(({ body }) => body.metadata.annotations)).toEqual([
      { 'trestle/subnets': '192.0.2.0/24' },
      { 'trestle/subnets': '198.51.100.0/24' },
    ])
    expect(asked[0]).toMatchObject({ method: 'PATCH', url: path, type })
  })

  // `published` is what this agent has sent last, and is never forgotten: what others make of the annotation
  // afterwards stays.
  it('gets its subnets again where somebody has removed them', async () => {
    const { asked, open } = await notedBy(() => 200)
    const reporter = reporterOf(open)
    reporter.publish(node('self', [], []), '192.0.2.0/24')
    await until(() => asked.length > 0)
    reporter.publish(node('self', [], [], { subnets: '192.0.2.0/24' }), '192.0.2.0/24')
    reporter.publish(node('self', [], []), '192.0.2.0/24')
    await Promise.race([until(() => asked.length > 1), new Promise((resolve) => setTimeout(resolve, 1000))])
    expect(asked).toHaveLength(2)
  })

  it('is asked for again after a refusal, and what failed is repeated', async () => {
    const { asked, open } = await notedBy((_, count) => [404, 503, 200][count - 1] ?? 200)
    const reporter = reporterOf(open)
    reporter.clearCondition(withCondition('a', 'True'))
    await until(() => asked.length > 0)
    await until(() => {
      reporter.clearCondition(withCondition('a', 'True'))
      return asked.length > 2
    })
    expect(asked.map(({ url }) => url)).toEqual([path, path, path])
  })
})
