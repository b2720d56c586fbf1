// SPDX-License-Identifier: Apache-2.0
// What stands where a directory of state belongs: every call would stumble over it.

import { lstatSync } from 'node:fs'
import { networkDirectories, stateRoot } from '../../system/files/state.ts'
import { portsDirectory } from '../../system/store/reservations.ts'

/** The paths of it. */
export function misplaced(): readonly string[] {
  const ofNetworks = networkDirectories().flatMap((files) => {
    return [files.directory, files.locks, files.pending, files.attachments, files.addresses, files.cooling]
  })
  return [`${stateRoot()}/networks`, portsDirectory(), ...ofNetworks].filter(isNoDirectory)
}

function isNoDirectory(path: string): boolean {
  const stat = lstatSync(path, { throwIfNoEntry: false })
  return stat !== undefined && !stat.isDirectory()
}
