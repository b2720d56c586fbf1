// SPDX-License-Identifier: Apache-2.0
// gc of reservations: what no attachment accounts for goes, what a pod may still use is reported.

import { describe, expect, it } from 'vitest'
import {
  judgeReservation,
  type ReservationFacts,
  recordReservations,
  reservationText,
} from '../../../../src-before/plan/recovery/verdicts.ts'
import { mappingsOf } from '../../../../src-before/plan/upstream/libcni-cache.ts'
import { intent as holder } from '../../model/intent-record.ts'

/** Of a pod that is gone, with its record. */
const lost: ReservationFacts = {
  reservation: { network: 'n', name: '10.1.0.2' },
  isClaimed: false,
  holder,
  holderHas: 'nothing',
  isHolderDead: true,
  isListed: undefined,
  isOld: true,
  mayBeOfUnknownPod: false,
}

describe('judgeReservation', () => {
  it.each<[string, Partial<ReservationFacts>, string]>([
    ['its pod and its record are gone', {}, 'collect'],
    ['the same, but young', { isOld: false }, 'keep'],
    ['the same, but the runtime lists it', { isListed: true }, 'report'],
    ['the pod lives without a record', { isHolderDead: false }, 'report'],
    ['an attachment has it', { isClaimed: true }, 'keep'],
    ['a call in progress has it', { holderHas: 'pending' }, 'keep'],
    ['the attachment it names has others', { holderHas: 'others' }, 'collect'],
    ['it cannot be read', { holder: undefined }, 'collect'],
    ['it cannot be read, and is young', { holder: undefined, isOld: false }, 'keep'],
    ['it cannot be read, and a pod has no record', { holder: undefined, mayBeOfUnknownPod: true }, 'report'],
    ['it names another, and a pod has no record', { holderHas: 'others', mayBeOfUnknownPod: true }, 'report'],
  ])('%s', (_, changes, verdict) => {
    expect(judgeReservation({ ...lost, ...changes }).verdict).toBe(verdict)
  })
})

describe('reservations', () => {
  it('of an intent record are not known', () => expect(recordReservations(holder)).toEqual([]))

  it('are named for people', () => {
    expect([{ network: 'n', name: '10.1.0.2' }, { name: 'tcp:80:4:any' }].map(reservationText)).toEqual([
      'address 10.1.0.2 of network n',
      'host port tcp:80:4:any',
    ])
  })
})

describe('host ports that libcni remembers', () => {
  it.each([
    [
      [{ HostPort: 80, ContainerPort: 8080, Protocol: 'TCP', HostIP: '' }],
      [{ hostPort: 80, containerPort: 8080, protocol: 'tcp' }],
    ],
    [
      [{ hostPort: 53, containerPort: 53, protocol: 'udp', hostIP: 'fd00::0:1' }],
      [{ hostPort: 53, containerPort: 53, protocol: 'udp', hostIP: 'fd00::1' }],
    ],
    [[{ hostPort: '80', containerPort: 80 }, null, 5, { hostPort: 1, containerPort: 1, protocol: 'icmp' }], []],
    [[{ hostPort: 1, containerPort: 1, protocol: { toString: 1 } }], []],
    [
      [{ hostPort: 1, containerPort: 1, hostIP: { toString: 1 } }],
      [{ hostPort: 1, containerPort: 1, protocol: 'tcp' }],
    ],
    ['none', []],
  ])('%j', (portMappings, expected) => {
    expect(mappingsOf({ portMappings })).toEqual(expected)
  })
})
