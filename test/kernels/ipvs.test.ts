// SPDX-License-Identifier: Apache-2.0
// kube-proxy's mode ipvs gives the node every service address (on kube-ipvs0), so that a host port without a host
// address also catches that port of a service; docs/host.md says so. Client and backend are on one bridge, where answers
// pass IPVS by br_netfilter alone, so kube-proxy wants bridge-nf-call-iptables on.

import { execaSync } from 'execa'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { answer, ask, filterBridged, targetsAt } from '../support/ask.ts'
import { attach, netConf } from '../support/traffic/pods.ts'
import { outside } from '../support/traffic/traffic.ts'
import { openUplinkedHost, type UplinkedHost } from '../support/traffic/uplinked-host.ts'

let host: UplinkedHost
beforeEach(() => {
  execaSync('modprobe', ['br_netfilter'])
  host = openUplinkedHost()
  filterBridged(host, true)
})
afterEach(() => host.close())

const service = '10.96.0.10'
const tcp = (address: string, port: number) => targetsAt([address], port).filter((each) => each.protocol === 'tcp')

function addService(port: number, backend: string): void {
  const steps = [
    ['ip', 'link', 'add', 'kube-ipvs0', 'type', 'dummy'],
    ['ip', 'addr', 'add', `${service}/32`, 'dev', 'kube-ipvs0'],
    ['ipvsadm', '-A', '-t', `${service}:${port}`, '-s', 'rr'],
    // The module that has this key is loaded by the line before.
    ['sysctl', '-qw', 'net.ipv4.vs.conntrack=1'],
    ['ipvsadm', '-a', '-t', `${service}:${port}`, '-r', `${backend}:80`, '-m'],
  ]
  for (const [file = '', ...args] of steps) expect(host.run(file, args), args.join(' ')).toMatchObject({ code: 0 })
}

it('a service of IPVS answers pods; a host port with a host address leaves its port alone', async () => {
  const backend = attach(host, netConf(), { id: 'backend' })
  host.atClose(await answer(backend.netns, 80))
  addService(8080, backend.address)
  const pinned = { hostPort: 8080, containerPort: 81, protocol: 'tcp', hostIP: outside.node4 }
  const other = attach(host, netConf({ runtimeConfig: { portMappings: [pinned] } }), { id: 'other' })
  host.atClose(await answer(other.netns, 81))
  const client = attach(host, netConf(), { id: 'client' })
  expect(ask(host, client.netns, tcp(service, 8080))).toEqual([client.address])
  expect(ask(host, host.internet, tcp(outside.node4, 8080))).not.toContain('')
})

it('a host port without a host address catches the same port of a service, as docs/host.md says', async () => {
  const pod = attach(
    host,
    netConf({ runtimeConfig: { portMappings: [{ hostPort: 8080, containerPort: 80, protocol: 'tcp' }] } }),
  )
  host.atClose(await answer(pod.netns, 80))
  addService(8080, '10.240.0.99')
  expect(ask(host, host.internet, tcp(outside.node4, 8080))).not.toContain('')
  const client = attach(host, netConf(), { id: 'client' })
  expect(ask(host, client.netns, tcp(service, 8080))).toEqual([client.address])
})
