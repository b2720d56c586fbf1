// SPDX-License-Identifier: Apache-2.0
// What another CNI plugin left on a node: a bridge with its address, veths on it, rules, reservations. trestle starts, or its
// error names the cause and a command that helps. The orphans are those of the upstream plugins, made by them.

import { readdirSync, readFileSync, rmSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { missingCnitool, openRuntime, type Runtime } from '../../support/cnitool.ts'
import { type Finished, type Host, openHost } from '../../support/host.ts'
import { expectSilent, runLine } from '../../support/outcome.ts'
import { addUplink, outside, pings } from '../../support/traffic/traffic.ts'

const missing = missingCnitool(['bridge', 'host-local', 'portmap'])
if (missing !== undefined) console.warn(missing)

const name = 'pods'
const leases = `/var/lib/cni/networks/${name}`
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
  beforeEach(() => {
    host = openHost()
    addUplink(host)
    runtime = openRuntime(host, name)
  })
  afterEach(() => {
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
  /** A pod of the upstream list that ends without a DEL. */
  function leave(): void {
    runtime.write(upstream)
    host.removePod(succeed('old', 8080))
    rmSync('/var/lib/cni/results', { recursive: true, force: true })
  }
  /** The text of the error that cnitool shows, and the command in it that starts so. */
  function errorOf({ done }: { done: Finished }, start: string): { text: string; command: string } {
    expect(done.code).not.toBe(0)
    const text = done.stdout + done.stderr
    return { text, command: new RegExp(`${start}[^;"\\n]*`).exec(text)?.[0] ?? '' }
  }
  const gateways = () => host.run('ip', ['-4', '-br', 'addr', 'show', 'dev', 'cni0']).stdout
  const type = (command: string) => runLine(host, command)
  const plugIn = () => {
    for (const args of ['add vethold0 type veth peer name vethold1', 'set vethold0 master cni0 up', 'set vethold1 up'])
      type(`ip link ${args}`)
  }

  it.each([
    ['no ports', false],
    ['ports', true],
  ])(
    'a bridge with another address and %s: the error names both, and a command that helps (cni#306)',
    (_, hasPorts) => {
      leave()
      if (hasPorts) plugIn()
      runtime.write(ours('10.81.0.0/24'))
      const { text, command } = errorOf(add('new', 9000), 'ip addr del ')
      expect(text).toMatch(/10\.81\.0\.1\/24.*10\.80\.0\.1\/29/s)
      type(command)
      expect(pings(host, succeed('next', 9000), outside.far4)).toBe(true)
      expect(gateways()).toContain('10.81.0.1/24')
    },
  )

  it('a bridge with the same address is used, and stale veths on it are in nobody’s way', () => {
    leave()
    plugIn()
    runtime.write(ours('10.80.0.0/29'))
    expect(pings(host, succeed('new', 9000), outside.far4)).toBe(true)
  })

  it('a pod that lives is given back its address by the DEL, which touches neither its link nor its rules', () => {
    runtime.write(upstream)
    const netns = succeed('old', 8080)
    const [address = ''] = readdirSync(leases).filter((file) => file.startsWith('10.80.'))
    const [id = ''] = readFileSync(`${leases}/${address}`, 'utf8').split('\r\n')
    const rest = () => [
      host.run('iptables-save', []).stdout.replace(/^[#:].*\n/gm, ''),
      host.inPod(netns, 'ip', ['-o', 'addr']).stdout,
    ]
    const before = rest()
    expectSilent(host.cni('DEL', { ...ours('10.80.0.0/29').plugins[0], name }, { id, netns }))
    expect(readdirSync(leases)).not.toContain(address)
    expect(rest()).toEqual(before)
  })
})
