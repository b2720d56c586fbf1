// SPDX-License-Identifier: Apache-2.0
// What the files of sysctl.d make of settings at the next start: sysctl.d(5). The directories by name of file, the
// first directory that has a name wins, the last line of all counts; /etc/sysctl.conf is read last by `sysctl
// --system`.

import { namesIn } from '../../../system/files/files.ts'
import { textIfThere } from '../../../system/files/if-there.ts'

const directories = ['/etc/sysctl.d', '/run/sysctl.d', '/usr/local/lib/sysctl.d', '/usr/lib/sysctl.d', '/lib/sysctl.d']

export interface KeptSetting {
  readonly value: string
  readonly file: string
}

/** The values that the files give these keys, in dotted form; none for one that no file names. */
export function keptSettings(keys: readonly string[], root = ''): ReadonlyMap<string, KeptSetting> {
  const kept = new Map<string, KeptSetting>()
  for (const file of filesIn(root)) {
    for (const [key, value] of settingsIn(textIfThere(`${root}${file}`)))
      if (keys.includes(key)) kept.set(key, { value, file })
  }
  return kept
}

function filesIn(root: string): readonly string[] {
  const byName = new Map<string, string>()
  for (const directory of directories) {
    for (const name of namesIn(`${root}${directory}`)) {
      if (name.endsWith('.conf') && !byName.has(name)) byName.set(name, `${directory}/${name}`)
    }
  }
  const sorted = [...byName].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, file]) => file)
  return [...sorted, '/etc/sysctl.conf']
}

/** `key = value` lines; keys may be written with slashes, and begin with - where failure is no matter. */
function settingsIn(text: string): readonly (readonly [string, string])[] {
  return text.split('\n').flatMap((line) => {
    const [, key, value] = /^\s*-?\s*([\w./-]+)\s*=\s*(\S.*?)\s*$/.exec(line) ?? []
    return key === undefined || value === undefined ? [] : [[key.replaceAll('/', '.'), value] as const]
  })
}
