// SPDX-License-Identifier: Apache-2.0
// What `trestle plan` prints is what an ADD and a DEL run: every process that takes input or changes flows, byte for
// byte, per tool and in order.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { openFaults, type ToolCall } from '../../support/faults/faults.ts'
import { type Host, openHost, trestle } from '../../support/host.ts'
import { answer, installIpam } from '../../support/ipam-plugin.ts'
import { runLine } from '../../support/outcome.ts'
import { lastNames } from '../../support/state-layout.ts'

interface Batch {
  readonly tool: string
  readonly in: 'host' | 'pod'
  readonly stdin?: string
  readonly evidence?: object
}

let host: Host
let tools: ReturnType<typeof openFaults>

beforeEach(() => {
  host = openHost()
  for (const words of ['link add up0 type veth peer name up1', 'link set up0 up'])
    expect(host.run('ip', words.split(' ')).code).toBe(0)
  tools = openFaults()
})

afterEach(() => {
  host.close()
  tools.close()
})

const net = (more: object) => ({ cniVersion: '1.1.0', name: 'n', type: 'trestle', ...more })
const everything = {
  bandwidth: { ingressRate: 8_000_000, egressRate: 4_000_000, egressBurst: 800_000 },
  tuning: { sysctl: { 'net.core.somaxconn': '200' }, txQLen: 500 },
  runtimeConfig: {
    portMappings: [
      { hostPort: 8080, containerPort: 80, protocol: 'tcp' },
      { hostPort: 5353, containerPort: 53, protocol: 'udp' },
    ],
  },
}
const ranges = [[{ subnet: '10.1.0.0/24' }], [{ subnet: 'fd00:1::/64' }]]
const ptp = { mode: 'ptp', ipMasq: true, ipam: { type: 'host-local', ranges } }

const modes: readonly (readonly [string, object])[] = [
  ['bridge', net({ podcidr: '10.9.0.0/24' })],
  [
    'bridge, dual-stack, with everything',
    net({ podcidr: ['10.9.0.0/24', 'fd00:9::/64'], macspoofchk: true, ...everything }),
  ],
  ['bridge, without addresses', net({})],
  ['ptp', net(ptp)],
  ['ptp, with everything', net({ ...ptp, ...everything })],
  [
    'macvlan',
    net({ mode: 'macvlan', master: 'up0', podcidr: ['10.9.0.0/24', 'fd00:9::/64'], tuning: everything.tuning }),
  ],
  [
    'host-device',
    net({ mode: 'host-device', device: 'up0', podcidr: ['10.9.0.0/24', 'fd00:9::/64'], tuning: everything.tuning }),
  ],
  ['loopback', net({ mode: 'loopback' })],
]

describe.each(modes)('mode %s', (_, conf) => {
  it('runs what the plans of its first ADD and of its DEL print', () => {
    const netns = host.pod('a')
    expect(ranBy('ADD', conf, netns)).toEqual(planned(conf, []))
    expect(ranBy('DEL', conf, netns)).toEqual(planned(conf, ['--del']))
  })

  it('runs what the plan of a later ADD prints, also after a flush of the rules', () => {
    expect(host.cni('ADD', conf, { id: 'other', netns: host.pod('other') }).code).toBe(0)
    expect(host.cni('DEL', conf, { id: 'other' }).code).toBe(0)
    forgetLastGiven()
    const [a, b] = [host.pod('a'), host.pod('b')]
    expect(ranBy('ADD', conf, a)).toEqual(planned(conf, ['--later']))
    expect(host.cni('DEL', conf, { id: 'example', netns: a }).code).toBe(0)
    forgetLastGiven()
    expect(host.run('nft', ['flush', 'ruleset']).code).toBe(0)
    expect(ranBy('ADD', conf, b)).toEqual(planned(conf, ['--flushed']))
  })
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
  const interfaces = [{ name: 'br0' }, { name: 'end0' }, { name: 'eth0', mac: '0a:58:0a:09:00:02', sandbox: netns }]
  const lines = [
    'link add br0 type bridge',
    `link add end0 type veth peer name eth0 address ${interfaces[2]?.mac} netns ${netns.slice('/run/netns/'.length)}`,
    'link set end0 up master br0',
    'addr add 10.9.0.1/24 dev br0',
    'link set br0 up',
  ]
  for (const line of lines) runLine(host, `ip ${line}`)
  const prevResult = { cniVersion: '1.1.0', interfaces, ips: [{ address: '10.9.0.2/24', interface: 2 }], routes: [] }
  const conf = net({ mode: 'chained', ...everything, ipMasq: true, prevResult })
  expect(ranBy('ADD', conf, netns)).toEqual(planned(conf, []))
  expect(ranBy('DEL', conf, netns)).toEqual(planned(conf, ['--del']))
})

