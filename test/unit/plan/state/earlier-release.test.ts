// SPDX-License-Identifier: Apache-2.0
// The state directory of a node as release 0.1 left it with four pods (commit 0b458ae; boot id replaced): every file is
// read in full, and what is written of it again has all that it had.

import { readdirSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { decodeHostAccepts, encodeHostAccepts } from '../../../../src/plan/state/stored-accepts.ts'
import { decodeNetwork, encodeNetwork } from '../../../../src/plan/state/stored-network.ts'
import { decodeRecord, encodeRecord } from '../../../../src/plan/state/stored-record.ts'

const directory = new URL('../../../support/damage/state-0b458ae/', import.meta.url).pathname
const files = readdirSync(directory, { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile())
  .map((entry) => `${entry.parentPath}/${entry.name}`.slice(directory.length).replace(/^\/+/, ''))
const textOf = (file: string) => readFileSync(`${directory}/${file}`, 'utf8')
const named = (pattern: RegExp) => files.filter((file) => pattern.test(file))

const records = named(/\/attachments\//)
const reservations = named(/\/addresses\/|^ports\//)
const networks = named(/\/(network|chained)\.json$/)
const accepts = named(/-accept\.json$/)
const texts = named(/\/last\.\d$/)

describe('the state of release 0.1', () => {
  it('has files of every kind, and no others', () => {
    const kinds = [records, reservations, networks, accepts, texts]
    expect(kinds.map((kind) => kind.length)).toEqual([5, 7, 5, 3, 4])
    expect(kinds.flat().sort()).toEqual([...files].sort())
  })

  it.each(records)('%s is a record with all its parts, and is written as it was', (file) => {
    const record = decodeRecord(textOf(file))
    expect(record?.spec?.key).toEqual(record?.key)
    expect(record?.network).toBeDefined()
    expect(record?.pod).toBeDefined()
    expect(JSON.parse(encodeRecord(record as never))).toEqual(JSON.parse(textOf(file)))
  })

  it.each(reservations)('%s says whose it is', (file) => {
    const intent = decodeRecord(textOf(file))
    expect(intent?.key.containerId).toMatch(/^pod\d$/)
    expect(JSON.parse(encodeRecord(intent as never))).toEqual(JSON.parse(textOf(file)))
  })

  it.each(networks)('%s is a network, and is written with its format besides', (file) => {
    const network = decodeNetwork(textOf(file))
    expect(JSON.parse(encodeNetwork(network as never))).toEqual({ format: 1, ...JSON.parse(textOf(file)) })
  })

  it.each(accepts)('%s says where accepts were put, and is written with its format besides', (file) => {
    const before: unknown = JSON.parse(textOf(file))
    const withFormat = (each: object) => ({ format: 1, ...each })
    const after: unknown = JSON.parse(encodeHostAccepts(decodeHostAccepts(textOf(file)) as never))
    expect(after).toEqual(Array.isArray(before) ? before.map(withFormat) : withFormat(before as object))
  })
})
