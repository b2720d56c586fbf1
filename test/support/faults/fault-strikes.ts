// SPDX-License-Identifier: Apache-2.0
// The faults of the rounds: at each process that a call starts, and at each of its own system calls that changes
// something.

import { startCni } from '../locks/parallel.ts'
import type { FaultNode } from './fault-node.ts'
import type { Strike, StruckCall } from './fault-rounds.ts'
import { describeFault, type Fault, faultsAt, type ToolCall } from './faults.ts'
import { tracedCni } from './strace.ts'

/** The system calls that change what is on disk, or start a process. */
const changing =
  'link,linkat,rename,renameat,renameat2,unlink,unlinkat,rmdir,mkdir,mkdirat,openat,clone,clone3,vfork,fork'

/** One system call of a traced call: the nth of its name. `changes`: something; else it opens what is there. */
export interface SystemCall {
  readonly name: string
  readonly nth: number
  readonly changes: boolean
}

const kinds: Readonly<Record<Fault['kind'], string>> = {
  error: 'error',
  'bad-line': 'error',
  'no-line-number': 'error',
  hang: 'hang',
  slow: 'slow',
  'kill-before': 'SIGKILL',
  'kill-held': 'SIGKILL',
  'kill-after': 'SIGKILL',
  'term-before': 'SIGTERM',
  'term-after': 'SIGTERM',
}

/** A fault at a process that the call starts. */
export function toolStrike(at: ToolCall, fault: Fault): Strike {
  return {
    kind: kinds[fault.kind],
    what: `${at.tool} ${at.args}, call ${at.nth}, ${describeFault(fault)}`,
    // A delegate's error is passed on (docs/design.md, "DEL"); so is that no time was left for it after a tool that hung.
    mayFail: (code, msg) => at.tool === 'ipam' || (code === 11 && /\/scripted did not finish/.test(msg)),
    run: async (node, call) => {
      node.faults.reset(at, fault)
      const finished = await withWrappers(node, call)
      const isAt = ({ tool, shape, nth }: ToolCall) => tool === at.tool && shape === at.shape && nth === at.nth
      const hit = node.faults.seen().some((call) => call.isStruck && isAt(call))
      return { ...finished, hit }
    },
  }
}

/** No fault: the processes that the call starts are put into `seen`. */
export function listingTools(seen: ToolCall[]): Strike {
  return {
    kind: 'none',
    what: 'no fault',
    mayFail: () => false,
    run: async (node, call) => {
      node.faults.reset()
      const finished = await withWrappers(node, call)
      seen.push(...node.faults.seen())
      return { ...finished, hit: true }
    },
  }
}

/** What strace does at a system call: `signal=KILL`, `error=EIO`. */
export function syscallStrike({ name, nth }: Pick<SystemCall, 'name' | 'nth'>, what: string): Strike {
  return {
    kind: what === 'signal=KILL' ? 'SIGKILL at a system call' : 'refused system call',
    what: `${name} ${nth}, ${what}`,
    // Not even what is pending can be written.
    mayFail: (code) => code === 11,
    run: async ({ host }, call) => tracedCni(host, call, { calls: name, what, when: nth }),
  }
}

/** No fault: the changing system calls of the call are put into `seen`, and what it opens of the state and the kernel's files. */
export function listingSystemCalls(seen: SystemCall[]): Strike {
  return {
    kind: 'none',
    what: 'no fault',
    mayFail: () => false,
    run: async ({ host }, call) => {
      const traced = tracedCni(host, call, { calls: changing, what: 'error=EIO', when: 60_000 })
      seen.push(...systemCallsIn(traced.log))
      return { ...traced, hit: true }
    },
  }
}

/** Each process that hangs. */
export function hangStrikes(calls: readonly ToolCall[]): readonly Strike[] {
  return calls.map((at) => toolStrike(at, { kind: 'hang' }))
}

/** Of the faults at each process: all, or two in turn of an error, a line, a kill and a SIGTERM. */
export type Extent = 'all' | 'two'

/** The faults to try at these processes. */
export function toolStrikes(calls: readonly ToolCall[], extent: Extent): readonly Strike[] {
  return calls.flatMap((at, index) => faultsOf(at, index, extent).map((fault) => toolStrike(at, fault)))
}

function faultsOf(at: ToolCall, index: number, extent: Extent): readonly Fault[] {
  const all = faultsAt(at)
  if (extent === 'all') return all
  const lines = all.filter((fault) => fault.kind === 'bad-line')
  const error: Fault = { kind: 'error' }
  const line = lines[Math.floor(lines.length / 2)] ?? error
  const isHeld = index % 4 < 2
  const kill: Fault = { kind: isHeld ? 'kill-held' : 'kill-after' }
  const term: Fault = { kind: isHeld ? 'term-after' : 'term-before' }
  return index % 2 === 0 ? [error, kill] : [line, term]
}

async function withWrappers(node: FaultNode, call: StruckCall) {
  // FAULT_INSIDE lets the harness's own nsenter pass; trestle does not hand it on to its tools.
  const env = { PATH: node.faults.path, FAULT_INSIDE: '1' }
  return await startCni(node.host, call.verb, { ...call, path: node.faults.directory, env })
}

function systemCallsIn(log: string): readonly SystemCall[] {
  const counts = new Map<string, number>()
  return log.split('\n').flatMap((line): readonly SystemCall[] => {
    const name = /^(\w+)\(/.exec(line)?.[1]
    if (name === undefined) return []
    const nth = (counts.get(name) ?? 0) + 1
    counts.set(name, nth)
    if (name === 'openat' && !line.includes('O_CREAT')) return isOurs(line) ? [{ name, nth, changes: false }] : []
    // A directory that is there changes nothing, and no disk is too full to say so.
    return line.includes('= -1 EEXIST') ? [] : [{ name, nth, changes: true }]
  })
}

/** What Node opens to start is not ours to survive. */
function isOurs(line: string): boolean {
  return /"[^"]*\/(networks|ports)\b|"\/proc\/(sys\/net|\d+|self\/net)\//.test(line)
}
