// SPDX-License-Identifier: Apache-2.0
// Records from files: what is read of one of our format, of another one, and of a damaged one.

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { CniError } from '../../../src/cni/errors.ts'
import { everyElement, opsOf, ownLinks, undoOf } from '../../../src/drivers/attachment.ts'
import { stepsToAdd, stepsToRemove } from '../../../src/process/order.ts'
import {
  type AttachmentRecord,
  decodeRecord,
  describeRecord,
  isSameRecord,
  recordFormat,
} from '../../../src/state/records.ts'
import { id, specOf } from '../call.ts'

const writer = { pid: 1, startTime: '1', bootId: 'b', pidNamespace: 'pid:[1]' }
const record: AttachmentRecord = {
  format: recordFormat,
  id,
  writer,
  netns: { path: '/run/netns/x', inode: 1 },
  createdAt: '2026-01-01T00:00:00.000Z',
  pod: { namespace: 'default', name: 'web' },
  spec: specOf({
    ...{
      podcidr: ['10.1.0.0/24', 'fd00:1::/64'],
      macspoofchk: true,
      sbr: {},
      vlan: 5,
      bandwidth: { egressRate: 8000 },
    },
    ...{ tuning: { sysctl: { 'net.core.somaxconn': '9' }, promisc: true }, firewall: { ingressPolicy: 'isolated' } },
    runtimeConfig: { portMappings: [{ hostPort: 80, containerPort: 80 }] },
  }),
  left: ['a link'],
}
const textOf = (value: unknown) => JSON.stringify(value) ?? ''

describe('a record', () => {
  it('is read as it was written, with what a later release has added', () => {
    expect(decodeRecord(textOf(record))).toEqual(record)
    expect(decodeRecord(textOf({ ...record, later: 1 }))).toEqual({ ...record, later: 1 })
  })

  it('of another format tells whose it is and who wrote it: its reservations hold', () => {
    const { format: _, id: key, spec, ...rest } = record
    const other = { format: 1, key, spec: { anything: spec }, ...rest }
    const known = { id, writer, netns: record.netns, createdAt: '' }
    expect(decodeRecord(textOf(other))).toEqual({ format: 1, ...known })
    expect(decodeRecord(textOf({ ...record, format: recordFormat + 1 }))).toEqual({
      format: recordFormat + 1,
      ...known,
    })
  })

  it('with a damaged spec has none: a DEL goes by the kernel then', () => {
    for (const spec of [5, [], {}, { addresses: 'x' }])
      expect(decodeRecord(textOf({ ...record, spec }))).not.toHaveProperty('spec')
  })

  it.each([
    ...['', '{', 'null', '[]', '{}'],
    textOf({ ...record, format: undefined }),
    textOf({ ...record, id: { ...id, ifName: '' } }),
    textOf({ ...record, id: { ...id, role: 5 } }),
    textOf({ ...record, writer: {} }),
  ])('is none in %s', (text) => {
    expect(decodeRecord(text)).toBeUndefined()
  })

  it('is named by interface, container and pod', () => {
    expect(describeRecord(record)).toBe('eth0 of container some-container-id (pod default/web)')
    const { pod: _, ...nameless } = record
    expect(describeRecord(nameless)).toBe('eth0 of container some-container-id')
  })

  it('is another one when the ids come again', () => {
    expect(isSameRecord(record, { ...record, spec: specOf({}) })).toBe(true)
    expect(isSameRecord(record, { ...record, createdAt: '2026-01-02T00:00:00.000Z' })).toBe(false)
    expect(isSameRecord(record, { ...record, netns: { path: '', inode: 2 } })).toBe(false)
  })
})

/** Every place of a JSON value, as paths. */
function placesOf(value: unknown, path: readonly string[] = []): readonly (readonly string[])[] {
  if (typeof value !== 'object' || value === null) return [path]
  return [path, ...Object.entries(value).flatMap(([name, each]) => placesOf(each, [...path, name]))]
}

function replaced(value: unknown, [name, ...rest]: readonly string[], by: unknown): unknown {
  if (name === undefined) return by
  const copy = (Array.isArray(value) ? [...value] : { ...(value as object) }) as Record<string, unknown>
  copy[name] = replaced((value as Record<string, unknown>)[name], rest, by)
  return copy
}

it('a text that is written into any place of a record reaches no tool unread', () => {
  const places = placesOf(record.spec).filter((place) => place.length > 0)
  const hostile = fc.constantFrom(
    'a b',
    '\n',
    'x\nlink del lo',
    '"; flush ruleset; "',
    '} ; flush ruleset',
    '#',
    '\\',
    '-x',
  )
  fc.assert(
    fc.property(fc.constantFrom(...places), hostile, (place, by) => {
      const spec = replaced(record.spec, place, by)
      const found = decodeRecord(textOf({ ...record, spec }))?.spec
      if (found === undefined) return
      try {
        const elements = everyElement(found.network === undefined ? [] : [found.network], [found], undefined)
        const steps = [...stepsToAdd(opsOf(found)), ...stepsToRemove(undoOf(found, ownLinks(found), 7))]
        for (const { batch } of steps) {
          if (batch.tool === 'nft')
            for (const text of batch.texts) expect(text.split('\n').length).toBeLessThanOrEqual(3)
          else if (batch.tool !== 'sysctl' && batch.tool !== 'file' && batch.tool !== 'tc')
            for (const text of batch.texts) expect(text.match(/\n/g)).toHaveLength(1)
        }
        expect(elements.length).toBeGreaterThanOrEqual(0)
      } catch (error) {
        // What is no address is a TypeError of our own arithmetic.
        if (!(error instanceof CniError || error instanceof TypeError)) throw error
      }
    }),
    { numRuns: 3000 },
  )
})
