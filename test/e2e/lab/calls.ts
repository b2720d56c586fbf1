// SPDX-License-Identifier: Apache-2.0
// trestle's verbs on a private machine, as a runtime calls them, and TCP between its namespaces.
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { expect } from 'vitest'
import type { Lab, Ran } from './lab.ts'

/** Addresses of the private machine's uplink and of what is behind it (inside.sh). */
export const uplink = {
  node: ['192.0.2.10', '2001:db8:0:2::10'],
  outside: ['192.0.2.1', '2001:db8:0:2::1'],
} as const

export interface LabPod {
  readonly name: string
  readonly conf: object
  readonly result: object
  /** Without prefixes. */
  readonly addresses: readonly string[]
  /** The veth's end on the machine. */
  readonly hostLink: string
}

/** Where a server listens; without `netns` on the machine itself. */
export interface Socket {
  readonly netns?: string
  readonly port: number
}

/** Runs a program that must succeed; its standard output. */
export async function must(lab: Lab, line: string, input = ''): Promise<string> {
  const [file = '', ...args] = line.split(' ')
  const { stdout, stderr, exitCode } = await lab.run(file, args, { input })
  expect(exitCode, `${line}: ${stderr} ${stdout}`).toBe(0)
  return stdout
}

/** One call. The container id is the name of the pod's namespace. */
export function call(lab: Lab, verb: string, { conf, name }: { conf: object; name: string }): Promise<Ran> {
  const env = {
    CNI_COMMAND: verb,
    CNI_CONTAINERID: name,
    CNI_NETNS: `/run/netns/${name}`,
    CNI_IFNAME: 'eth0',
    CNI_PATH: '/opt/cni/bin',
  }
  return lab.run('/opt/cni/bin/trestle', [], { input: JSON.stringify(conf), env })
}

/** ADD that must succeed, for a pod with a namespace of its own. */
export async function attach(lab: Lab, conf: object, name: string): Promise<LabPod> {
  await must(lab, `ip netns add ${name}`)
  await must(
    lab,
    `nsenter --net=/run/netns/${name} sh ${fileURLToPath(new URL('../../support/node-settings.sh', import.meta.url))}`,
  )
  const { stdout, stderr, exitCode } = await call(lab, 'ADD', { conf, name })
  expect(exitCode, `ADD ${name}: ${stdout} ${stderr}`).toBe(0)
  const result = JSON.parse(stdout) as { ips: { address: string }[]; interfaces: { name: string }[] }
  const addresses = result.ips.map(({ address }) => address.replace(/\/.*/, ''))
  const hostLink = result.interfaces.find((link) => link.name.startsWith('veth'))?.name ?? ''
  return { name, conf, result, addresses, hostLink }
}

/** CHECK with the result of ADD; what it printed, empty when all is as it should be. */
export async function check(lab: Lab, { conf, name, result }: LabPod): Promise<string> {
  return (await call(lab, 'CHECK', { conf: { ...conf, prevResult: result }, name })).stdout
}

/** DEL that must succeed in silence, and the end of the pod's namespace. */
export async function teardown(lab: Lab, { conf, name, result }: LabPod): Promise<void> {
  const done = await call(lab, 'DEL', { conf: { ...conf, prevResult: result }, name })
  expect([done.exitCode, done.stdout], `DEL ${name}: ${done.stdout} ${done.stderr}`).toEqual([0, ''])
  await must(lab, `ip netns delete ${name}`)
}

const inside = (netns: string | undefined) => (netns === undefined ? [] : ['ip', 'netns', 'exec', netns])
const isIpv6 = (address: string) => address.includes(':')

/** A server that answers `NAME ADDRESS`: its name, and where it sees its client. It ends with the machine. */
export async function serve(lab: Lab, { netns = '', port }: Socket, name: string): Promise<void> {
  const ran = await lab.run('bash', [fileURLToPath(new URL('serve.sh', import.meta.url)), name, `${port}`, netns])
  expect(ran.exitCode, `server ${name} on ${port}: ${ran.stderr}`).toBe(0)
}

/** What the server at an address says to a client in `from`; empty when it does not answer: asked again for 20 s. */
export async function asks(lab: Lab, from: string | undefined, to: { address: string; port: number }): Promise<string> {
  const end = performance.now() + 20_000
  for (;;) {
    const said = await asksOnce(lab, from, to)
    if (said !== '' || performance.now() > end) return said
    await sleep(200)
  }
}

/** The same for one who should not be answered: asked once, with 2 s. */
export async function asksOnce(
  lab: Lab,
  from: string | undefined,
  to: { address: string; port: number },
): Promise<string> {
  const { address, port } = to
  const target = isIpv6(address) ? `TCP6:[${address}]:${port}` : `TCP4:${address}:${port}`
  const args = ['timeout', '10', 'socat', '-u', `${target},connect-timeout=2`, '-']
  const [file = '', ...rest] = [...inside(from), ...args]
  return (await lab.run(file, rest)).stdout.trim().replace(/[[\]]/g, '')
}

/** Who answers a pod at the outside's addresses, on port 90: the server's name, '' for nobody. `ask`: how it is asked. */
export async function answersFromOutside(lab: Lab, pod: string, ask = asks): Promise<readonly (string | undefined)[]> {
  const said = await Promise.all(uplink.outside.map((address) => ask(lab, pod, { address, port: 90 })))
  return said.map((answer) => answer.split(' ')[0])
}
