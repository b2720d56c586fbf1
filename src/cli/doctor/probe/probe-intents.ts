// SPDX-License-Identifier: Apache-2.0
// What a prober is about to make is written down before it makes it: where it is killed, DEL frees the addresses from
// that file. Beside the state directory, since lists of other plugins need none.

import { randomBytes } from 'node:crypto'
import { rmSync } from 'node:fs'
import { looseObject, number, strictObject, string } from 'zod'
import type { ProcessIdentity } from '../../../plan/model/record.ts'
import { makeDirectory, namesIn, readText, writeText } from '../../../system/files/files.ts'
import { stateRoot } from '../../../system/files/state.ts'
import { hasEnded, ownProcessIdentity } from '../../../system/process/process-identity.ts'
import type { Run } from '../../../system/process/runner.ts'
import { type Attachment, delList, readNetworkList } from '../../node/list.ts'
import type { ProbeRequest } from './probe-facts.ts'

/** The names of the pods in a report; the ends of their container ids. */
export const podNames = ['a', 'b'] as const

const ifName = 'eth0'
const ownId = /^trestle-probe-[\da-f]{12}$/

/** `/run/trestle-probe` beside `/run/trestle`. */
function intentDirectory(): string {
  return `${stateRoot()}-probe`
}

const stored = strictObject({
  format: number(),
  prober: looseObject({ pid: number(), startTime: string(), bootId: string() }),
  writtenMs: number(),
  network: string(),
  cniPath: string(),
})

/** Writes down that two pods of this list are to be made by this process. Returns the beginning of their ids. */
export function writeIntent({ network, cniPath }: ProbeRequest): string {
  const id = `trestle-probe-${randomBytes(6).toString('hex')}`
  makeDirectory(intentDirectory())
  const prober = ownProcessIdentity()
  const text = { format: 1, prober, writtenMs: Date.now(), network: JSON.stringify(network), cniPath }
  writeText(`${intentDirectory()}/${id}`, JSON.stringify(text))
  return id
}

/** Both pods are gone. */
export function removeIntent(id: string): void {
  rmSync(`${intentDirectory()}/${id}`, { force: true })
}

/** The attachment of one of the pods. `netns`: empty where it is gone. */
export function attachmentOf(id: string, name: string, netns = ''): Attachment {
  return { containerId: `${id}-${name}`, netns, ifName }
}

/** DEL of what killed probers left. Returns why some of it could not be freed: the next prober tries again. */
export async function settleKilledProbes(run: Run): Promise<readonly string[]> {
  const failures: string[] = []
  for (const id of namesIn(intentDirectory()).filter((name) => ownId.test(name))) {
    const request = deadRequest(id)
    if (request === undefined) continue
    try {
      for (const name of podNames)
        await delList({ run, ...request, isInstalled: true }, attachmentOf(id, name), undefined)
      removeIntent(id)
    } catch (error) {
      failures.push(`${id}: ${(error as Error).message}`)
    }
  }
  return failures
}

/** What a prober that has ended was told. A file that cannot be read is none of its: it is written whole. */
function deadRequest(id: string): ProbeRequest | undefined {
  const read = readText(`${intentDirectory()}/${id}`)
  if (read === undefined || read === 'unreadable') return undefined
  const { prober, writtenMs, network, cniPath } = stored.parse(JSON.parse(read.text))
  if (!hasEnded(prober as unknown as ProcessIdentity, writtenMs)) return undefined
  return { network: readNetworkList(network), cniPath }
}
