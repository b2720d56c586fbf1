// SPDX-License-Identifier: Apache-2.0
// In which order the plugins of a list are called (CNI spec 1.1.0, section 4): ADD and CHECK as they stand, DEL the
// other way round.

import { lookUp } from '../../../cni/json/json-keys.ts'
import { oneLine } from '../../../cni/model/error.ts'
import type { FileLint } from './file.ts'

/** The types of the plugins of a file in the order of each verb. */
export interface Chain {
  readonly file: string
  readonly add: readonly string[]
  readonly del: readonly string[]
}

/** The chains of the files that have more than one plugin. */
export function chainsOf(files: readonly FileLint[]): readonly Chain[] {
  return files.flatMap(({ file, list }) => {
    const add = (list?.plugins ?? []).map(({ conf }) => String(lookUp(conf, 'type')))
    return add.length < 2 ? [] : [{ file, add, del: add.toReversed() }]
  })
}

/** A chain, on one line. */
export function chainText({ file, add, del }: Chain): string {
  return `${oneLine(`${file === '-' ? '<stdin>' : file}: ADD calls ${add.join(', ')}; DEL calls ${del.join(', ')}`)}\n`
}
