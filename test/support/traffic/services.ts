// SPDX-License-Identifier: Apache-2.0
// Services as kube-proxy translates them in nftables mode (pkg/proxy/nftables/proxier.go), cut to what decides about a
// client's address: a pod that reaches itself is masqueraded by kube-proxy, nobody else is.

import type { Host } from '../host.ts'

/** A service's own address, or a port of the node's addresses, and the endpoint of the same family behind it. */
export interface Service {
  readonly clusterIP?: string
  readonly nodePort?: number
  readonly endpoint: string
  readonly port: number
}

/** Puts these services in force. Throws when nft refuses them. */
export function putServices(host: Host, services: readonly Service[]): void {
  const tables = ([4, 6] as const).map((family) => tableOf(family, services))
  const put = host.run('nft', ['-f', '-'], `${tables.join('\n')}\n`)
  if (put.code !== 0) throw new Error(`services: ${put.stderr}`)
}

function tableOf(family: 4 | 6, services: readonly Service[]): string {
  const ip = family === 4 ? 'ip' : 'ip6'
  const rules = services.filter(({ endpoint }) => endpoint.includes(':') === (family === 6)).flatMap(rulesOf(ip))
  return [
    `table ${ip} services {`,
    '  chain services {',
    ...rules.map((rule) => `    ${rule}`),
    '  }',
    '  chain prerouting { type nat hook prerouting priority dstnat; jump services; }',
    '  chain output { type nat hook output priority -100; jump services; }',
    '  chain postrouting { type nat hook postrouting priority srcnat; meta mark & 0x4000 != 0 masquerade; }',
    '}',
  ].join('\n')
}

function rulesOf(ip: 'ip' | 'ip6') {
  return ({ clusterIP, nodePort, endpoint, port }: Service): readonly string[] => {
    const match = clusterIP === undefined ? `fib daddr type local th dport ${nodePort}` : `${ip} daddr ${clusterIP}`
    const to = ip === 'ip' ? `${endpoint}:${port}` : `[${endpoint}]:${port}`
    const known = `${match} meta l4proto { tcp, udp }`
    return [`${known} ${ip} saddr ${endpoint} meta mark set meta mark | 0x4000`, `${known} dnat to ${to}`]
  }
}
