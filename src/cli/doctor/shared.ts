// SPDX-License-Identifier: Apache-2.0
// Findings of doctor whose texts are those of errors that `trestle explain` knows.

import { type Diagnosis, diagnosis } from '../../catalogue/diagnosis.ts'
import { type Finding, type Found, findingOf as ofDiagnosis } from '../shell/findings.ts'

const limit = { group: 'limits', severity: 'warning' } as const
const agent = { group: 'agents', severity: 'error' } as const

const sharedChecks = {
  'forwarding-off': { group: 'kernel', severity: 'error' },
  'ipv6-disabled': { group: 'kernel', severity: 'error' },
  'kernel-module': { group: 'kernel', severity: 'warning' },
  'br-netfilter': { group: 'kernel', severity: 'error' },
  'bridge-other-address': { group: 'network', severity: 'error' },
  'host-local-full': { group: 'addresses', severity: 'error' },
  'cni-not-initialized': { group: 'runtime', severity: 'error' },
  'inotify-limit': limit,
  'file-limit': limit,
  'process-limit': limit,
  'disk-full': limit,
  'neighbours-full': limit,
  'conntrack-full': limit,
  'flannel-subnet-env': agent,
  'calico-nodename': agent,
  'cilium-agent': agent,
  'multus-daemon': agent,
  'ovn-agent': agent,
  'antrea-agent': agent,
  'dhcp-daemon': agent,
  'kubeconfig-missing': agent,
} as const satisfies Readonly<Record<string, Pick<Diagnosis, 'group' | 'severity'>>>

export const sharedDiagnoses: readonly Diagnosis[] = Object.entries(sharedChecks).map(([id, shown]) => ({
  ...diagnosis(id),
  ...shown,
}))

export function findingOf(found: Found): Finding {
  const shared = sharedDiagnoses.find(({ id }) => id === found.id)
  return ofDiagnosis(found, shared)
}
