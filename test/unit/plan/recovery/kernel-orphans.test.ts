// SPDX-License-Identifier: Apache-2.0

import { describe, expect, it } from 'vitest'
import { aliasOf, hostLinkName, ifbAlias, ifbName } from '../../../../src-before/model/names.ts'
import type { ObservedLink, ObservedTable } from '../../../../src-before/model/observed.ts'
import { type Element, indexElements } from '../../../../src-before/model/op.ts'
import type { AttachmentRecord } from '../../../../src-before/model/record.ts'
import { isLinkOfPod, judgeOrphan, orphansOf, orphanText } from '../../../../src-before/plan/recovery/verdicts.ts'
import { goldenKey as key } from '../../../support/golden.ts'

const chained = { ...key, role: 'chained' } as const
const link = (name: string, alias?: string): ObservedLink => ({
  ...{ name, index: 1, mac: '', mtu: 1500, up: true, promisc: false, allmulti: false },
  ...{ addresses: [], ...(alias === undefined ? {} : { alias }) },
})
const linksOf = (...links: readonly ObservedLink[]) => new Map(links.map((each) => [each.name, each]))
const tableOf = (...elements: readonly Element[]): ObservedTable => ({
  rules: new Map(),
  elements: indexElements(elements),
})
const recordOf = (spec?: object): AttachmentRecord => ({
  ...{ key, netns: { path: '', inode: 0 }, createdAt: '', configDigest: '' },
  writer: { pid: 1, startTime: '', bootId: '', pidNamespace: '' },
  ...(spec === undefined ? {} : { spec: { ips: [], ...spec } as unknown as NonNullable<AttachmentRecord['spec']> }),
})
const nothing = {
  links: linksOf(),
  table: tableOf(),
  records: [],
  reserved: new Set<string>(),
}
const host = link(hostLinkName(key), aliasOf(key))
const ifb = link(ifbName(key), ifbAlias(key))

describe('orphans', () => {
  it('are links of ours that no record names, and ifbs of an earlier version', () => {
    const foreign = [link('veth0123456789a', 'somebody'), link('ifb0'), link('eth0')]
    const links = linksOf(host, ifb, ...foreign)
    expect(orphansOf({ ...nothing, links })).toEqual([
      { kind: 'link', name: host.name, key },
      { kind: 'link', name: ifb.name, key },
    ])
    expect(orphansOf({ ...nothing, links, records: [recordOf()] })).toEqual([])
    expect(orphansOf({ ...nothing, links: linksOf(link(ifb.name)) })).toEqual([{ kind: 'link', name: ifb.name }])
    const ofChained = link(ifbName(key), ifbAlias(chained))
    expect(orphansOf({ ...nothing, links: linksOf(ofChained) })).toEqual([
      { kind: 'link', name: ifb.name, key: chained },
    ])
  })

  it('are pairs that have lost their alias: a pod may live behind one', () => {
    const found = orphansOf({ ...nothing, links: linksOf(link(host.name)) })
    expect(found).toEqual([{ kind: 'link', name: host.name }])
    expect(found.some(isLinkOfPod)).toBe(true)
    const facts = { links: linksOf(), isListed: undefined, mayBeOfUnknownPod: true }
    expect(found.map((orphan) => judgeOrphan(orphan, facts).verdict)).toEqual(['report'])
    expect(orphansOf({ ...nothing, links: linksOf(link(host.name)), records: [recordOf()] })).toEqual([])
  })

  it('are links that a record names otherwise than we would, as those that were adopted', () => {
    const adopted = recordOf({ host: { name: 'veth99999999', mac: '' } })
    expect(orphansOf({ ...nothing, links: linksOf(link('veth99999999')), records: [adopted] })).toEqual([])
  })

  it('are what elements name, and nobody has: no address of a record in another spelling, none that is reserved', () => {
    const portTo = (podIp: string, port: string): Element => {
      return { set: 'anyports4', key: ['tcp', port], value: [podIp, '80'] }
    }
    const table = tableOf(
      ...[portTo('10.9.0.2', '8080'), portTo('10.9.0.3', '8081'), portTo('10.9.0.4', '8082')],
      { set: 'ports6', key: ['fd00::9', 'tcp', '80'], value: ['fd00::2', '80'] },
      ...[host.name, 'br0', 'veth0123456789a'].map((name): Element => ({ set: 'fenced', key: [name] })),
    )
    const records = [recordOf({ ips: [{ address: '10.9.0.2/24' }, { address: 'FD00:0::2/64' }] })]
    const found = orphansOf({ ...nothing, table, records, reserved: new Set(['10.9.0.3']) })
    expect(found.map(orphanText)).toEqual(['rules for 10.9.0.4', 'rules for veth0123456789a'])
  })
})

describe('an orphan', () => {
  const judged = (orphan: object, facts: object) =>
    judgeOrphan(
      { kind: 'link', name: ifb.name, key, ...orphan },
      { links: linksOf(), isListed: undefined, mayBeOfUnknownPod: false, ...facts },
    ).verdict
  it.each([
    ['an ifb without its pair', {}, {}, 'collect'],
    ['an ifb beside its pair', {}, { links: linksOf(host) }, 'report'],
    ['an ifb of a container that the runtime lists', {}, { isListed: true }, 'report'],
    ['an ifb without an alias', { key: undefined }, {}, 'report'],
    ['the end of a pair', { name: host.name }, { links: linksOf(host), isListed: false }, 'report'],
    ['a chained one where no runtime was asked', { key: chained }, {}, 'report'],
    ['a chained one that is not listed', { key: chained }, { isListed: false }, 'collect'],
    ['rules', { kind: 'elements', name: '10.9.0.4', key: undefined }, {}, 'collect'],
    [
      'rules where a pod may have lost its record',
      { kind: 'elements', name: '10.9.0.4', key: undefined },
      { mayBeOfUnknownPod: true },
      'report',
    ],
  ])('%s', (_, orphan, facts, verdict) => {
    expect(judged(orphan, facts)).toBe(verdict)
  })

  it('of a pod that may live is the end of a pair alone', () => {
    expect(isLinkOfPod({ kind: 'link', name: host.name, key })).toBe(true)
    expect(isLinkOfPod({ kind: 'link', name: ifb.name, key })).toBe(false)
  })
})
