// SPDX-License-Identifier: Apache-2.0
// The folder named after a network, beside its list: further plugins of it (libcni 1.3, NetworkPluginConfsFromFiles).

import { readdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { type Loaded, loadList, type NotLoaded } from './libcni.ts'
import { byBytes, extensionOf } from './predict.ts'

/** The files of plugins of a list that has none or more of them, in the order in which libcni takes them. */
export function pluginFilesOf(directory: string, load: Loaded | NotLoaded): readonly string[] {
  if ('problem' in load || load.isWhole || load.name.includes('/')) return []
  const folder = join(directory, load.name)
  return namesIn(folder).map((name) => join(folder, name))
}

/** Whether the list of a file that a person names has plugins in that folder. */
export function hasPluginFiles(file: string, text: string): boolean {
  return extensionOf(file) === '.conflist' && pluginFilesOf(dirname(file), loadList(text)).length > 0
}

function namesIn(folder: string): readonly string[] {
  try {
    const entries = readdirSync(folder, { withFileTypes: true }).filter((entry) => !entry.isDirectory())
    return entries
      .map(({ name }) => name)
      .filter((name) => extensionOf(name) === '.conf')
      .toSorted(byBytes)
  } catch {
    return [] // as where there is none
  }
}
