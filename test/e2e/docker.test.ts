// SPDX-License-Identifier: Apache-2.0
// A real dockerd beside trestle: pods and host ports work behind Docker's chains, through its restart, and where it starts
// after the pods with `trestle restore`. Its containers are reached as before, its rules are as it wrote them.
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { asks, asksOnce, attach, check, type LabPod, must, serve, teardown, uplink } from './lab/calls.ts'
import { type Lab, missingParts, openBareLab, peers, prepareLab } from './lab/lab.ts'

const missing = missingParts(['debian/docker', 'images/lab.tar'], 'docker containerd')

const hostPort = 18080
const network = {
  cniVersion: '1.1.0',
  name: 'pods',
  type: 'trestle',
  podcidr: ['10.93.0.0/24', 'fd00:10:93::/64'],
  removeWhenEmpty: true,
}
const accepted = { ...network, firewall: {} }
const served = { ...accepted, runtimeConfig: { portMappings: [{ hostPort, containerPort: 80, protocol: 'tcp' }] } }
/** For what a loaded machine takes its time for. */
const patient = { timeout: 30_000, interval: 200 }
const saves = ['iptables-save', 'ip6tables-save']
const ownRule = /^-A (\S+) .*--comment "?trestle accept 0x1000"? -j ACCEPT$/

describe.skipIf(missing.length > 0)('Docker', () => {
  let lab: Lab
  beforeAll(async () => {
    lab = await openBareLab(await prepareLab({}), ['debian/docker'])
    await serve(lab, { netns: 'outside', port: 90 }, 'outside')
    for (const name of ['iptables', 'ip6tables']) await must(lab, `sysctl -qw net.bridge.bridge-nf-call-${name}=1`)
  })
  afterAll(async () => {
    await lab?.close()
  })

  const start = () => must(lab, `bash ${fileURLToPath(new URL('lab/docker-start.sh', import.meta.url))} ${lab.dir}`)
  async function stop(): Promise<void> {
    const pid = (await must(lab, 'cat /run/docker.pid')).trim()
    await must(lab, `kill ${pid}`)
    await must(lab, `timeout 50 tail --pid=${pid} -f /dev/null`)
  }

  /** All iptables rules, as lines, without counters. */
  async function rules(): Promise<string[]> {
    const saved = await Promise.all(saves.map((save) => must(lab, save)))
    return saved.flatMap((text) => text.split('\n').map((line) => line.replace(/^#.*| \[\d+:\d+\]$/g, '')))
  }
  const others = async () => (await rules()).filter((line) => !ownRule.test(line))
  const ours = async () => (await rules()).filter((line) => ownRule.test(line))

  async function twoPods(): Promise<readonly [LabPod, LabPod]> {
    const pods = [await attach(lab, served, 'server'), await attach(lab, accepted, 'client')] as const
    await serve(lab, { netns: 'server', port: 80 }, 'server')
    return pods
  }

  /** What does not answer, of pods and outside. */
  async function silent([server, client]: readonly [LabPod, LabPod], ask = asks): Promise<string[]> {
    const ways = [
      ...uplink.outside.map((address) => [client.name, address, 90] as const),
      ...server.addresses.map((address) => [client.name, address, 80] as const),
      ...['outside', client.name, undefined].flatMap((from) =>
        uplink.node.map((address) => [from, address, hostPort] as const),
      ),
    ]
    const said = await Promise.all(
      ways.map(async ([from, address, port]) => {
        const answer = await ask(lab, from, { address, port })
        return answer === '' ? [`${address} ${port} from ${from ?? 'the node'}`] : []
      }),
    )
    return said.flat()
  }

  it('that starts after the pods cuts them off, and restore puts them back', async () => {
    const pods = await twoPods()
    expect(await silent(pods)).toEqual([])
    await start()
    // It leaves the IPv4 policy alone where forwarding is on already.
    expect(await silent(pods, asksOnce)).toContain(`${uplink.outside[1]} 90 from client`)
    const before = await rules()
    await must(lab, '/opt/cni/bin/trestle restore')
    expect(await silent(pods)).toEqual([])
    expect(await others()).toEqual(before)
    for (const pod of pods) await teardown(lab, pod)
    expect(await rules()).toEqual(before)
  })

  it('that restarts keeps the accepts behind its rules, and restore does not add to them', async () => {
    await must(lab, 'iptables -P FORWARD DROP')
    const before = await rules()
    const pods = await twoPods()
    const accepts = await ours()
    // Docker 20 has no chains for IPv6. The last rule of each FORWARD: behind all of Docker's.
    expect(accepts.map((line) => ownRule.exec(line)?.[1])).toEqual(['FORWARD', 'FORWARD'])
    expect(await others()).toEqual(before)
    expect(await silent(pods)).toEqual([])
    await stop()
    await start()
    expect(await silent(pods)).toEqual([])
    await must(lab, '/opt/cni/bin/trestle restore')
    expect(await ours()).toEqual(accepts)
    for (const pod of pods) expect(await check(lab, pod)).toBe('')
    for (const pod of pods) await teardown(lab, pod)
    expect(await rules()).toEqual(before)
  })

  it('has containers that reach outside and are reached by their published port, with pods there or not', async () => {
    await must(lab, `docker load --quiet --input ${peers}/images/lab.tar`)
    const server = '--entrypoint /bin/httpd lab.local/busybox:1 -f -p 80 -h /www'
    await must(lab, `docker run --detach --name web --publish 18090:80 ${server}`)
    const before = await rules()
    await working()
    const pods = await twoPods()
    await working()
    expect(await silent(pods)).toEqual([])
    await pinged(pods[0].addresses[0] ?? '')
    for (const pod of pods) await teardown(lab, pod)
    await working()
    expect(await rules()).toEqual(before)
    await must(lab, 'docker rm --force web')
  })

  /** The container is asked from outside, and asks there. */
  async function working(): Promise<void> {
    const args = `netns exec outside socat -t10 - TCP4:${uplink.node[0]}:18090`.split(' ')
    const said = async () => (await lab.run('ip', args, { input: 'GET / HTTP/1.0\r\n\r\n' })).stdout
    // Docker does not wait for the server in the container.
    await vi.waitFor(async () => expect(await said()).toContain('hello from a pod'), patient)
    await pinged(uplink.outside[0])
  }

  /** The container's ping is answered. */
  async function pinged(address: string): Promise<void> {
    await vi.waitFor(() => must(lab, `docker exec web ping -c1 -W2 ${address}`), patient)
  }
})
