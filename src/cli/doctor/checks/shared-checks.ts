// SPDX-License-Identifier: Apache-2.0
// Findings of `trestle doctor` whose texts are those of errors that `trestle explain` knows: the state that leads to
// the error, found before or beside it. How bad they are and where they are shown is said here, what they mean there.

import type { Severity } from '../../lint/checks/check-texts.ts'
import type { Group } from './check.ts'

interface SharedCheck {
  readonly group: Group
  readonly severity: Severity
}

const limit = { group: 'limits', severity: 'warning' } as const
const agent = { group: 'agents', severity: 'error' } as const

export const sharedChecks = {
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
} as const satisfies Readonly<Record<string, SharedCheck>>

export type SharedCheckId = keyof typeof sharedChecks
