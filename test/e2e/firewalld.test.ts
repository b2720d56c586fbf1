// SPDX-License-Identifier: Apache-2.0
// A real firewalld beside trestle: pods and host ports work with hostAccept, through its reloads with `trestle
// restore`, and firewalld has no more of the bridge when the network is gone.
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { asks, asksOnce, attach, check, type LabPod, must, serve, teardown, uplink } from './lab/calls.ts'
import { type Lab, missingParts, openLab, prepareLab } from './lab/lab.ts'

const missing = missingParts(['debian/firewalld'], 'firewalld')

const hostPort = 18080
const network = {
  cniVersion: '1.1.0',
  name: 'pods',
  type: 'trestle',
  podcidr: ['10.91.0.0/24', 'fd00:10:91::/64'],
  removeWhenEmpty: true,
}
const accepted = { ...network, firewall: {} }
const served = { ...accepted, runtimeConfig: { portMappings: [{ hostPort, containerPort: 80, protocol: 'tcp' }] } }

const ranges = ['10.92.0.0/24', 'fd00:10:92::/64']
const routed = { ...accepted, name: 'routed', mode: 'ptp', podcidr: ranges }

/** firewalld's default zone, and the zone of the uplink. */
const zones = [
  ['public', 'public'],
  ['block', 'external'],
] as const

