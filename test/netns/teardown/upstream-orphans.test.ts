// SPDX-License-Identifier: Apache-2.0
// What another CNI plugin left on a node: a bridge with its address, veths on it, rules, reservations. trestle starts, or its
// error names the cause and a command that helps. The orphans are those of the upstream plugins, made by them.

import { rmSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { answer, ask, askOnce } from '../../support/ask.ts'
import { missingCnitool, openRuntime, type Runtime } from '../../support/cnitool.ts'
import { type Finished, type Host, openHost } from '../../support/host.ts'
import { runLine } from '../../support/outcome.ts'
import { addUplink, outside, pings } from '../../support/traffic/traffic.ts'

const missing = missingCnitool(['bridge', 'host-local', 'portmap'])
if (missing !== undefined) console.warn(missing)

const name = 'pods'
const portMappings = (hostPort: number) => ({ portMappings: [{ hostPort, containerPort: 80, protocol: 'tcp' }] })
const list = (...plugins: readonly object[]) => ({ cniVersion: '1.0.0', name, plugins })
const upstream = list(
  {
    type: 'bridge',
    bridge: 'cni0',
    isDefaultGateway: true,
    ipMasq: true,
    ipMasqBackend: 'iptables',
    ipam: { type: 'host-local', ranges: [[{ subnet: '10.80.0.0/29' }]] },
  },
  { type: 'portmap', backend: 'iptables', capabilities: { portMappings: true } },
)
const ours = (podcidr: string, more: object = {}) =>
  list({ type: 'trestle', podcidr, capabilities: { portMappings: true }, ...more })

describe.skipIf(missing !== undefined)('what the upstream plugins left', () => {
  let host: Host
  let runtime: Runtime
  let internet: string
  let stop: () => void
  beforeEach(() => {
    host = openHost()
    internet = addUplink(host)
    runtime = openRuntime(host, name)
    stop = () => {}
  })
  afterEach(() => {
    stop()
    runtime.close()
    host.close()
  })

  function add(label: string, hostPort: number): { done: Finished; netns: string } {
    const netns = host.pod(label)
    return { done: runtime.tool('add', netns, portMappings(hostPort)), netns }
  }
  function succeed(label: string, hostPort: number): string {
    const { done, netns } = add(label, hostPort)
    expect(done.code, done.stdout + done.stderr).toBe(0)
    return netns
  }
  /** Pods of the upstream list that end without a DEL; with `isForgotten`, libcni remembers none of them either. */
  function leave(count: number, isForgotten = true): void {
    runtime.write(upstream)
    const pods = Array.from({ length: count }, (_, at) => succeed(`old${at}`, 8080 + at))
    for (const pod of pods) host.removePod(pod)
    if (isForgotten) rmSync('/var/lib/cni/results', { recursive: true, force: true })
    // A younger reservation may be of an ADD at work.
    host.run('find', ['/var/lib/cni/networks', '-type', 'f', '-exec', 'touch', '-d', '10 minutes ago', '{}', '+'])
  }
  /** The text of the error that cnitool shows, and the command in it that starts so. */
  function errorOf({ done }: { done: Finished }, start: string): { text: string; command: string } {
    expect(done.code).not.toBe(0)
    const text = done.stdout + done.stderr
    return { text, command: new RegExp(`${start}[^;"\\n]*`).exec(text)?.[0] ?? '' }
  }
  const gateways = () => host.run('ip', ['-4', '-br', 'addr', 'show', 'dev', 'cni0']).stdout
  const type = (command: string) => runLine(host, command)

  it('a bridge with another address and no ports: the error names both and the command (cni#306: a wrong bridge address stays)', () => {
    leave(1)
    runtime.write(ours('10.81.0.0/24'))
    const { text, command } = errorOf(add('new', 9000), 'ip link del ')
    expect(text).toMatch(/10\.81\.0\.1\/24.*10\.80\.0\.1\/29/s)
    expect(text).toContain('nothing is plugged into cni0, which trestle did not make')
    type(command)
    expect(pings(host, succeed('next', 9000), outside.far4)).toBe(true)
    expect(gateways()).toContain('10.81.0.1/24')
  })

  it('a bridge with another address and ports: the error names those too, and the command for the address (cni#306: a wrong bridge address stays)', () => {
    leave(1)
    for (const args of ['add vethold0 type veth peer name vethold1', 'set vethold0 master cni0 up', 'set vethold1 up'])
      type(`ip link ${args}`)
    runtime.write(ours('10.81.0.0/24'))
    const { text, command } = errorOf(add('new', 9000), 'ip addr del ')
    expect(text).toContain('plugged into cni0: vethold0')
    type(command)
    expect(pings(host, succeed('next', 9000), outside.far4)).toBe(true)
  })

  it('a bridge with the same address is used, and stale veths on it are in nobody’s way', () => {
    leave(1)
    for (const args of ['add vethold0 type veth peer name vethold1', 'set vethold0 master cni0 up', 'set vethold1 up'])
      type(`ip link ${args}`)
    runtime.write(ours('10.80.0.0/29'))
    expect(pings(host, succeed('new', 9000), outside.far4)).toBe(true)
  })

  it('the rule of a dead pod’s host port takes the port’s traffic, until adopt clears it', async () => {
    leave(1)
    runtime.write(ours('10.80.0.0/29'))
    const pod = succeed('new', 8080)
    stop = await answer(pod, 80)
    const target = [{ protocol: 'tcp', address: outside.node4, port: 8080 }] as const
    expect(askOnce(host, internet, target)).toEqual([''])
    expect(runtime.command('adopt', '--apply', runtime.file).code).toBe(0)
    expect(ask(host, internet, target)).toEqual(['192.0.2.2'])
    expect(host.run('iptables-save', []).stdout).not.toMatch(/^-A CNI-DN|10\.80\.0\.2\/29/m)
  })

  it('reservations of dead pods fill the range: the error says so, and adopt frees them', () => {
    leave(5)
    runtime.write(ours('10.80.0.0/29'))
    const { text, command } = errorOf(add('new', 9000), 'trestle adopt')
    expect(text).toContain(`5 were reserved by host-local, in /var/lib/cni/networks/${name}`)
    expect(command).toContain('trestle adopt --apply')
    expect(runtime.command('adopt', '--apply', runtime.file).code).toBe(0)
    expect(pings(host, succeed('next', 9000), outside.far4)).toBe(true)
  })
})
