// SPDX-License-Identifier: Apache-2.0
// Deletes orphan conntrack entries, best effort: one process per family, after the rules are in place.

import { type Cidr, parseCidr, parsePrefix } from '../../cni/address.ts'
import { oneLine } from '../../cni/error.ts'
import { type Flow, type FlowSelections, flowsBeforeAdd } from '../../features/port-flows.ts'
import type { HostPort } from '../../model/attachment.ts'
import { isDiskRefusal, withTextFile } from '../files/files.ts'
import { stateRoot } from '../files/state.ts'
import type { Command, Output, Run } from '../process/runner.ts'

/**
 * The flows to a new pod's host ports that began before its rules were in place; as a rule there are none. A failure is
 * reported on stderr and is no error: the pod's network is complete without. `asked`: flowsToList of the ports.
 */
export async function earlierFlows(
  run: Run,
  asked: readonly FlowSelections[],
  ports: readonly HostPort[],
): Promise<readonly FlowSelections[]> {
  const listed = (await Promise.all(asked.map((each) => listFamily(run, each)))).flat()
  if (listed.length === 0) return []
  const local = (await Promise.all(asked.map(({ family }) => localRanges(run, family)))).flat()
  return flowsBeforeAdd(ports, local, listed)
}

/** Deletes the flows. A failure is reported on stderr and is no error. */
export async function deleteFlows(run: Run, flows: readonly FlowSelections[]): Promise<void> {
  await Promise.all(flows.map((each) => deleteFamily(run, each)))
}

/** What the node takes for its own, as the rules ask for it: by a route alone, too (a cloud's load balancer). */
async function localRanges(run: Run, family: 4 | 6): Promise<readonly Cidr[]> {
  try {
    const { stdout } = await run({
      file: 'ip',
      args: [`-${family}`, 'route', 'show', 'table', 'local', 'type', 'local'],
    })
    return stdout.split('\n').flatMap((line) => rangeIn(line.split(' ')) ?? [])
  } catch (error) {
    report((error as Error).message)
    return []
  }
}

/** `local 192.0.2.1 dev eth0 …` (ip-route(8)); an address stands for itself alone. */
function rangeIn([type, dst = '']: readonly string[]): Cidr | undefined {
  return type === 'local' ? parsePrefix(dst) : parseCidr(dst)
}

async function listFamily(run: Run, { family, selections }: FlowSelections): Promise<readonly Flow[]> {
  const listings = selections.map(async (selection) => {
    try {
      const output = await run(conntrack(['-L', '-f', `ipv${family}`, ...selection]))
      if (output.code !== 0) report(output.stderr)
      return readFlows(output.stdout)
    } catch (error) {
      report((error as Error).message)
      return []
    }
  })
  return (await Promise.all(listings)).flat()
}

async function deleteFamily(run: Run, { family, selections }: FlowSelections): Promise<void> {
  const lines = selections.map((selection) => ['-D', '-f', `ipv${family}`, ...selection])
  const first = lines[0]
  if (first === undefined) return
  try {
    const output = await (lines.length === 1 ? run(conntrack(first)) : runLines(run, lines))
    // Status 1 says that nothing matched; everything else is worth a line.
    if (output.code !== 0 && !isNothing(output.stderr)) report(output.stderr)
  } catch (error) {
    report((error as Error).message)
  }
}

/**
 * -R reads one command a line (conntrack-tools 1.4.7). From a file: its `-` opens /dev/stdin anew, which
 * fails where that is a socket, as ours is (unix(7) sockets cannot be opened by name).
 */
async function runLines(run: Run, lines: readonly (readonly string[])[]): Promise<Output> {
  const text = lines.map((line) => `${line.join(' ')}\n`).join('')
  const output = await withTextFile(stateRoot(), text, (path) => run(conntrack(['-R', path]))).catch(
    (error: unknown) => {
      if (!isDiskRefusal(error)) throw error
    },
  )
  if (output !== undefined && (output.code === 0 || !/option/.test(output.stderr))) return output
  // Older ones take one command a process, and a full disk no file.
  const each = await Promise.all(lines.map((line) => run(conntrack(line))))
  return each.find(({ code, stderr }) => code !== 0 && !isNothing(stderr)) ?? { code: 0, stdout: '', stderr: '' }
}

/** A moment's work on a table that may hold a million flows. One that hangs would take all the time of the call. */
function conntrack(args: readonly string[]): Command {
  return { file: 'conntrack', args, mostMs: 3000 }
}

function isNothing(stderr: string): boolean {
  return /0 flow entries|^$/.test(stderr.trim())
}

function report(why: string): void {
  process.stderr.write(`trestle: stale UDP flows may remain: ${oneLine(why)}\n`)
}

// What conntrack(8) lists, one entry a line: `udp 17 29 src=… dst=… sport=… dport=… src=… …`; the first of each is of
// the entry's first packet (libnetfilter_conntrack, __snprintf_conntrack).

/** The listed entries of protocols with ports; other lines are read over. */
export function readFlows(text: string): readonly Flow[] {
  return text.split('\n').flatMap((line) => {
    const [, protocol, address, port] = /^(\w+) .*? dst=(\S+) sport=\d+ dport=(\d+)/.exec(line) ?? []
    if (protocol === undefined || address === undefined) return []
    return [{ protocol, address, port: Number(port) }]
  })
}
