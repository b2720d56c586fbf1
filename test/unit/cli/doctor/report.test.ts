// SPDX-License-Identifier: Apache-2.0
// The report on a screen: no line of ours is longer than it, but for commands to paste, and colour says how bad it is.

import { expect, it } from 'vitest'
import { type Report, reportText } from '../../../../src/commands/doctor/doctor-report.ts'
import type { PodFacts } from '../../../../src/commands/doctor/facts.ts'
import { judge } from '../../../../src/commands/doctor/judge.ts'
import { findingOf } from '../../../../src/commands/findings.ts'
import { healthy } from './healthy.ts'

const pod: PodFacts = {
  asked: 'shop/web',
  sandboxes: [{ id: 'a'.repeat(64), pod: 'shop/web', isReady: true }],
  attachments: [
    {
      containerId: 'a'.repeat(64),
      network: 'pods',
      ifName: 'eth0',
      source: 'record',
      pod: 'shop/web',
      createdAt: '2026-11-22T23:08:14.976Z',
      netns: '/run/netns/cni-01234567-89ab-cdef-0123-456789abcdef',
      links: ['vethb6e7223f5b2 on the node: up, 12:81:54:d4:2a:bf, MTU 1500, port of cni0'],
      addresses: ['10.240.0.2/24'],
      routes: ['default by 10.240.0.1'],
      hostPorts: [],
      rules: [],
      differences: ['address 10.240.0.2/24 is missing on eth0 in the pod, and with it the route to its own subnet'],
      pendingCleanup: [],
    },
  ],
  names: ['shop/web'],
}
const why = 'it runs in a container that sees neither the processes nor the files of its node: run it on the node'
const report: Report = {
  facts: { ...healthy, pod },
  findings: [
    ...judge(healthy),
    findingOf({ id: 'rules-missing', on: 'nftables', message: 'a table is missing; '.repeat(9) }),
  ],
  notLooked: [
    { group: 'runtime', why },
    { group: 'log', why },
  ],
  selected: ['host', 'runtime', 'network', 'log'],
  done: [],
}

it.each([80, 160])('has no line over %d columns', (width) => {
  const lines = reportText(report, { hasColour: false, width }).split('\n')
  expect(lines.filter((line) => line.length > width)).toEqual([])
  expect(lines.length).toBeGreaterThan(15)
})

it('says a reason once, and in colour what is fine, what is not, and what was not looked at', () => {
  const text = reportText(report, { hasColour: true, width: 80 })
  expect(text.split('sees neither')).toHaveLength(2)
  expect(text).toContain('\x1b[32mok\x1b[0m')
  expect(text).toContain('\x1b[31m1 error\x1b[0m')
  expect(text).toContain('\x1b[33mnot looked at\x1b[0m: as above')
})

it.each([
  ['no ADD of it went well here', []],
  ['its ADD went well, its sandbox failed, and DEL followed', ['shop/web']],
])('says of a pod without a record: %s', (text, pods) => {
  const log = [{ id: 'sandbox-failed', count: 1, lastMs: 0, pods, units: ['containerd'], text: '' }]
  const facts = { ...healthy, log, pod: { ...pod, attachments: [] } }
  expect(reportText({ ...report, facts }, { hasColour: false, width: 160 })).toContain(`no result of libcni: ${text}`)
})

it('without colour has no escape sequence', () => {
  expect(reportText(report, { hasColour: false, width: 80 })).not.toContain('\x1b')
})
