// SPDX-License-Identifier: Apache-2.0
// The list of the files that `trestle install` wrote, for `trestle uninstall`: those that a package or a person put
// there are not in it, and stay.

import { rmdirSync } from 'node:fs'
import { dirname, isAbsolute } from 'node:path'
import { parseObject } from '../cni/json.ts'
import { isTaken, removeFile, writeSynced } from '../state/files.ts'
import { isConfigurationName } from './config-directory.ts'
import { orElse, textIfThere } from './if-there.ts'

/** Kept over a restart, unlike the state. */
const listFile = '/var/lib/trestle/installed.json'

/** Absolute paths in the order in which they were written. */
export function readInstalled(): readonly string[] {
  const files = parseObject(textIfThere(listFile))?.['files']
  return (Array.isArray(files) ? files : []).filter((file) => typeof file === 'string' && isAbsolute(file))
}

export function writeInstalled(files: readonly string[]): void {
  writeSynced(listFile, `${JSON.stringify({ files: [...new Set(files)] })}\n`)
}

/** The files that are still there: configurations, and what they need. */
export function installedFiles(): { readonly configurations: readonly string[]; readonly programs: readonly string[] } {
  const files = readInstalled().filter(isTaken)
  return {
    configurations: files.filter(isConfigurationName),
    programs: files.filter((file) => !isConfigurationName(file)),
  }
}

export function forgetInstalled(): void {
  removeFile(listFile)
  // What else is there stays, and the directory with it.
  orElse(() => rmdirSync(dirname(listFile)), undefined)
}
