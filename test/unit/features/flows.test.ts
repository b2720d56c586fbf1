// SPDX-License-Identifier: Apache-2.0
// The conntrack entries that must go with host ports, and those that must not.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { HostPort } from '../../../src/drivers/spec.ts'
import { flushFlowsAfter, flushFlowsBefore } from '../../../src/features/flows.ts'
import { hostPortsOf } from '../../../src/features/host-ports.ts'
import type { Machine } from '../../../src/process/machine.ts'
import { type Json, read } from '../call.ts'

let state: string
beforeAll(() => {
  state = mkdtempSync(`${tmpdir()}/trestle-flows-`)
  process.env['TRESTLE_STATE_DIR'] = state
})
afterAll(() => {
  delete process.env['TRESTLE_STATE_DIR']
  rmSync(state, { recursive: true })
})

const ips = [{ address: '10.0.0.2/24' }, { address: 'fd00::2/64' }]
const portsOf = (...portMappings: readonly Json[]) =>
  hostPortsOf(read({ runtimeConfig: { portMappings } }), ips, { link: 'cni0', isOwnLink: false })?.ports ?? []
const tcp = { hostPort: 8080, containerPort: 80 }
const udp = { ...tcp, protocol: 'udp' }
const ports = portsOf(tcp, udp, { ...udp, hostPort: 9, hostIP: '192.0.2.9' })

/** As conntrack 1.4.7 prints them. */
const listed = `udp      17 29 src=192.0.2.7 dst=192.0.2.1 sport=5555 dport=8080 [UNREPLIED] src=192.0.2.1 dst=192.0.2.7 sport=8080 dport=5555 mark=0 use=1
udp      17 119 src=10.0.0.3 dst=198.51.100.1 sport=4444 dport=8080 src=198.51.100.1 dst=192.0.2.1 sport=8080 dport=4444 [ASSURED] mark=0 use=1
udp      17 3 src=192.0.2.7 dst=192.0.2.1 sport=5555 dport=9 [UNREPLIED] src=192.0.2.1 dst=192.0.2.7 sport=9 dport=5555 mark=0 use=1
udp      17 3 src=192.0.2.7 dst=192.0.2.9 sport=5555 dport=9 [UNREPLIED] src=192.0.2.9 dst=192.0.2.7 sport=9 dport=5555 mark=0 use=1
`
const listed6 =
  'udp      17 3 src=2001:db8::7 dst=2001:db8::1 sport=5555 dport=8080 [UNREPLIED] src=2001:db8::1 dst=2001:db8::7 sport=8080 dport=5555 mark=0 use=1\n'
const local = new Set(['127.0.0.1', '192.0.2.1', '2001:db8::1'])

/** What conntrack is asked to list and to delete. */
async function playedOf(flush: typeof flushFlowsBefore, own: readonly HostPort[], isQuiet = false) {
  const [lists, deletes]: [string[], string[]] = [[], []]
  const outputOf = (args: readonly string[]) => {
    const is6 = args.includes('ipv6')
    if (args[0] === '-L') {
      lists.push(args.slice(1).join(' '))
      return isQuiet ? '' : is6 ? listed6 : listed
    }
    deletes.push(args.join(' '))
    return ''
  }
  const ask: Machine['ask'] = async ({ args }) =>
    ({ code: 0, signal: undefined, stdout: outputOf(args), stderr: '' }) as never
  await flush({ ask } as Machine, own, () => local)
  return { lists, deletes }
}

describe('stale flows', () => {
  it('before an ADD go to the port on an address of the node, or on its own; one listing for each family', async () => {
    const { lists, deletes } = await playedOf(flushFlowsBefore, ports)
    expect(lists).toEqual(['-f ipv4 -p udp', '-f ipv6 -p udp --orig-port-dst 8080'])
    expect(deletes).toEqual([
      '-D -f ipv4 -p udp --orig-port-dst 8080 --orig-dst 192.0.2.1',
      '-D -f ipv4 -p udp --orig-port-dst 9 --orig-dst 192.0.2.9',
      '-D -f ipv6 -p udp --orig-port-dst 8080 --orig-dst 2001:db8::1',
    ])
  })

  it('are listed for each protocol', async () => {
    const { lists, deletes } = await playedOf(flushFlowsBefore, portsOf(udp, { ...udp, protocol: 'sctp' }), true)
    expect(lists.filter((words) => words.includes('ipv4'))).toEqual([
      '-f ipv4 -p udp --orig-port-dst 8080',
      '-f ipv4 -p sctp --orig-port-dst 8080',
    ])
    expect(deletes).toEqual([])
  })

  it('after a DEL went into the pod, however many ports it had', async () => {
    const { deletes } = await playedOf(flushFlowsAfter, ports)
    expect(deletes).toEqual(['-D -f ipv4 -p udp --reply-src 10.0.0.2', '-D -f ipv6 -p udp --reply-src fd00::2'])
  })

  it('are never of TCP', async () => {
    for (const flush of [flushFlowsBefore, flushFlowsAfter])
      expect(await playedOf(flush, portsOf(tcp))).toEqual({ lists: [], deletes: [] })
  })
})
