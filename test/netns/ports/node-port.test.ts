// SPDX-License-Identifier: Apache-2.0
// A host port and a NodePort of the same number: kube-proxy translates at priority dstnat, in nftables
// and in iptables mode, and trestle after it, so the service wins. kube-proxy's chains are written as it
// writes them (pkg/proxy/nftables/proxier.go, pkg/proxy/iptables/proxier.go), cut to one service.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { answer, ask, askOnce, targetsAt } from '../../support/ask.ts'
import { attach, later, netConf } from '../../support/traffic/pods.ts'
import { outside } from '../../support/traffic/traffic.ts'
import { openUplinkedHost, type UplinkedHost } from '../../support/traffic/uplinked-host.ts'

const port = 30080
const conf = netConf({
  podcidr: '10.240.0.0/24',
  runtimeConfig: { portMappings: [{ hostPort: port, containerPort: port, protocol: 'tcp' }] },
})
const plain = netConf({ podcidr: '10.240.0.0/24' })

/** One NodePort service with one endpoint, in each of kube-proxy's modes. */
const proxies = {
  nftables: (endpoint: string) => [
    'table ip kube-proxy {',
    `  chain nodeports { tcp dport ${port} dnat to ${endpoint}:${port}; }`,
    '  chain nat-prerouting { type nat hook prerouting priority dstnat; fib daddr type local jump nodeports; }',
    '  chain nat-output { type nat hook output priority -100; fib daddr type local jump nodeports; }',
    '}',
  ],
  iptables: (endpoint: string) => [
    '*nat',
    ':KUBE-NODEPORTS - [0:0]',
    '-A PREROUTING -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS',
    '-A OUTPUT -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS',
    `-A KUBE-NODEPORTS -p tcp --dport ${port} -j DNAT --to-destination ${endpoint}:${port}`,
    'COMMIT',
  ],
} as const

describe('a host port with the number of a NodePort', () => {
  let host: UplinkedHost
  beforeEach(() => {
    host = openUplinkedHost()
  })
  afterEach(() => host.close())

  it.each(['nftables', 'iptables'] as const)(
    'leaves it to kube-proxy in %s mode, and takes over when the service goes',
    async (mode) => {
      const holder = attach(host, conf, { id: 'holder' })
      const endpoint = attach(host, plain, { id: 'endpoint' })
      const endService = await answer(endpoint.netns, port)
      host.atClose(endService)
      const target = targetsAt([outside.node4], port).slice(0, 1)
      const rules = `${proxies[mode](endpoint.address).join('\n')}\n`
      const put = mode === 'nftables' ? host.run('nft', ['-f', '-'], rules) : host.run('iptables-restore', [], rules)
      expect(put.stderr).toBe('')
      // Only the service's endpoint answers on this port: silence would be the host port's pod.
      expect(ask(host, host.internet, target).join('')).not.toBe('')
      endService()
      host.atClose(await answer(holder.netns, port))
      expect(askOnce(host, host.internet, target).join('')).toBe('')
      const gone =
        mode === 'nftables'
          ? host.run('nft', ['delete', 'table', 'ip', 'kube-proxy'])
          : host.run('iptables', ['-t', 'nat', '-F'])
      expect(gone.stderr).toBe('')
      expect(ask(host, host.internet, target).join('')).not.toBe('')
      expect(later(host, 'DEL', { conf, pod: holder }).code).toBe(0)
    },
  )
})
