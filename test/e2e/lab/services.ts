// SPDX-License-Identifier: Apache-2.0
// Services for a kube-proxy on a private machine: what the API server says of them, and kube-proxy's own rules.
import { rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, vi } from 'vitest'
import { must, uplink } from './calls.ts'
import type { Lab } from './lab.ts'

/** Port 80 of a service's own addresses, one for each of its families, and the endpoint behind each. */
export interface Service {
  readonly name: string
  readonly clusterIPs: readonly string[]
  readonly endpoints: readonly string[]
  readonly nodePort?: number
  /** externalTrafficPolicy of the node port: only endpoints of this node, and the client keeps its address. */
  readonly isLocal?: true
}

const node = {
  metadata: { name: 'lab' },
  spec: { podCIDR: '10.92.0.0/24' },
  status: { addresses: uplink.node.map((address) => ({ type: 'InternalIP', address })) },
}
const familyOf = (address: string) => (address.includes(':') ? 'IPv6' : 'IPv4')

/** The API server's objects as one file for api.ts. */
export function objects(services: readonly Service[]): string {
  return JSON.stringify({
    nodes: [node],
    servicecidrs: [{ metadata: { name: 'kubernetes' }, spec: { cidrs: ['10.96.0.0/16', 'fd00:aa::/112'] } }],
    services: services.map(serviceObject),
    endpointslices: services.flatMap(({ name, endpoints }) =>
      endpoints.map((endpoint) => ({
        metadata: {
          name: `${name}-${familyOf(endpoint).toLowerCase()}`,
          namespace: 'default',
          labels: { 'kubernetes.io/service-name': name },
        },
        addressType: familyOf(endpoint),
        ports: [{ name: 'http', protocol: 'TCP', port: 80 }],
        endpoints: [{ addresses: [endpoint], conditions: { ready: true }, nodeName: 'lab' }],
      })),
    ),
  })
}

function serviceObject({ name, clusterIPs, nodePort, isLocal }: Service): object {
  return {
    metadata: { name, namespace: 'default' },
    spec: {
      type: nodePort === undefined ? 'ClusterIP' : 'NodePort',
      clusterIP: clusterIPs[0],
      clusterIPs,
      ipFamilies: clusterIPs.map(familyOf),
      ...(isLocal && { externalTrafficPolicy: 'Local' }),
      ports: [{ name: 'http', protocol: 'TCP', port: 80, targetPort: 80, ...(nodePort && { nodePort }) }],
    },
  }
}

/** Makes the services be these, and waits until kube-proxy has rules for them and for no others. */
export async function publish(lab: Lab, mode: string, services: readonly Service[]): Promise<void> {
  const file = join(lab.dir, 'objects.json')
  await writeFile(`${file}.new`, objects(services))
  await rename(`${file}.new`, file)
  const targets = (endpoints: readonly string[]) => endpoints.map((address) => `${address}:80`)
  const wanted = services.flatMap(({ clusterIPs, endpoints }) => [...clusterIPs, ...targets(endpoints)]).sort()
  const known = async () => {
    // nft joins address and port with " . ", iptables puts brackets around an address.
    const rules = (await proxyRules(lab, mode)).replaceAll(' . ', ':').replace(/[[\]]/g, '')
    return [...new Set(rules.match(/10\.96\.0\.1\d|fd00:aa::1\d|(?:[\d.]+|[\da-f:]+::[\da-f]+):80\b/g))].sort()
  }
  await vi.waitFor(async () => expect(await known()).toEqual(wanted), { timeout: 40_000, interval: 100 })
}

/**
 * kube-proxy's rules, without counters and without what is ours. Those of iptables in the order of their text: kube-proxy
 * writes its services in another order each time, also when nothing has changed.
 */
export async function proxyRules(lab: Lab, mode: string): Promise<string> {
  if (mode === 'nftables') {
    const tables = await must(lab, 'nft -s list tables')
    const own = tables.split('\n').filter((line) => line.endsWith(' kube-proxy'))
    return (await Promise.all(own.map((table) => must(lab, `nft -s list ${table}`)))).join('')
  }
  const saved = await Promise.all(['iptables-save', 'ip6tables-save'].map((save) => must(lab, save)))
  return saved
    .flatMap((text) =>
      text
        .replace(/^#.*$|\[\d+:\d+\]/gm, '')
        .split('\n')
        .sort(),
    )
    .join('\n')
}
