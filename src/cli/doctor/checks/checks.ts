// SPDX-License-Identifier: Apache-2.0
// All findings of `trestle doctor` that are its own, by their ids, which are stable. Others have the ids and the texts
// of `trestle lint` (configuration), or of errors that `trestle explain` knows (shared-checks.ts).

import { addressChecks } from './checks-addresses.ts'
import { nodeChecks } from './checks-node.ts'
import { probeChecks } from './checks-probe.ts'
import { stateChecks } from './checks-state.ts'

/** Every finding of its own. */
export const doctorChecks = { ...nodeChecks, ...stateChecks, ...addressChecks, ...probeChecks }

/** The id of one. */
export type DoctorCheckId = keyof typeof doctorChecks

/** Whether `text` is the id of one. */
export function isDoctorCheckId(text: string): text is DoctorCheckId {
  return Object.hasOwn(doctorChecks, text)
}
