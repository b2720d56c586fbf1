// SPDX-License-Identifier: Apache-2.0
// Directories of the state that cannot be made, since a file or a link has their path: every call would fail.

import { lstatSync } from 'node:fs'
import { networkDirectories, stateRoot } from '../../system/files/state.ts'
import { portsDirectory } from '../../system/store/reservations.ts'

/** The paths, absolute. */
export function blockedDirectories(): readonly string[] {
  const ofNetworks = networkDirectories().flatMap((files) => {
    return [files.directory, files.locks, files.pending, files.attachments, files.addresses, files.cooling]
  })
  return [`${stateRoot()}/networks`, portsDirectory(), ...ofNetworks].filter(isNoDirectory)
}

function isNoDirectory(path: string): boolean {
  const stat = lstatSync(path, { throwIfNoEntry: false })
  return stat !== undefined && !stat.isDirectory()
}
