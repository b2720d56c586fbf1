// SPDX-License-Identifier: Apache-2.0
// What is told of problems, when, and what goes to the API server, however slow that is.

import { text } from 'node:stream/consumers'
import { describe, expect, it } from 'vitest'
import type { Access } from '../../../src/agent/api.ts'
import type { Problem } from '../../../src/agent/cluster.ts'
import { openMetrics } from '../../../src/agent/metrics.ts'
import { readNode } from '../../../src/agent/nodes.ts'
import { changedProblems, openGrace, openReporter, type Report } from '../../../src/agent/report.ts'
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
    const ripen = openGrace('self')
    expect(ripen(both, 1000)).toEqual([both[0]])
    expect(ripen(both, 10_999)).toEqual([both[0]])
    expect(ripen(both, 11_000)).toEqual(both)
    expect(ripen([], 20_000)).toEqual([])
    expect(ripen(both, 30_000)).toEqual([both[0]])
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
  // Problems of its own node, which are reported at once.
  const { report } = openReporter({ node: 'self', open, signal: here.end.signal, metrics: openMetrics('0') })
  return (given: Partial<Report>) =>
    report({ own: undefined, isAvailable: false, subnets: undefined, problems: [], isComplete: true, ...given })
}

const isEvent = ({ url }: Asked) => url.includes('/events')
const pause = () => new Promise((resolve) => setTimeout(resolve, 100))

describe('events', () => {
  it('are on this node, of a name of their own, and are counted anew where one is there', async () => {
    const { asked, open } = await notedBy(({ method }) => (method === 'POST' ? 409 : 200))
    reporterOf(open)({ problems: [problem('self', 'no podCIDR')] })
    await until(() => asked.length > 1)
    const [made, again] = asked
    expect(made?.body).toMatchObject({
      ...{ type: 'Warning', reason: 'NoPodCIDR', message: 'no podCIDR', count: 1 },
      involvedObject: { kind: 'Node', name: 'self', uid: 'self' },
      source: { component: 'trestle-agent', host: 'self' },
    })
    expect(made?.body.metadata.name).toMatch(/^self\.[0-9a-f]{16}$/)
    expect(again).toMatchObject({
      ...{ method: 'PATCH', url: `${made?.url}/${made?.body.metadata.name}`, type: 'application/merge-patch+json' },
      body: { lastTimestamp: expect.any(String) },
    })
  })

  it('tell of the newest report, however slow the server is: what was over meanwhile is not told', async () => {
    const slow = Promise.withResolvers<void>()
    const { asked, open } = await notedBy(() => slow.promise.then(() => 201))
    const tell = reporterOf(open)
    tell({ problems: [problem('self', 'a')] })
    await until(() => asked.length > 0)
    tell({ problems: [problem('self', 'a'), problem('self', 'b')] })
    tell({ problems: [problem('self', 'c')] })
    slow.resolve()
    await until(() => asked.length > 2)
    await pause()
    expect(asked.map(({ body }) => body.message)).toEqual(['a', 'c', 'over: a'])
  })

  it('are a burst, and the others wait', async () => {
    const { asked, open } = await notedBy(() => 201)
    const tell = reporterOf(open)
    for (let count = 1; count <= 40; count++) {
      tell({ problems: [problem('self', `${count}`)] })
      await until(() => asked.length >= Math.min(2 * count - 1, 25))
    }
    await pause()
    expect(asked).toHaveLength(25)
  })

  it('that the server fails to take keep nothing else waiting, and one that it refuses is not sent again', async () => {
    const { asked, open } = await notedBy(({ body, url }) =>
      !url.includes('/events') ? 200 : body.message === 'a' ? 500 : body.message === 'b' ? 403 : 201,
    )
    const tell = reporterOf(open)
    tell({
      problems: ['a', 'b', 'c'].map((each) => problem('self', each)),
      own: node('self', [], []),
      isAvailable: true,
    })
    await until(() => asked.filter(isEvent).length >= 4)
    expect(asked.filter(isEvent).map(({ body }) => body.message)).toEqual(['a', 'b', 'c', 'a'])
    expect(asked.filter((each) => !isEvent(each))).toHaveLength(1)
  })
})

it('a problem that a failed round does not name is not over', async () => {
  const { asked, open } = await notedBy(() => 201)
  const tell = reporterOf(open)
  tell({ problems: [problem('self', 'a')] })
  tell({ problems: [], isComplete: false })
  await pause()
  expect(asked.map(({ body }) => body.message)).toEqual(['a'])
  tell({ problems: [] })
  await until(() => asked.length > 1)
  expect(asked[1]?.body.message).toBe('over: a')
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
    const tell = reporterOf(open)
    const all = [
      ...([withCondition('a', 'True'), withCondition('a', 'True'), withCondition('b', 'True')] as const),
      ...[withCondition('c', 'False'), withCondition('d')],
    ]
    for (const own of all) {
      tell({ own, isAvailable: true })
      await pause()
    }
    tell({ own: withCondition('e', 'True') })
    await pause()
    expect(asked).toHaveLength(3)
    const [condition] = asked[0]?.body.status.conditions ?? []
    expect(asked[0]).toMatchObject({ method: 'PATCH', url: path, type })
    expect(condition).toMatchObject({ type: 'NetworkUnavailable', status: 'False' })
  })

  it('gets the subnets in its annotation where they are others, and again where somebody has removed them', async () => {
    const { asked, open } = await notedBy(() => 200)
    const tell = reporterOf(open)
    const publish = async (subnets: string, there?: string) => {
      tell({ own: node('self', [], [], there === undefined ? {} : { subnets: there }), subnets })
      await pause()
    }
    await publish('192.0.2.0/24')
    await publish('192.0.2.0/24')
    await publish('198.51.100.0/24', '198.51.100.0/24')
    await publish('198.51.100.0/24', '192.0.2.0/24')
    expect(asked.map(({ body }) => body.metadata.annotations)).toEqual([
      { 'trestle/subnets': '192.0.2.0/24' },
      { 'trestle/subnets': '198.51.100.0/24' },
    ])
    expect(asked[0]).toMatchObject({ method: 'PATCH', url: path, type })
    await publish('198.51.100.0/24', '198.51.100.0/24')
    await publish('198.51.100.0/24')
    expect(asked).toHaveLength(3)
  })

  it('is asked for again after a refusal, and what failed is repeated', async () => {
    const { asked, open } = await notedBy((_, count) => [404, 503, 200][count - 1] ?? 200)
    const tell = reporterOf(open)
    await until(() => {
      tell({ own: withCondition('a', 'True'), isAvailable: true })
      return asked.length > 2
    })
    expect(asked.map(({ url }) => url)).toEqual([path, path, path])
  })
})
