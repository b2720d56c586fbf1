// SPDX-License-Identifier: Apache-2.0
// What is said of a range that an interface has: which links are told to be removed.

import { expect, it } from 'vitest'
import type { ObservedLink, ObservedRoute } from '../../../../src-before/model/observed.ts'
import { linksToKeep, overlapError } from '../../../../src-before/plan/ipam/range-overlap.ts'

const link = (name: string, kind?: string) => [name, { name, ...(kind === undefined ? {} : { kind }) }] as const
const links = new Map([link('lo'), link('eth0'), link('up0', 'veth'), link('br9', 'bridge')]) as unknown as ReadonlyMap<
  string,
  ObservedLink
>
const routes = new Map<number, readonly ObservedRoute[]>([[254, [{ dst: '0.0.0.0/0', dev: 'up0' }]]])

it.each([
  ['lo', false],
  ['eth0', false],
  ['up0', false],
  ['br9', true],
])('the removal of %s is offered: %s', (name, isOffered) => {
  const overlap = { kind: 'link', range: '10.1.0.0/24', link: name, address: '10.1.0.9/24' } as const
  const { details } = overlapError('pods', { overlaps: [overlap], kept: linksToKeep({ links, routes }) })
  const offer = isOffered ? ` remove ${name} if it is left over,` : ''
  expect(details).toContain(`use another range,${offer} or set "allowOverlap": true`)
})
