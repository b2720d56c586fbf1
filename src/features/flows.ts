// SPDX-License-Identifier: Apache-2.0
// Old conntrack entries of a host port. A UDP client that keeps its source port stays on the old translation, or on none,
// for as long as it sends (plugins#123, plugins#1190). Only flows to the node's own addresses and the port, or into the
// pod that goes, are deleted. TCP needs none of this: a connection to a pod that is gone ends by itself.

import { oneLine } from '../cni/errors.ts'
import type { HostPort } from '../drivers/spec.ts'
import { nodeAddresses } from '../kernel/proc.ts'
import { nowMs } from '../process/clock.ts'
import type { Machine } from '../process/machine.ts'

/** Deletes the flows to a new pod's ports that began before its rules. A failure is reported and is no error. */
export async function flushFlowsBefore(
  machine: Machine,
  ports: readonly HostPort[],
  addresses = nodeAddresses,
): Promise<void> {
  const conntrack = conntrackOf(machine)
  for (const [of, own] of Map.groupBy(withoutTcp(ports), ({ family, protocol }) => `-f ipv${family} -p ${protocol}`)) {
    const numbers = new Set(own.map(({ hostPort }) => hostPort))
    // One listing, however many ports: conntrack takes 10 ms for a selection.
    const listed = await conntrack(`-L ${of}${numbers.size === 1 ? ` --orig-port-dst ${own[0]?.hostPort}` : ''}`)
    const local = addresses()
    const isMeant = ({ address, port }: Flow) =>
      own.some(({ hostPort, hostIp }) => hostPort === port && (hostIp ? hostIp === address : local.has(address)))
    const meant = readFlows(listed).filter(isMeant)
    for (const words of new Set(meant.map(({ address, port }) => `--orig-port-dst ${port} --orig-dst ${address}`)))
      await conntrack(`-D ${of} ${words}`)
  }
}

/** Deletes the flows into a pod that is gone. */
export async function flushFlowsAfter(machine: Machine, ports: readonly HostPort[]): Promise<void> {
  const conntrack = conntrackOf(machine)
  const flows = withoutTcp(ports).map((port) => `-f ipv${port.family} -p ${port.protocol} --reply-src ${port.podIp}`)
  for (const words of new Set(flows)) await conntrack(`-D ${words}`)
}

function withoutTcp(ports: readonly HostPort[]): readonly HostPort[] {
  return ports.filter(({ protocol }) => protocol !== 'tcp')
}

interface Flow {
  readonly address: string
  readonly port: number
}

/** `udp 17 29 src=… dst=… sport=… dport=…`: the first of each is the entry's first packet. */
function readFlows(text: string): readonly Flow[] {
  const found = text.matchAll(/^\w+ .*? dst=(\S+) sport=\d+ dport=(\d+)/gm)
  return [...found].map(([, address = '', port]) => ({ address, port: Number(port) }))
}

/** Runs conntrack, for three seconds in all: the table may hold a million flows. Gives what it printed. */
function conntrackOf(machine: Machine): (words: string) => Promise<string> {
  const endsAtMs = nowMs() + 3000
  const report = (why: string) => process.stderr.write(`trestle: stale UDP flows may remain: ${oneLine(why)}\n`)
  return async (words) => {
    try {
      const mostMs = Math.max(1, Math.ceil(endsAtMs - nowMs()))
      const { code, stdout, stderr } = await machine.ask({ file: 'conntrack', args: words.split(' '), mostMs })
      // Status 1 says that nothing matched.
      if (code !== 0 && !/0 flow entries|^$/.test(stderr.trim())) report(stderr)
      return stdout
    } catch (error) {
      report((error as Error).message)
      return ''
    }
  }
}
