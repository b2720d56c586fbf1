// SPDX-License-Identifier: Apache-2.0
// Old conntrack entries of a host port. A UDP client that keeps its source port stays on the old translation, or on none,
// for as long as it sends (plugins#123, plugins#1190). Only flows to the node's own addresses and the port, or into the
// pod that goes, are deleted.

import { type Cidr, includes, parseAddress, parsePrefix } from '../cni/addresses.ts'
import { oneLine } from '../cni/errors.ts'
import type { HostPort } from '../drivers/spec.ts'
import { nowMs } from '../process/clock.ts'
import type { Machine } from '../process/machine.ts'
import type { Output } from '../process/runner.ts'

type Selection = readonly string[]

/** TCP needs none of this: a connection to a pod that is gone ends by itself. */
function withoutTcp(ports: readonly HostPort[], family: 4 | 6): readonly HostPort[] {
  return ports.filter((port) => port.protocol !== 'tcp' && port.family === family)
}

/** Deletes the flows to a new pod's ports that began before its rules. A failure is reported and is no error. */
export async function flushFlowsBefore(withoutBound: Machine, ports: readonly HostPort[]): Promise<void> {
  const machine = boundedTo3s(withoutBound)
  for (const family of [4, 6] as const) {
    const own = withoutTcp(ports, family)
    if (own.length === 0) continue
    const selections = await flowsBefore(machine, own, family)
    await deleteFlows(machine, family, selections)
  }
}

/** Deletes the flows into a pod that is gone. */
export async function flushFlowsAfter(withoutBound: Machine, ports: readonly HostPort[]): Promise<void> {
  const machine = boundedTo3s(withoutBound)
  for (const family of [4, 6] as const) {
    const selections = withoutTcp(ports, family).map(({ protocol, podIp }) => `-p ${protocol} --reply-src ${podIp}`)
    await deleteFlows(
      machine,
      family,
      [...new Set(selections)].map((text) => text.split(' ')),
    )
  }
}

/** One listing for each protocol, however many ports: conntrack takes 10 ms for a selection. */
async function flowsBefore(machine: Machine, ports: readonly HostPort[], family: 4 | 6): Promise<readonly Selection[]> {
  const found = new Map<string, Selection>()
  for (const protocol of new Set(ports.map((port) => port.protocol))) {
    const numbers = [...new Set(ports.filter((port) => port.protocol === protocol).map(({ hostPort }) => hostPort))]
    const one = numbers.length === 1 ? ['--orig-port-dst', `${numbers[0]}`] : []
    const listed = await conntrack(machine, ['-L', '-f', `ipv${family}`, '-p', protocol, ...one])
    const flows = readFlows(listed?.stdout ?? '')
    if (flows.length === 0) continue
    const local = await localPrefixes(machine, family)
    for (const { address, port } of flows) {
      const isOurs = ports.some(
        (each) => each.protocol === protocol && each.hostPort === port && isMeant(each, address, local),
      )
      if (isOurs)
        found.set(`${protocol} ${port} ${address}`, [
          '-p',
          protocol,
          '--orig-port-dst',
          `${port}`,
          '--orig-dst',
          address,
        ])
    }
  }
  return [...found.values()]
}

function isMeant({ hostIp }: HostPort, address: string, local: readonly Cidr[]): boolean {
  if (hostIp !== undefined) return hostIp === address
  const parsed = parseAddress(address)
  return parsed !== undefined && local.some((prefix) => includes(prefix, parsed))
}

/** What the node takes for its own, by a route alone, too: a cloud's load balancer. */
async function localPrefixes(machine: Machine, family: 4 | 6): Promise<readonly Cidr[]> {
  try {
    const { stdout } = await machine.ask({
      file: 'ip',
      args: [`-${family}`, 'route', 'show', 'table', 'local', 'type', 'local'],
    })
    return stdout.split('\n').flatMap((line) => parsePrefix(line.split(' ')[1] ?? '') ?? [])
  } catch (error) {
    report((error as Error).message)
    return []
  }
}

/** `udp 17 29 src=… dst=… sport=… dport=…`: the first of each is the entry's first packet. */
function readFlows(text: string): readonly { readonly address: string; readonly port: number }[] {
  return text.split('\n').flatMap((line) => {
    const [, address, port] = /^\w+ .*? dst=(\S+) sport=\d+ dport=(\d+)/.exec(line) ?? []
    return address === undefined ? [] : [{ address, port: Number(port) }]
  })
}

async function deleteFlows(machine: Machine, family: 4 | 6, selections: readonly Selection[]): Promise<void> {
  for (const selection of selections) await conntrack(machine, ['-D', '-f', `ipv${family}`, ...selection])
}

/** A moment's work on a table that may hold a million flows: what hangs would take all the time of the call. */
function boundedTo3s(machine: Machine): Machine {
  const endsAtMs = nowMs() + 3000
  return {
    ...machine,
    ask: (command) => machine.ask({ ...command, mostMs: Math.max(1, Math.ceil(endsAtMs - nowMs())) }),
  }
}

async function conntrack(machine: Machine, args: readonly string[]): Promise<Output | undefined> {
  try {
    const output = await machine.ask({ file: 'conntrack', args })
    // Status 1 says that nothing matched.
    if (output.code !== 0 && !/0 flow entries|^$/.test(output.stderr.trim())) report(output.stderr)
    return output
  } catch (error) {
    report((error as Error).message)
    return undefined
  }
}

function report(why: string): void {
  process.stderr.write(`trestle: stale UDP flows may remain: ${oneLine(why)}\n`)
}
