// SPDX-License-Identifier: Apache-2.0
// What is written down for a finding of `trestle doctor`, and in which group it is shown.

import type { Check } from '../../lint/checks/check-texts.ts'

/** The groups of findings, in the order of the report. */
export const groups = [
  'host',
  'kernel',
  'runtime',
  'configuration',
  'agents',
  'network',
  'addresses',
  'ports',
  'firewall',
  'limits',
  'log',
  'probe',
] as const

export type Group = (typeof groups)[number]

/** Of lint's checks; `meaning` says what comes of it. `run`: a command that cures it, to paste. */
export interface DoctorCheck extends Check {
  readonly group: Group
  readonly run?: string
}
