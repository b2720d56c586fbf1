// SPDX-License-Identifier: Apache-2.0
// The report on a screen: no line of ours is longer than it, but for commands to paste, and colour says how bad it is.

import { expect, it } from 'vitest'
import { countsText, type Report, reportText, shortText } from '../../../../src/commands/doctor/doctor-report.ts'
import type { Node } from '../../../../src/commands/doctor/observed-node.ts'
import type { PodFacts } from '../../../../src/commands/doctor/one-pod.ts'
import { findingOf } from '../../../../src/commands/findings.ts'

const facts: PodFacts['attachments'][number]['facts'] = [
  ['network', 'pods: eth0 of container aaaaaaaaaaaaa of shop/web, made by trestle, since 2026-11-22T23:08:14.976Z'],
  ['namespace', '/run/netns/cni-01234567-89ab-cdef-0123-456789abcdef'],
  ['link', 'vethb6e7223f5b2 on the node: up, 12:81:54:d4:2a:bf, MTU 1500, port of cni0'],
  ['link', 'eth0 in the pod: up, 12:81:54:d4:2a:c0, MTU 1500'],
  ['address', '10.240.0.2/24'],
  ['differs', 'address 10.240.0.2/24 is missing on eth0 in the pod, and with it the route to its own subnet'],
]
const pod: PodFacts = {
  asked: 'shop/web',
  sandboxes: ['aaaaaaaaaaaaa (ready)'],
  attachments: [
    {
      ...{ containerId: 'a'.repeat(64), network: 'pods', ifName: 'eth0', pod: 'shop/web', links: [], facts },
      ...{ addresses: ['10.240.0.2'], differences: [] },
    },
  ],
  names: ['shop/web'],
}
const runtime = { name: 'containerd', text: 'containerd (process 7)', confDir: '/etc/cni/net.d', binDirs: [] }
const configuration = { runtime: { ...runtime, source: 'CRI Status' }, file: '10-a.conflist', network: 'pods' }
const node = { records: [], networks: [], configurations: [configuration] } as unknown as Node
const why = 'it runs in a container that sees neither the processes nor the files of its node: run it on the node'
const report: Report = {
  node,
  findings: [findingOf({ id: 'rules-missing', on: 'nftables', message: 'a table is missing; '.repeat(9) })],
  notLooked: [
    { group: 'runtime', why },
    { group: 'log', why },
  ],
  selected: ['host', 'runtime', 'network', 'log'],
  done: [],
  log: [],
  pod,
}

it.each([80, 160])('has no line over %d columns', (width) => {
  const lines = reportText(report, { hasColour: false, width }).split('\n')
  expect(lines.filter((line) => line.length > width)).toEqual([])
  expect(lines.length).toBeGreaterThan(15)
})

it('says a reason once, and in colour what is fine, what is not, and what was not looked at', () => {
  const text = reportText(report, { hasColour: true, width: 80 })
  expect(text.split(/sees\s+neither/)).toHaveLength(2)
  expect(text).toContain('\x1b[32mok\x1b[39m')
  expect(text).toContain('\x1b[31m1 error\x1b[39m')
  expect(text).toContain('\x1b[33mnot looked at\x1b[39m: as above')
})

it.each([
  ['no ADD of it went well here', []],
  ['its ADD went well, its sandbox failed, and DEL followed', ['shop/web']],
])('says of a pod without a record: %s', (why, pods) => {
  const log = [
    { id: 'sandbox-failed', pods, finding: findingOf({ id: 'sandbox-failed', on: 'shop/web', message: '' }) },
  ]
  const text = reportText({ ...report, log, pod: { ...pod, attachments: [] } }, { hasColour: false, width: 160 })
  expect(text).toContain(`no record of trestle: ${why}`)
})

it('without colour has no escape sequence', () => {
  expect(reportText(report, { hasColour: false, width: 80 })).not.toContain('\x1b')
})

it('gives a title that comes twice once', () => {
  const lines = reportText(report, { hasColour: false, width: 160 }).split('\n')
  expect(lines.filter((line) => line.startsWith('  link'))).toHaveLength(1)
  expect(lines).toContain(`${' '.repeat(13)}eth0 in the pod: up, 12:81:54:d4:2a:c0, MTU 1500`)
})

it('ends with how many findings there are, and how many groups nobody looked at', () => {
  expect(countsText(report)).toBe('1 error; 2 of 4 groups skipped or incomplete\n')
  expect(countsText({ ...report, findings: [], notLooked: [] })).toBe('nothing found\n')
  expect(shortText({ ...report, notLooked: [] }, 'trestle 1')).toBe('trestle 1; 1 error: rules-missing (nftables)\n')
})
