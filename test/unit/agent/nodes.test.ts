// SPDX-License-Identifier: Apache-2.0
// What is kept of a Node, and what the agent makes of a server that answers, and answers nonsense.

import { describe, expect, it } from 'vitest'
import type { Access } from '../../../src/agent/api.ts'
import { type NodeWatch, readNode, watchNodes } from '../../../src/agent/nodes.ts'
import { here, nodeList, nodeObject, serve, until, useServers } from './api-server.ts'
import { texts } from './cluster-facts.ts'

useServers()

describe('readNode', () => {
  const object = {
    metadata: {
      ...{ name: 'a', uid: 'u', creationTimestamp: '2026-01-01T00:00:00Z', managedFields: [{}] },
      annotations: { 'trestle/subnets': '192.0.2.0/24 x 2001:db8::/64' },
    },
    spec: { podCIDR: '10.0.0.0/24', podCIDRs: ['10.0.0.0/24', 'FD00::/64', '10.0.1.1/24', ''] },
    status: {
      addresses: [
        { type: 'Hostname', address: 'a' },
        { type: 'InternalIP', address: '192.0.2.1' },
        { type: 'InternalIP', address: 'nonsense' },
        { type: 'ExternalIP', address: '198.51.100.1' },
        { type: 'InternalIP', address: '2001:DB8::1' },
      ],
      conditions: [{ type: 'Ready' }, { type: 'NetworkUnavailable', status: 'True' }],
      images: [{ names: ['x'] }],
    },
  }

  it('keeps what is used of a Node', () => {
    const found = readNode(object)
    expect(found).toMatchObject({ name: 'a', uid: 'u', created: '2026-01-01T00:00:00Z', networkUnavailable: 'True' })
    expect(found?.ranges.map(({ text, range }) => [text, typeof range === 'string' ? range : range.text])).toEqual([
      ['10.0.0.0/24', '10.0.0.0/24'],
      ['FD00::/64', 'fd00::/64'],
      ['10.0.1.1/24', 'has host bits'],
    ])
    expect(texts(found?.addresses ?? [])).toEqual(['192.0.2.1', '2001:db8::1'])
    expect(texts(found?.subnets ?? [])).toEqual(['192.0.2.0/24', '2001:db8::/64'])
    expect(found?.publishedSubnets).toBe('192.0.2.0/24 x 2001:db8::/64')
  })

  it('takes podCIDR where an old server has no podCIDRs, and nothing for published where nothing is', () => {
    const found = readNode({ metadata: { name: 'a' }, spec: { podCIDR: '10.0.0.0/24' } })
    expect(found?.ranges.map(({ text }) => text)).toEqual(['10.0.0.0/24'])
    expect(found).toMatchObject({ publishedSubnets: '', networkUnavailable: '', addresses: [] })
    expect(found).not.toHaveProperty('subnets')
  })

  it('knows what is none', () => {
    for (const value of [undefined, null, 1, 'a', [], {}, { metadata: { name: 5 } }, { metadata: { name: '' } }])
      expect(readNode(value)).toBeUndefined()
  })

  it('is the node as it was after a heartbeat, and a new one after any change that is used', () => {
    const before = readNode(object)
    const again = (parts: object) => readNode({ ...object, ...parts }, () => before)
    expect(again({ status: { ...object.status, images: [] } })).toBe(before)
    for (const parts of [
      { spec: { podCIDRs: [] } },
      { status: { ...object.status, addresses: [] } },
      { status: { ...object.status, conditions: [] } },
      { metadata: { ...object.metadata, annotations: {} } },
      { metadata: { ...object.metadata, uid: 'v' } },
    ])
      expect(again(parts)).not.toBe(before)
  })

  it('bounds what a Node may say', () => {
    const spec = { podCIDRs: Array.from({ length: 100 }, () => 'x'.repeat(10_000)) }
    const addresses = Array.from({ length: 100 }, (_, at) => ({ type: 'InternalIP', address: `192.0.2.${at}` }))
    const found = readNode({ metadata: { name: 'a' }, spec, status: { addresses } })
    expect([found?.ranges.length, found?.ranges[0]?.text.length, found?.addresses.length]).toEqual([16, 500, 16])
  })
})

/** Watches until `isSeen`. Returns what failed on the way. */
async function watched(open: () => Access, isSeen: (watch: NodeWatch, errors: readonly string[]) => boolean) {
  const errors: string[] = []
  const onError = (error: Error) => void errors.push(error.message)
  const watch = watchNodes({ open, signal: here.end.signal, onChange: () => undefined, onError })
  await until(() => isSeen(watch, errors))
  return errors
}

describe('watchNodes', () => {
  it('lists anew when a watch is refused with an event, whatever its code is', async () => {
    let lists = 0
    const open = await serve((request, response) => {
      if (!request.url?.includes('watch=true')) return void response.end(nodeList([nodeObject(`listed-${++lists}`)]))
      const object = { kind: 'Status', code: 500, message: 'the watch cache is gone' }
      if (lists === 1) response.end(`${JSON.stringify({ type: 'ERROR', object })}\n`)
    })
    const errors = await watched(open, ({ nodes }) => nodes.has('listed-2') && !nodes.has('listed-1'))
    expect(errors).toEqual([expect.stringContaining('500 the watch cache is gone')])
  })

  it('does not ask for the same page for ever', async () => {
    const open = await serve((_, response) => void response.end(nodeList([nodeObject('a')], { continue: 'again' })))
    const errors = await watched(open, (_, found) => found.length > 0)
    expect(errors).toEqual([expect.stringContaining('continues with the same page')])
  })

  it('tells of the nodes of a page although a later page fails', async () => {
    let asks = 0
    const open = await serve((request, response) => {
      if (request.url?.includes('watch=true')) return
      asks += 1
      if (asks === 2) response.writeHead(500).end('{}')
      else response.end(asks === 1 ? nodeList([nodeObject('a')], { continue: 'more' }) : nodeList([nodeObject('a')]))
    })
    let changes = 0
    const onChange = () => {
      changes += 1
    }
    const watch = watchNodes({ open, signal: here.end.signal, onChange, onError: () => undefined })
    await until(() => changes > 0)
    expect([watch.nodes.has('a'), watch.state.isListed]).toEqual([true, false])
  })

  it('follows a node, and goes on from the last event, not from the first, after a watch that broke off', async () => {
    const asked: (string | null)[] = []
    const event = (type: string, name: string, resourceVersion: string) =>
      `${JSON.stringify({ type, object: { ...nodeObject(name), metadata: { name, resourceVersion } } })}\n`
    const open = await serve((request, response) => {
      const { searchParams } = new URL(request.url ?? '', 'http://x')
      if (searchParams.get('watch') !== 'true') return void response.end(nodeList([nodeObject('a')]))
      asked.push(searchParams.get('resourceVersion'))
      if (asked.length > 1) return
      const text = event('ADDED', 'b', '5') + event('DELETED', 'a', '6') + event('BOOKMARK', 'c', '7')
      response.write(text, () => response.socket?.destroy())
    })
    let found: NodeWatch | undefined
    const errors = await watched(open, (watch) => {
      found = watch
      return asked.length > 1
    })
    expect(asked.slice(0, 2)).toEqual(['1', '7'])
    expect([...(found?.nodes.keys() ?? [])]).toEqual(['b'])
    expect(errors).toHaveLength(1)
  })
})
