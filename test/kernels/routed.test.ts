// SPDX-License-Identifier: Apache-2.0
// A whole pod network in mode ptp on a kernel without xt_*, ip_set*, br_netfilter and nft_compat, as the images of
// Enterprise Linux 10 are (https://github.com/kubernetes/kops/issues/18733). Run with --without of scripts/in-kernel.sh.

import { execaSync } from 'execa'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { expectNothingLeft } from '../support/allowance.ts'
import { answer, ask, targetsAt } from '../support/ask.ts'
import { snapshot } from '../support/host.ts'
import { expectSilent } from '../support/outcome.ts'
import { attach, later, netConf } from '../support/traffic/pods.ts'
import { outside, pings, seenBy, serve } from '../support/traffic/traffic.ts'
import { openUplinkedHost, type UplinkedHost } from '../support/traffic/uplinked-host.ts'

let host: UplinkedHost
beforeEach(() => {
  host = openUplinkedHost()
})
afterEach(() => host.close())

const conf = netConf({
  mode: 'ptp',
  podcidr: ['10.240.0.0/24', 'fd00:240::/64'],
  // Without a policy, which would keep routed pods apart.
  firewall: {},
  bandwidth: { ingressRate: 100_000_000, ingressBurst: 10_000_000, egressRate: 100_000_000, egressBurst: 10_000_000 },
  tuning: { sysctl: { 'net.core.somaxconn': '500' } },
})

it('gives pods each other, the outside, host ports and rates, and takes all of it back', async () => {
  for (const name of ['xt_comment', 'ip_set', 'br_netfilter', 'nft_compat'])
    expect(execaSync('modprobe', [name], { reject: false }).exitCode, name).not.toBe(0)
  // Forwarding stays on, with the anycast route that the kernel makes for it (net/ipv6/addrconf.c, addrconf_join_anycast).
  for (const key of ['ipv4.ip_forward', 'ipv6.conf.all.forwarding']) host.run('sysctl', ['-qw', `net.${key}=1`])
  const before = snapshot(host)
  const portMappings = [{ hostPort: 8080, containerPort: 80, protocol: 'tcp' }]
  const web = { ...conf, runtimeConfig: { portMappings } }
  const [a, b] = [attach(host, web, { id: 'a' }), attach(host, conf, { id: 'b' })]
  for (const address of [a.address, outside.far4, outside.far6])
    expect(pings(host, b.netns, address), address).toBe(true)
  const stop = await serve(host.internet)
  expect(seenBy(host, b.netns, outside.far4, 60_000)).toBe(outside.node4)
  stop()
  host.atClose(await answer(a.netns, 80))
  for (const from of [host.internet, b.netns, a.netns])
    expect(
      ask(
        host,
        from,
        targetsAt([outside.node4, outside.node6], 8080).filter((each) => each.protocol === 'tcp'),
      ),
    ).not.toContain('')
  expectSilent(later(host, 'CHECK', { conf: web, pod: a }))
  expectSilent(later(host, 'CHECK', { conf, pod: b }))
  expectSilent(later(host, 'DEL', { conf: web, pod: a }))
  expectSilent(later(host, 'DEL', { conf, pod: b }))
  expectNothingLeft(host, before)
})
