// SPDX-License-Identifier: Apache-2.0
// Findings about addresses and host ports, and what dead pods left of them.

import type { DoctorCheck } from './check.ts'

export const addressChecks = {
  'pool-nearly-full': {
    group: 'addresses',
    severity: 'warning',
    meaning: 'soon no further pod starts: nine of ten addresses of the range are in use',
    cause: 'more pods than the range was made for, or reservations of dead pods',
    cure: 'enlarge the range, or see what dead pods left',
    run: 'trestle gc',
  },
  'host-local-leaked': {
    group: 'addresses',
    severity: 'warning',
    meaning: 'addresses are lost to pods that are gone: the range gets full before it is used',
    cause: 'a restart or a crash without DEL; host-local never gives back what nobody deletes',
    cure: 'remove the reservations of pods that the runtime does not list',
  },
  'dead-attachments': {
    group: 'addresses',
    severity: 'warning',
    meaning: 'addresses, host ports and rules are held for pods that are gone',
    cause: 'their DEL never came: the machine was restarted, or the runtime lost them',
    cure: 'collect them',
    run: 'trestle gc --apply',
  },
  'reservations-leaked': {
    group: 'addresses',
    severity: 'warning',
    meaning: 'addresses or host ports are reserved for nobody',
    cause: 'records were lost, or files of /run/trestle damaged',
    cure: 'give them back',
    run: 'trestle gc --apply',
  },
  orphans: {
    group: 'addresses',
    severity: 'warning',
    meaning: 'links or rules of trestle stand for pods that no record names',
    cause: 'records were lost, or files of /run/trestle were removed',
    cure: 'collect them',
    run: 'trestle gc --apply',
  },
  unsure: {
    group: 'addresses',
    severity: 'note',
    meaning: 'something may be left of a pod, and it cannot be told for sure: nothing collects it by itself',
    cause: 'no runtime lists it, but its namespace exists, or it cannot be seen from here',
    cure: "`trestle gc` says what and why; remove it when you know that it is nobody's",
  },
  'pending-cleanup': {
    group: 'addresses',
    severity: 'warning',
    meaning: 'a DEL could not undo everything: address and ports of the pod stay withheld',
    cause: 'a tool was missing or failed, or the disk was full, while the pod was taken down',
    cure: 'remove what stopped it, then settle it',
    run: 'trestle gc --apply',
  },
  'port-taken': {
    group: 'ports',
    severity: 'warning',
    meaning:
      'clients from outside reach the pod on this port, and no longer the process of the node that listens on it',
    cause: 'a process of the node and a host port of a pod have the same port',
    cure: 'give one of them another port; "portmap": {"onListening": "refuse"} refuses such pods',
  },
} as const satisfies Readonly<Record<string, DoctorCheck>>
