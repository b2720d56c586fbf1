// SPDX-License-Identifier: Apache-2.0
// Configurations that are too large: refused with a code and the limit, before work that grows with their square.

import { describe, expect, it } from 'vitest'
import { errorOf, lineOf, read } from '../call.ts'

const many = <T>(count: number, entry: (at: number) => T): readonly T[] =>
  Array.from({ length: count }, (_, at) => entry(at))
const prefix = (at: number) => `11.${at >> 8}.${at & 255}.0/24`
const ipam = (keys: object) => ({ ipam: { type: 'trestle', subnet: '10.0.0.0/24', ...keys } })
const mapping = (at: number) => ({ hostPort: at + 1, containerPort: 80 })

describe('a list', () => {
  it.each<[string, number, (count: number) => object]>([
    ['ipam.routes', 1024, (n) => ipam({ routes: many(n, (at) => ({ dst: prefix(at) })) })],
    ['ipam.exclude', 1024, (n) => ipam({ exclude: many(n, prefix) })],
    ['nonMasqueradeCIDRs', 256, (n) => ({ podcidr: '10.0.0.0/24', nonMasqueradeCIDRs: many(n, prefix) })],
    ['dns.search', 1024, (n) => ({ dns: { search: many(n, (at) => `s${at}`) } })],
    ['vlanTrunk', 1024, (n) => ({ vlanTrunk: many(n, () => ({ minID: 1, maxID: 4094 })) })],
    [
      'prevResult.ips',
      4096,
      (n) => ({ mode: 'chained', prevResult: { ips: many(n, () => ({ address: '10.0.0.2/24' })) } }),
    ],
  ])('%s has at most %i entries', (path, most, changes) => {
    expect(read(changes(most) as never)).toMatchObject({ name: 'net' })
    const error = errorOf(() => read(changes(most + 1) as never))
    expect(lineOf(error)).toContain(`${path}: `)
    expect(lineOf(error)).toContain(`is not a list of at most ${most} entries`)
    expect(error.code).toBe(7)
  })

  // A pod may ask for each of the node's ports, and a manifest with ranges of them has thousands.
  it('of host ports has no bound beside that of stdin', () => {
    const conf = read({ podcidr: '10.0.0.0/24', runtimeConfig: { portMappings: many(12_000, mapping) } })
    expect(conf.portMappings).toHaveLength(12_000)
  })

  // zod's check of length throws on these (found by test/fuzz, seed 11145786).
  it('is not an object with a key `length`, whatever that is', () => {
    const length = [{ toString: { subnet: '10.250.0.0/24' } }]
    const error = errorOf(() => read({ runtimeConfig: { ipRanges: [{ length }] } } as never))
    expect(lineOf(error)).toContain('runtimeConfig.ipRanges[0]: ')
    expect(lineOf(error)).toContain('is not a list')
    expect(error.code).toBe(7)
  })

  it('of sysctls has at most 1024 keys', () => {
    const sysctl = Object.fromEntries(many(1025, (at) => [`net.core.k${at}`, '1']))
    expect(errorOf(() => read({ podcidr: '10.0.0.0/24', tuning: { sysctl } }))).toMatchObject({ code: 7 })
  })

  it('of VLANs that names each of them a thousand times has each once', () => {
    const conf = read({ vlanTrunk: many(1000, () => ({ minID: 1, maxID: 4094 })) })
    expect(conf.mode === 'bridge' && conf.bridge.vlanTrunk).toHaveLength(4094)
  })
})

describe('a text', () => {
  it.each([
    ['name', { name: 'n'.repeat(8193) }, 'name'],
    ['type', { type: 't'.repeat(256) }, 'type'],
    ['bridge', { bridge: 'b'.repeat(1e6) }, 'bridge'],
    ['dns.domain', { dns: { domain: 'd'.repeat(8193) } }, 'dns.domain'],
    ['a sysctl', { tuning: { sysctl: { 'net.core.x': 'v'.repeat(8193) } } }, 'tuning.sysctl'],
  ])('that is too long is refused and not repeated: %s', (_, changes, path) => {
    const error = errorOf(() => read(changes))
    expect(lineOf(error)).toMatch(new RegExp(`^\\(7\\) ${path}: `))
    expect(error.message.length + (error.details ?? '').length).toBeLessThan(400)
  })
})

it('a list of 16,000 valid attachments is read', () => {
  const attachments = many(16_000, (at) => ({ containerID: `c${at}`, ifname: 'eth0' }))
  const conf = read({ podcidr: '10.0.0.0/24', 'cni.dev/valid-attachments': attachments }, {}, 'GC')
  expect(conf.validAttachments).toHaveLength(16_000)
})
