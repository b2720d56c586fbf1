// SPDX-License-Identifier: Apache-2.0
// What tc and bridge print of queues and of VLANs on bridge ports: CHECK and `trestle restore` look at these.

import type { Machine } from '../process/machine.ts'
import { batchLine } from './batch.ts'
import { requireSeen } from './look.ts'
import type { ObservedQueue } from './observed.ts'

/** Queues of links. tc prints a line for each filter question and none for a link that is gone: each is asked alone then. */
export async function lookAtQueues(
  machine: Machine,
  names: readonly string[],
): Promise<ReadonlyMap<string, ObservedQueue>> {
  const filterQuery = (name: string) => batchLine(['filter', 'show', 'dev', name, 'parent', 'ffff:'])
  const ask = async (stdin: string) => {
    const output = await machine.ask({ file: 'tc', args: ['-j', '-force', '-batch', '-'], stdin })
    requireSeen(output, 'tc')
    return readTcAnswers(output.stdout)
  }
  const [qdiscs = [], ...filters] = await ask(`qdisc show\n${names.map(filterQuery).join('')}`)
  const queues = new Map<string, ObservedQueue>()
  for (const [at, name] of names.entries()) {
    const own = qdiscs.filter(({ dev }) => dev === name)
    const isFiltered = own.some(({ kind }) => kind === 'ingress')
    const found = filters.length === names.length ? filters[at] : isFiltered ? (await ask(filterQuery(name)))[0] : []
    queues.set(name, readQueue([...own, ...(found ?? [])]))
  }
  return queues
}

/** VLAN ids of every bridge port. */
export async function lookAtVlans(machine: Machine): Promise<ReadonlyMap<string, readonly number[]>> {
  const output = await machine.ask({ file: 'bridge', args: ['-j', 'vlan', 'show'] })
  requireSeen(output, 'bridge')
  const ports = JSON.parse(output.stdout || '[]') as readonly {
    ifname: string
    vlans: readonly { vlan: number; vlanEnd?: number }[]
  }[]
  const idsOf = ({ vlan, vlanEnd = vlan }: { vlan: number; vlanEnd?: number }) =>
    Array.from({ length: vlanEnd - vlan + 1 }, (_, at) => vlan + at)
  return new Map(ports.map(({ ifname, vlans }) => [ifname, vlans.flatMap(idsOf)]))
}

interface TcEntry {
  readonly kind?: string
  readonly dev?: string
  readonly root?: boolean
  readonly handle?: string
  readonly options?: {
    readonly rate?: number
    readonly burst?: number
    readonly actions?: readonly { readonly to_dev?: string }[]
  }
}

/** What `tc -j -batch` printed: one list of entries for each line about a link that is there, in order. */
export function readTcAnswers(stdout: string): readonly (readonly TcEntry[])[] {
  const answers = stdout.split(/\n(?=\[)/).filter((answer) => answer.startsWith('['))
  return answers.map((answer) => {
    try {
      return JSON.parse(answer) as TcEntry[]
    } catch {
      // u32 prints words before iproute2 5.18 (tc/f_u32.c), qfq and others still do: cut where an entry begins.
      return answer
        .slice(1)
        .split(/(?=\{"(?:kind|protocol)":)/)
        .map(readBrokenEntry)
    }
  })
}

function readBrokenEntry(text: string): TcEntry {
  try {
    return JSON.parse(text.trim().replace(/[,\]]$/, '')) as TcEntry
  } catch {
    const word = (name: string) => new RegExp(`"${name}":"([^"\\\\]*)"`).exec(text)?.[1] ?? ''
    const options = { actions: text.includes('"to_dev"') ? [{ to_dev: word('to_dev') }] : [] }
    return { kind: word('kind'), dev: word('dev'), handle: word('handle'), root: text.includes('"root":true'), options }
  }
}

/** The queueing of one link from all entries about it. */
export function readQueue(entries: readonly TcEntry[]): ObservedQueue {
  const bucket = entries.find((entry) => entry.kind === 'tbf' && entry.root === true)?.options
  // Handle 0 is what the kernel gives a link by itself.
  const root = entries.find((entry) => entry.root === true && entry.handle !== '0:')?.kind
  const redirect = entries.flatMap((entry) => entry.options?.actions ?? []).find(({ to_dev }) => to_dev !== undefined)
  return {
    // tc prints bytes a second.
    ...(bucket?.rate === undefined ? {} : { rateBits: bucket.rate * 8 }),
    ...(bucket?.burst === undefined ? {} : { burstBytes: bucket.burst }),
    ...(root === undefined ? {} : { root }),
    hasIngress: entries.some(({ kind }) => kind === 'ingress' || kind === 'clsact'),
    ...(redirect?.to_dev === undefined ? {} : { redirectTo: redirect.to_dev }),
  }
}