/** The first address is the next one again, as in a plan. */
function forgetLastGiven(): void {
  host.run('find', [host.stateDir, '-name', lastNames, '-delete'])
}

/** What a call gave its tools: by command, the input of each process in their order. */
function ranBy(verb: 'ADD' | 'DEL', conf: object, netns: string, path?: string): Readonly<Record<string, unknown>> {
  tools.reset()
  const call = { id: 'example', netns, env: { PATH: tools.path }, ...(path ? { path } : {}) }
  const { code, stdout } = host.cni(verb, conf, call)
  expect({ code, ...(code === 0 ? {} : { stdout }) }).toEqual({ code: 0 })
  return byCommand(
    tools
      .seen()
      .filter(isChange)
      .map((seen) => [commandOf(seen), seen.lines.join('\n')]),
  )
}

/** Looks are not printed: they take questions, and change nothing. */
function isChange({ args, lines, tool }: ToolCall): boolean {
  if (tool === 'conntrack') return true
  // The test's own way into the node.
  if (args.includes('/run/netns/')) return false
  return lines.length > 0 && !args.includes('-force')
}

/** The batch file of several deletions has a name of its own. */
function commandOf({ tool, args }: ToolCall): string {
  return tool === 'conntrack' ? `conntrack ${args}` : `${tool} ${args}`
}

function planned(conf: object, options: readonly string[]): Readonly<Record<string, unknown>> {
  const finished = host.run(trestle, ['plan', ...options, '-o', 'json'], JSON.stringify(conf))
  expect(finished.stderr).toBe('')
  const { batches, plans } = JSON.parse(finished.stdout) as { batches: Batch[]; plans: readonly PlanJson[] }
  const inputs = batches.flatMap((batch) => (batch.stdin ? [[commandFor(batch), batch.stdin.trimEnd()] as const] : []))
  const flows = plans
    .flatMap(({ stages }) => stages.flatMap(({ run }) => (run.kind === 'flows' ? [run] : [])))
    .flatMap(({ verb, flows: all }) => all.map((each) => [flowCommand(verb, each), ''] as const))
  return byCommand([...inputs, ...flows])
}

interface FlowRun {
  readonly kind: 'flows'
  readonly verb: 'list' | 'delete'
  readonly flows: readonly { readonly family: number; readonly selections: readonly (readonly string[])[] }[]
}
interface PlanJson {
  readonly stages: readonly { readonly run: FlowRun | { readonly kind: 'batch' } }[]
}

function flowCommand(verb: string, { family, selections }: FlowRun['flows'][number]): string {
  return `conntrack ${verb === 'list' ? '-L' : '-D'} -f ipv${family} ${selections[0]?.join(' ')}`
}

function commandFor({ tool, in: place, evidence }: Batch): string {
  const commands: Readonly<Record<string, string>> = {
    ip: 'ip -j -batch -',
    ip6: 'ip -6 -j -batch -',
    tc: 'tc -batch -',
    bridge: 'bridge -batch -',
    sysctl: 'sysctl -q -p -',
    nft: evidence === undefined ? 'nft -t -f -' : 'nft -e -t -f -',
  }
  const command = commands[tool] ?? tool
  return place === 'pod' ? `nsenter --net=/proc/self/fd/3 -- ${command}` : command
}

/** A DEL takes a link group with its process id. Elements of two tables are said side by side, in any order. */
function byCommand(inputs: readonly (readonly [string, string])[]): Readonly<Record<string, unknown>> {
  const plain = (text: string) => text.replace(/group 0x[0-9a-f]+|group \d{6,}/g, 'group OWN')
  const isBeside = (text: string) => text.startsWith('add element')
  const inOrder = (a: string, b: string) => (isBeside(a) && isBeside(b) ? a.localeCompare(b) : 0)
  const grouped = Map.groupBy(inputs, ([command]) => command)
  return Object.fromEntries(
    [...grouped].map(([command, all]) => [command, all.map(([, text]) => plain(text)).sort(inOrder)]),
  )
}
