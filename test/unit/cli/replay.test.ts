// SPDX-License-Identifier: Apache-2.0
// What a replay takes of a record and of another configuration.

import { describe, expect, it } from 'vitest'
import { entryOf } from '../../../src/commands/replay/replay.ts'

describe('the entry of --conf', () => {
  const first = { type: 'trestle', mode: 'bridge', mtu: 1400 }
  const chained = { type: 'trestle', mode: 'chained', tuning: { mtu: 1300 } }
  const prevResult = { cniVersion: '1.1.0' }

  it.each<[string, string, object, object]>([
    ['of a chained ADD', 'ADD', { type: 'trestle', mode: 'chained', prevResult }, chained],
    ['of a chained ADD without a mode', 'ADD', { type: 'trestle', prevResult }, chained],
    ['of an ADD without prevResult', 'ADD', { type: 'trestle' }, first],
    ['of a DEL, which has a prevResult in each place', 'DEL', { type: 'trestle', prevResult }, first],
    ['of a chained DEL', 'DEL', { type: 'trestle', mode: 'chained', prevResult }, chained],
    ['of another mode', 'ADD', { type: 'trestle', mode: 'ptp' }, first],
  ])('%s', (_, verb, sent, entry) => {
    expect(entryOf({ verb, stdin: JSON.stringify(sent) }, [first, chained])).toBe(entry)
  })

  it('without a mode goes by its place, and may be of the wrapped plugin', () => {
    const [bridge, portmap] = [{ type: 'bridge' }, { type: 'trestle', record: { wrap: 'portmap' } }]
    const stdin = JSON.stringify({ type: 'trestle', prevResult })
    expect(entryOf({ verb: 'ADD', stdin }, [{ type: 'trestle' }, portmap])).toBe(portmap)
    expect(entryOf({ verb: 'ADD', stdin, wraps: 'bridge' }, [bridge])).toBe(bridge)
    expect(entryOf({ verb: 'ADD', stdin }, [bridge])).toBeUndefined()
  })
})
