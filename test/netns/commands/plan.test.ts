// SPDX-License-Identifier: Apache-2.0
// What `trestle plan` prints is what an ADD and a DEL run: every process that changes something, byte for byte, per
// tool.

import { afterEach, beforeEach, expect, it } from 'vitest'
import { openFaults, type ToolCall } from '../../support/faults/faults.ts'
import { type Host, openHost, trestle } from '../../support/host.ts'
import { answer, installIpam } from '../../support/ipam-plugin.ts'
import { runLine } from '../../support/outcome.ts'

let host: Host
/** Plans are made there: nothing has run. */
let other: Host
let tools: ReturnType<typeof openFaults>

beforeEach(() => {
  ;[host, other] = [openHost(), openHost()]
  for (const each of [host, other])
    for (const line of ['link add up0 type veth peer name up1', 'link set up0 up']) runLine(each, `ip ${line}`)
  tools = openFaults()
})

afterEach(() => {
  for (const each of [host, other, tools]) each.close()
})

const net = (more: object) => ({ cniVersion: '1.1.0', name: 'n', type: 'trestle', ...more })
const limits = {
  bandwidth: { ingressRate: 8_000_000, egressRate: 4_000_000, egressBurst: 800_000 },
  tuning: { sysctl: { 'net.core.somaxconn': '200' }, txQLen: 500 },
}
const everything = {
  ...limits,
  runtimeConfig: {
    portMappings: [
      { hostPort: 8080, containerPort: 80, protocol: 'tcp' },
      { hostPort: 5353, containerPort: 53, protocol: 'udp' },
    ],
  },
}
const ranges = [[{ subnet: '10.1.0.0/24' }], [{ subnet: 'fd00:1::/64' }]]
const ptp = { mode: 'ptp', ipMasq: true, ipam: { type: 'host-local', ranges } }
const podcidr = ['10.9.0.0/24', 'fd00:9::/64']

const modes: readonly (readonly [string, object])[] = [
  ['bridge', net({ podcidr: '10.9.0.0/24' })],
  ['bridge, dual-stack, with everything', net({ podcidr, macspoofchk: true, ...everything })],
  ['bridge, without addresses', net({})],
  ['ptp', net(ptp)],
  ['ptp, with everything', net({ ...ptp, ...everything })],
  ['macvlan', net({ mode: 'macvlan', master: 'up0', podcidr, tuning: limits.tuning })],
  ['host-device', net({ mode: 'host-device', device: 'up0', podcidr, tuning: limits.tuning })],
  ['loopback', net({ mode: 'loopback' })],
]

it.each(modes)('mode %s runs the plans of its first ADD and its DEL', (_, conf) => {
  const netns = host.pod('a')
  expect(ranBy('ADD', conf, netns)).toEqual(planned(conf, []))
  expect(ranBy('DEL', conf, netns)).toEqual(planned(conf, ['--del']))
})

it('runs the plans of an interface whose addresses come from another plugin', () => {
  const ipam = installIpam({
    ADD: answer('{"cniVersion":"1.1.0","ips":[{"address":"192.0.2.2/24","gateway":"192.0.2.1"}]}'),
  })
  try {
    const conf = net({ isDefaultGateway: true, ...everything, ipam: { type: 'scripted' } })
    const netns = host.pod('a')
    expect(ranBy('ADD', conf, netns, ipam.path)).toEqual(planned(conf, []))
    expect(ranBy('DEL', conf, netns, ipam.path)).toEqual(planned(conf, ['--del']))
    expect(ipam.calls()).toEqual(['ADD', 'DEL'])
  } finally {
    ipam.remove()
  }
})

it('runs the plans of a chained entry', () => {
  const netns = host.pod('a')
  const addresses = [{ address: '192.0.2.2/24', gateway: '192.0.2.1' }]
  const previous = {
    cniVersion: '1.0.0',
    name: 'previous',
    type: 'trestle',
    mode: 'ptp',
    ipam: { type: 'static', addresses },
  }
  const { code, stdout } = host.cni('ADD', previous, { id: 'example', netns })
  expect(code).toBe(0)
  const conf = net({ mode: 'chained', ...everything, ipMasq: true })
  const chained = { ...conf, prevResult: JSON.parse(stdout) as unknown }
  expect(ranBy('ADD', chained, netns)).toEqual(planned(conf, []))
  expect(ranBy('DEL', chained, netns)).toEqual(planned(conf, ['--del']))
})

/** What a call gave its tools: by command, the input of each process in their order. */
function ranBy(verb: 'ADD' | 'DEL', conf: object, netns: string, path?: string): Readonly<Record<string, unknown>> {
  tools.reset()
  const call = { id: 'example', netns, env: { PATH: tools.path }, ...(path ? { path } : {}) }
  const { code, stdout } = host.cni(verb, conf, call)
  expect({ code, ...(code === 0 ? {} : { stdout }) }).toEqual({ code: 0 })
  const changes = tools.seen().filter(isChange)
  return byCommand(changes.map(({ tool, args, lines }) => [`${tool} ${args}`, lines.join('\n')]))
}

/** Looks are not printed: they ask, and change nothing. */
function isChange({ args, lines, tool }: ToolCall): boolean {
  // The second is the test's own way into the node.
  return tool === 'conntrack' || (!args.includes('/run/netns/') && lines.length > 0 && !args.includes('-force'))
}

interface Batch {
  readonly command: string
  readonly stdin: string
}

function planned(conf: object, options: readonly string[]): Readonly<Record<string, unknown>> {
  const finished = other.run(trestle, ['plan', ...options, '-o', 'json'], JSON.stringify(conf))
  expect(finished.stderr).toBe('')
  const { batches } = JSON.parse(finished.stdout) as { batches: readonly Batch[] }
  const isTool = ({ command }: Batch) => /^(?:ip|nft|tc|bridge|sysctl|nsenter|conntrack) /.test(command)
  return byCommand(batches.filter(isTool).map(({ command, stdin }) => [command, stdin.trimEnd()]))
}

/** A DEL takes a link group with its process id. Tools run side by side, in any order. */
function byCommand(inputs: readonly (readonly [string, string])[]): Readonly<Record<string, unknown>> {
  const plain = (text: string) => text.replace(/group 0x[0-9a-f]+|group \d{6,}/g, 'group OWN')
  const grouped = Map.groupBy(inputs, ([command]) => command)
  return Object.fromEntries(
    [...grouped].map(([command, all]) => [command, all.map(([, text]) => plain(text)).toSorted()]),
  )
}
