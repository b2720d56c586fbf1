// SPDX-License-Identifier: Apache-2.0
// The report on a screen: colour says what is fine, and the last line how many findings there are.

import { expect, it } from 'vitest'
import { type Report, reportText } from '../../../../src/commands/doctor/doctor-report.ts'
import type { Node } from '../../../../src/commands/doctor/observed-node.ts'
import type { PodFacts } from '../../../../src/commands/doctor/one-pod.ts'
import { findingOf } from '../../../../src/commands/findings.ts'

const pod: PodFacts = {
  asked: 'shop/web',
  sandboxes: ['aaaaaaaaaaaaa (ready)'],
  interfaces: [
    {
      ...{ pod: 'shop/web', containerId: 'a'.repeat(64), ifName: 'eth0', network: 'pods', isOurs: true },
      ...{ addresses: ['10.240.0.2', 'fd00:240::2'], ports: [], link: 'vethb6e7223f5b2', master: 'cni0' },
      since: '2026-11-22T23:08:14.976Z',
    },
  ],
  isDead: false,
  names: ['shop/web'],
}
const uses = { who: 'containerd (process 7)', confDir: '/etc/cni/net.d', binDirs: [] }
const configuration = { ...uses, file: '10-a.conflist', network: 'pods' }
const node = { records: [], networks: [], configurations: [configuration] } as unknown as Node
const why = 'it runs in a container that sees neither the processes nor the files of its node: run it on the node'
const report: Report = {
  node,
  findings: [findingOf({ id: 'network-differs', on: 'this node', message: 'a table is missing' })],
  notLooked: [
    { group: 'runtime', why },
    { group: 'log', why },
  ],
  selected: ['host', 'runtime', 'network', 'log'],
  done: [],
  log: [],
  pod,
}

it('says in colour what is fine, and what was not looked at', () => {
  const text = reportText(report, { hasColour: true })
  expect(text).toContain('\x1b[32mok\x1b[39m')
  expect(text).toContain(`\x1b[33mnot looked at\x1b[39m: ${why}`)
})

it.each([
  ['no ADD of it went well here', []],
  ['its ADD went well, its sandbox failed, and DEL followed', ['shop/web']],
])('says of a pod without a record: %s', (why, pods) => {
  const log = [
    { id: 'sandbox-failed', pods, finding: findingOf({ id: 'sandbox-failed', on: 'shop/web', message: '' }) },
  ]
  const text = reportText({ ...report, log, pod: { ...pod, interfaces: [] } }, { hasColour: false })
  expect(text).toContain(`no record of trestle: ${why}`)
})

it('without colour has no escape sequence', () => {
  expect(reportText(report, { hasColour: false })).not.toContain('\x1b')
})

it('has a line for what each runtime uses, and for each fact of the pod', () => {
  const lines = reportText(report, { hasColour: false }).split('\n')
  expect(lines[0]).toBe('containerd (process 7): /etc/cni/net.d: uses 10-a.conflist (network pods)')
  expect(lines).toContain('  addresses  10.240.0.2 fd00:240::2')
  expect(lines).toContain('  link       vethb6e7223f5b2, port of cni0')
})

it('ends with how many findings there are, and how many groups nobody looked at', () => {
  const lastOf = (more: Partial<Report>) =>
    reportText({ ...report, ...more }, { hasColour: false })
      .split('\n')
      .at(-2)
  expect(lastOf({})).toBe('1 error; 2 of 4 groups skipped or incomplete')
  expect(lastOf({ findings: [], notLooked: [] })).toBe('nothing found')
})
