// SPDX-License-Identifier: Apache-2.0
// State that was damaged, and addresses and ports that are held for nobody or are all in use.

import { startedLongAgo } from '../../../support/faults/process-identities.ts'
import { attachmentDigest, networkDigest } from '../../../support/link-names.ts'
import { networkStateAt, shellStateDir, stateFilesAt } from '../../../support/state-layout.ts'
import type { Fault } from './fault.ts'

const state = shellStateDir
const { damaged } = stateFilesAt(state)
const pods = networkStateAt(state, 'pods')
/** The comment of an element of a pod that nothing else tells of. */
const gone = { network: 'pods', containerId: 'gone', ifName: 'eth0', role: 'main' }
const commentOfGone = `${networkDigest('pods')} ${attachmentDigest(gone)}`

export const stateFaults: readonly Fault[] = [
  {
    what: 'a record cut short by a power loss',
    source: 'containerd/containerd#8197',
    make: `: >${pods.finished('$ID')}`,
    doctor: ['state-lacks'],
    explain: ['attachment-differs'],
  },
  {
    what: 'all state removed under live pods',
    source: 'k3s-io/k3s#7078',
    make: `find ${state} -mindepth 1 -delete`,
    doctor: ['state-lacks'],
    explain: ['attachment-differs'],
  },
  {
    what: 'reservations of nobody',
    source: 'containernetworking/plugins#1047',
    make: `sed 's/"containerId":"[^"]*"/"containerId":"gone"/g; s/"bootId":"[^"]*"/"bootId":"before"/' ${pods.finished('$ID')} >${pods.address('10.240.0.77')}`,
    doctor: ['reservations-leaked'],
    names: '10.240.0.77',
  },
  {
    what: 'a pod that is gone without DEL',
    source: 'kubernetes/kubernetes#86944',
    make: [
      'add gone',
      `sed -i -E 's/"startTime":"[0-9]*"/"startTime":"${startedLongAgo}"/; s/"createdAt":"[^"]*"/"createdAt":"2020-01-01T00:00:00.000Z"/' ${pods.finished('gone')}`,
      'ip netns del $NODE-gone',
    ].join(' && '),
    doctor: ['dead-attachments'],
  },
  {
    what: 'an element for a pod that no record names',
    source: 'containernetworking/plugins#810',
    make: `nft 'add element inet trestle self4 { 10.240.0.99 . 10.240.0.99 comment "${commentOfGone}" }'`,
    doctor: ['orphans'],
    names: '10.240.0.99',
  },
  {
    what: 'a directory of the state that others may write to',
    source: 'https://cwe.mitre.org/data/definitions/732.html',
    make: `chmod 777 ${state}`,
    doctor: ['not-ready-state'],
    says: 'ADD',
    explain: ['state-unusable'],
    cure: `chmod 700 ${state}`,
  },
  {
    what: 'the disk of the state full',
    source: 'https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/',
    make: [
      `cp -a ${state} $SCRATCH/kept && mount -t tmpfs -o size=256k,mode=700 tmpfs ${state}`,
      `cp -a $SCRATCH/kept/. ${state}/ && ! dd if=/dev/zero of=${damaged} bs=4k 2>/dev/null`,
    ].join(' && '),
    doctor: ['not-ready-state'],
    names: 'full',
    says: 'ADD',
    explain: ['file-refused'],
    cure: `rm ${damaged}`,
    tidy: `umount ${state}`,
  },
  {
    what: 'every address in use',
    source: 'kubernetes/kubernetes#57280',
    on: 'small',
    make: 'for i in 1 2 3; do add more$i || exit 1; done',
    doctor: ['not-ready-pool'],
    says: 'ADD',
    explain: ['pool-exhausted'],
    cure: 'for i in 1 2 3; do del more$i; done',
  },
  {
    what: 'a process of the node on the host port of a pod',
    source: 'kubernetes/kubernetes#65976',
    make: '(setsid socat TCP4-LISTEN:8080,fork,reuseaddr /dev/null >/dev/null 2>&1 & echo $! >$SCRATCH/server); until ss -Hltn sport = :8080 | grep -q 8080; do :; done',
    doctor: ['port-taken'],
    names: 'host port 8080/tcp',
    cure: 'kill $(cat $SCRATCH/server); while ss -Hltn sport = :8080 | grep -q 8080; do :; done',
  },
]
