// SPDX-License-Identifier: Apache-2.0
// What another firewall refuses.

import { CniError, oneLine } from '../../cni/error.ts'
import type { AcceptCommand } from '../../tools/accept-commands.ts'
import { missingNote, refusedFor } from '../process/capabilities.ts'

/** CniError 100 of a change to a firewall of others: `what` could not be done, and why. */
export function firewallError(what: string, command: AcceptCommand, stderr: string): CniError {
  const missing = refusedFor(stderr)
  const cure = missing?.hint ?? 'set firewall.hostAccept to "off" to leave that firewall alone'
  return new CniError('firewall-accept', `${what}: ${oneLine(stderr)}${missingNote(missing)}`, {
    details: `${[command.file, ...command.args].join(' ')}\n${command.stdin ?? ''}${stderr}${cure}`,
  })
}
