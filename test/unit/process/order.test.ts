// SPDX-License-Identifier: Apache-2.0
// Which operations are one process, and which process waits for which.

import { describe, expect, it } from 'vitest'
import { opsOf, ownLinks, undoOf } from '../../../src/drivers/attachment.ts'
import type { Op } from '../../../src/kernel/operation.ts'
import { type Step, stepsToAdd, stepsToRemove } from '../../../src/process/order.ts'
import { type Json, linkOf, specOf } from '../call.ts'

const shapeOf = (steps: readonly Step[]) =>
  steps.map(({ name, after, batch }) => `${name}: ${batch.tool} in ${batch.place} after [${after.join(', ')}]`)
const adding = (conf: Json) => shapeOf(stepsToAdd(opsOf(specOf(conf))))

describe('an ADD', () => {
  it('of layer 2 is three processes: links, pod and nothing of rules', () => {
    expect(adding({}).filter((line) => !line.includes(': file '))).toEqual([
      'links: ip in host after []',
      'pod: ip in pod after [links]',
    ])
  })

  it('of a whole network has rules beside links, and what the rules guard last', () => {
    const whole = {
      ...{ podcidr: ['10.1.0.0/24', 'fd00:1::/64'], macspoofchk: true, enabledad: true, vlan: 5, sbr: {} },
      ...{ bandwidth: { ingressRate: 8000, egressRate: 8000 }, tuning: { sysctl: { 'net.core.somaxconn': '9' } } },
      runtimeConfig: { portMappings: [{ hostPort: 80, containerPort: 80 }] },
    }
    expect(adding(whole)).toEqual([
      'links: ip in host after []',
      'vlans: bridge in host after [links]',
      'rules: nft in host after []',
      'bridge rules: nft in host after []',
      'detection: sysctl in pod after [links]',
      'pod: ip in pod after [links, detection]',
      'pod rules: ip6 in pod after [pod]',
      'queues: tc in host after [links]',
      'pod settings: sysctl in pod after [links, pod, pod rules]',
      'last settings: file in host after [links, vlans, rules, bridge rules, pod, queues]',
    ])
  })

  it('has one process for 100,000 elements, as a cluster of 25,000 nodes has', () => {
    const ops = Array.from({ length: 100_000 }, (_, at): Op => {
      const key = [`10.${at >> 16}.${(at >> 8) & 255}.${at & 255}`]
      return { place: 'host', kind: 'element.add', element: { set: 'peeraddr4', key, comment: 'cluster' }, why: '' }
    })
    const [step, ...others] = stepsToAdd(ops)
    expect([step?.batch.ops, others]).toEqual([ops, []])
  })

  it('of nothing is nothing', () => expect(stepsToAdd([])).toEqual([]))
})

it('a DEL does the pod first, then all of the host side by side', () => {
  const conf = { podcidr: '10.1.0.0/24', sbr: {}, macspoofchk: true, bandwidth: { egressRate: 8000 } }
  const spec = specOf({ ...conf, runtimeConfig: { portMappings: [{ hostPort: 80, containerPort: 80 }] } })
  expect(shapeOf(stepsToRemove(undoOf(spec, ownLinks(spec), 7)))).toEqual([
    'pod: ip in pod after []',
    'pod rules: ip6 in pod after []',
    'links: ip in host after [pod, pod rules]',
    'rules: nft in host after [pod, pod rules]',
    'bridge rules: nft in host after [pod, pod rules]',
  ])
})

it('an interface gets its name before the settings of the pod that name it', () => {
  const device = { name: 'up0', link: linkOf('up0') }
  const conf = { mode: 'macvlan', master: 'up0', podcidr: ['10.1.0.0/24', 'fd00:1::/64'] }
  const stepsOf = (more: Json) => {
    const steps = stepsToAdd(opsOf(specOf({ ...conf, ...more }, { device })))
    return steps.map(({ name }) => name)
  }
  expect(stepsOf({})).toEqual(['links', 'pod'])
  expect(stepsOf({ enabledad: true })).toEqual(['links', 'pod names', 'detection', 'pod'])
})
