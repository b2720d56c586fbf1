// SPDX-License-Identifier: Apache-2.0
// `trestle restore`: sets up everything that live pods need, as an ADD does, for all networks at once. Exit code 1: a pod
// has lost its own link, which only a new pod gets again.

import { describeRecord } from '../state/records.ts'
import { openContext } from '../verbs/context.ts'
import { restoreNetworks } from '../verbs/set-up.ts'

export async function restore(words: readonly string[]): Promise<number> {
  const { repaired, lost } = await restoreNetworks(openContext(undefined, true))
  if (words.includes('json')) process.stdout.write(`${JSON.stringify({ repaired, lost: lost.map(describeRecord) })}\n`)
  else {
    for (const line of repaired) process.stdout.write(`  restored  ${line}\n`)
    for (const record of lost)
      process.stdout.write(`  lost      ${describeRecord(record)}: its link is gone, recreate the pod\n`)
    process.stdout.write(`${repaired.length} restored, ${lost.length} lost\n`)
  }
  return lost.length > 0 ? 1 : 0
}
