// SPDX-License-Identifier: Apache-2.0
// A kernel without IPv6 (ipv6.disable=1): /proc/sys/net/ipv6 is not there. Played by an empty directory over it.

import { execaSync } from 'execa'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { environment, type Host, openHost, trestle } from '../../support/host.ts'
import { stateEnv } from '../../support/state-layout.ts'
import { netConf } from '../../support/traffic/pods.ts'

let host: Host
beforeEach(() => {
  host = openHost()
})
afterEach(() => host.close())

function withoutIpv6(verb: 'ADD' | 'DEL', conf: object, netns: string) {
  const env = environment(verb, { netns, env: stateEnv(host) })
  const script = 'mount -t tmpfs tmpfs /proc/sys/net/ipv6 && exec "$@"'
  const args = [`--net=${host.path}`, '--', 'unshare', '-m', 'sh', '-c', script, 'sh', trestle]
  return execaSync('nsenter', args, { env, extendEnv: false, input: JSON.stringify(conf), reject: false })
}

it('an IPv4 network is made; a dual stack is refused with the reason, and leaves nothing in the pod', () => {
  const pod = host.pod('a')
  const dual = netConf({ podcidr: ['10.240.0.0/24', 'fd00:240::/64'] })
  const refused = withoutIpv6('ADD', dual, pod)
  expect(JSON.parse(refused.stdout)).toMatchObject({
    code: 100,
    msg: expect.stringMatching(/this kernel has no IPv6 \[ipv6-not-there\]$/),
    details: expect.stringContaining('range'),
  })
  expect(host.inPod(pod, 'ip', ['-br', 'link']).stdout).not.toContain('eth0')
  expect(withoutIpv6('DEL', dual, pod)).toMatchObject({ exitCode: 0, stdout: '' })
  const made = withoutIpv6('ADD', netConf(), pod)
  expect(made.exitCode, made.stdout).toBe(0)
  expect(withoutIpv6('DEL', netConf(), pod)).toMatchObject({ exitCode: 0, stdout: '' })
})