describe.skipIf(missing.length > 0)('firewalld', () => {
  let lab: Lab
  beforeAll(async () => {
    const dir = await prepareLab({})
    const up = fileURLToPath(new URL('lab/firewalld-up.sh', import.meta.url))
    const command = ['bash', up, dir]
    lab = await openLab(dir, { command, ready: 'firewalld ready', parts: ['debian/firewalld'] })
    await serve(lab, { netns: 'outside', port: 90 }, 'outside')
  })
  afterAll(async () => {
    await lab?.close()
  })

  const firewall = (...args: string[]) => must(lab, ['firewall-cmd', ...args].join(' '))
  const zoneOf = async (link: string) =>
    (await lab.run('firewall-cmd', [`--get-zone-of-interface=${link}`])).stdout.trim()
  const rules = () => must(lab, 'nft -s list table inet firewalld')
  const active = () => firewall('--get-active-zones')
  const ourRules = () => must(lab, 'nft -s list table inet trestle')
  const configured = () => must(lab, 'grep -r . /etc/firewalld')

  async function setZones(defaultZone: string, uplinkZone: string): Promise<void> {
    await firewall(`--set-default-zone=${defaultZone}`)
    await firewall('--permanent', `--zone=${uplinkZone}`, '--change-interface=up0')
    await firewall('--reload')
  }

  /** Server and client; the server has the host port. */
  async function twoPods(): Promise<readonly [LabPod, LabPod]> {
    const [server, client] = [await attach(lab, served, 'server'), await attach(lab, accepted, 'client')]
    await serve(lab, { netns: 'server', port: 80 }, 'server')
    return [server, client]
  }

  /** What does not answer: outside and pod, by address and host port, from pod, node and outside; both families. */
  async function silent([server, client]: readonly [LabPod, LabPod], ask = asks): Promise<string[]> {
    const ways = [
      ...uplink.outside.map((address) => ['outside', client.name, address, 90] as const),
      ...server.addresses.map((address) => ['pod', client.name, address, 80] as const),
      ...server.addresses.map((address) => ['pod', undefined, address, 80] as const),
      ...[client.name, server.name, 'outside', undefined].flatMap((from) =>
        uplink.node.map((address) => ['host port', from, address, hostPort] as const),
      ),
    ]
    const said = await Promise.all(
      ways.map(async ([what, from, address, port]) => {
        const answer = await ask(lab, from, { address, port })
        return answer === '' ? [`${what} at ${address} from ${from ?? 'the node'}`] : []
      }),
    )
    return said.flat()
  }

  const zonesOfRanges = () =>
    Promise.all(ranges.map((range) => lab.run('firewall-cmd', [`--get-zone-of-source=${range}`])))

  async function working(pods: readonly [LabPod, LabPod]): Promise<void> {
    expect(await zoneOf('cni0')).toBe('trusted')
    expect(await silent(pods)).toEqual([])
  }
  async function removed(pods: readonly LabPod[]): Promise<void> {
    for (const pod of pods) await teardown(lab, pod)
    expect(await zoneOf('cni0')).not.toBe('trusted')
    expect(await rules()).not.toContain('cni0')
  }

  describe.each(zones)('with default zone %s and the uplink in %s', (defaultZone, uplinkZone) => {
    beforeAll(() => setZones(defaultZone, uplinkZone))

    it('pods and host ports work, and firewalld is as it was when the network is gone', async () => {
      const before = [await active(), await configured()]
      const pods = await twoPods()
      await working(pods)
      for (const pod of pods) expect(await check(lab, pod)).toBe('')
      await removed(pods)
      expect([await active(), await configured()]).toEqual(before)
    })
  })

  describe('that drops what is in no zone', () => {
    beforeAll(async () => {
      await setZones('drop', 'public')
      for (const name of ['iptables', 'ip6tables']) await must(lab, `sysctl -qw net.bridge.bridge-nf-call-${name}=1`)
    })

    it.each(['--reload', '--complete-reload'])(
      'forgets the bridge at a %s, and restore puts it back',
      async (reload) => {
        const pods = await twoPods()
        const before = await ourRules()
        await firewall(reload)
        expect(await zoneOf('cni0')).toBe('')
        expect(await silent(pods, asksOnce)).toContain(`outside at ${uplink.outside[0]} from client`)
        await must(lab, '/opt/cni/bin/trestle restore')
        await working(pods)
        expect(await ourRules()).toBe(before)
        await removed(pods)
      },
    )

    it('lets routed pods out, in by host port and to each other, again after a reload, until the network is gone', async () => {
      const before = await active()
      const server = await attach(lab, { ...routed, runtimeConfig: served.runtimeConfig }, 'server')
      const client = await attach(lab, routed, 'client')
      await serve(lab, { netns: 'server', port: 80 }, 'server')
      expect((await zonesOfRanges()).map(({ stdout }) => stdout.trim())).toEqual(['trusted', 'trusted'])
      expect(await silent([server, client])).toEqual([])
      expect(await check(lab, server)).toBe('')
      await firewall('--reload')
      expect(await silent([server, client], asksOnce)).toContain(`outside at ${uplink.outside[0]} from client`)
      await must(lab, '/opt/cni/bin/trestle restore')
      expect(await silent([server, client])).toEqual([])
      for (const pod of [server, client]) await teardown(lab, pod)
      expect(await active()).toBe(before)
      // firewalld keeps the chains of a zone that was in use.
      expect(await rules()).not.toMatch(/10\.92\.0\.|fd00:10:92:/)
    })

    it('gets nothing with hostAccept off, and gives back what it had before', async () => {
      const pods = await twoPods()
      const other = await attach(lab, { ...accepted, firewall: { hostAccept: 'off' } }, 'other')
      expect(await zoneOf('cni0')).toBe('')
      expect(await silent(pods, asksOnce)).toContain(`outside at ${uplink.outside[1]} from client`)
      await removed([...pods, other])
    })

    it('keeps the zone that the administrator gave the bridge', async () => {
      await firewall('--zone=internal', '--add-interface=cni0')
      const pods = await twoPods()
      expect(await zoneOf('cni0')).toBe('internal')
      for (const pod of pods) await teardown(lab, pod)
      expect(await zoneOf('cni0')).toBe('internal')
      await firewall('--zone=internal', '--remove-interface=cni0')
    })

    it('lets other nodes reach pods by their address when their range is a source of the trusted zone', async () => {
      const pods = await twoPods()
      await must(lab, `ip -n outside route replace 10.91.0.0/24 via ${uplink.node[0]}`)
      const to = { address: pods[0].addresses[0] ?? '', port: 80 }
      expect(await asksOnce(lab, 'outside', to)).toBe('')
      await firewall('--zone=trusted', '--add-source=192.0.2.0/24')
      expect(await asks(lab, 'outside', to)).toBe(`server ${uplink.outside[0]}`)
      await removed(pods)
      await firewall('--zone=trusted', '--remove-source=192.0.2.0/24')
    })
  })
})
