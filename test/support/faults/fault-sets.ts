// SPDX-License-Identifier: Apache-2.0
// What the fault rounds try their faults on: a network of each kind.

/** A network on the node. `number` makes its subnets: 10.60.NUMBER.0/29, and on from 10.61 after 255. */
export interface Net {
  readonly name: string
  readonly bridge: string
  readonly number: number
}

/** A kind of network. `hasPorts`: its pods may have a host port; `isChained`: another plugin makes the interfaces. */
export interface FeatureSet {
  readonly title: string
  readonly hasPorts: boolean
  readonly hasBridge: boolean
  readonly isChained?: true
  /** `hostPort`: of the pod, where it is to have one, for TCP and UDP. */
  readonly conf: (net: Net, hostPort?: number) => object
}

/** Where pods listen. */
export const echoPort = 7000

/** The first part of a network's IPv4 addresses. */
export const prefixOf = ({ number }: Net) => `10.${60 + Math.floor(number / 256)}.${number % 256}`

const rates = { ingressRate: 8_000_000, ingressBurst: 800_000, egressRate: 8_000_000, egressBurst: 800_000 }
const sysctl = { 'net.ipv4.conf.IFNAME.arp_filter': '1', 'net.ipv4.ip_unprivileged_port_start': '80' }

const base = ({ name }: Net) => ({ cniVersion: '1.1.0', name, type: 'trestle' })
const subnet4 = (net: Net) => `${prefixOf(net)}.0/29`
const subnet6 = (net: Net) => `fd60:${net.number}::/64`
const podNetwork = (net: Net) => ({ ...base(net), bridge: net.bridge, podcidr: subnet4(net) })

function ports(hostPort: number | undefined): object {
  const mapping = (protocol: string) => ({ hostPort, containerPort: echoPort, protocol })
  return hostPort === undefined ? {} : { runtimeConfig: { portMappings: [mapping('tcp'), mapping('udp')] } }
}

/** Host ports, a firewall, limits both ways and sysctls. */
const everything = (hostPort?: number) => ({
  firewall: { ingressPolicy: 'same-bridge' },
  bandwidth: rates,
  tuning: { sysctl },
  ...ports(hostPort),
})

/** The kinds of network, by a short name. */
export const featureSets = {
  bare: {
    title: 'bare bridge',
    hasPorts: false,
    hasBridge: true,
    conf: (net: Net) => ({
      ...base(net),
      bridge: net.bridge,
      isGateway: true,
      ipam: { type: 'trestle', subnet: subnet4(net) },
    }),
  },
  masquerade: { title: 'masquerade', hasPorts: false, hasBridge: true, conf: podNetwork },
  whole: {
    title: 'whole network',
    hasPorts: true,
    hasBridge: true,
    conf: (net: Net, hostPort?: number) => ({ ...podNetwork(net), ...everything(hostPort) }),
  },
  ptp: {
    title: 'ptp',
    hasPorts: true,
    hasBridge: false,
    conf: (net: Net, hostPort?: number) => ({ ...base(net), mode: 'ptp', podcidr: subnet4(net), ...ports(hostPort) }),
  },
  chained: {
    title: 'chained',
    hasPorts: true,
    hasBridge: false,
    isChained: true,
    // With a policy pods on links of their own would not reach each other, as the streams between them do.
    conf: (net: Net, hostPort?: number) => ({ ...base(net), mode: 'chained', ...everything(hostPort), firewall: {} }),
  },
  dualStack: {
    title: 'dual stack',
    hasPorts: true,
    hasBridge: true,
    conf: (net: Net, hostPort?: number) => ({
      ...podNetwork(net),
      podcidr: [subnet4(net), subnet6(net)],
      ...everything(hostPort),
    }),
  },
  delegated: {
    title: 'delegated IPAM',
    hasPorts: true,
    hasBridge: true,
    conf: (net: Net, hostPort?: number) => ({
      ...base(net),
      bridge: net.bridge,
      isDefaultGateway: true,
      ipMasq: true,
      ipam: { type: 'scripted', prefix: prefixOf(net) },
      ...ports(hostPort),
    }),
  },
  macspoofchk: {
    title: 'macspoofchk',
    hasPorts: false,
    hasBridge: true,
    conf: (net: Net) => ({ ...podNetwork(net), macspoofchk: true }),
  },
} as const satisfies Readonly<Record<string, FeatureSet>>

/** An IPAM plugin's shell lines: a directory a lease, with the container's id in it; the first free of six is given. */
export const leasing = {
  ADD: `prefix=$(sed -n 's/.*"prefix":"\\([0-9.]*\\)".*/\\1/p' stdin.ADD)
mkdir -p leases
for n in 2 3 4 5 6 7; do mkdir "leases/$prefix.$n" 2>/dev/null && break; n=; done
[ -n "$n" ] || { echo '{"code":142,"msg":"no lease is free"}'; exit 1; }
echo "$CNI_CONTAINERID" > "leases/$prefix.$n/owner"
echo '{"cniVersion":"1.1.0","ips":[{"address":"'"$prefix.$n"'/29","gateway":"'"$prefix.1"'"}]}'`,
  DEL: `for each in leases/*; do grep -qx "$CNI_CONTAINERID" "$each/owner" 2>/dev/null && rm -r "$each"; done; :`,
  GC: `prefix=$(sed -n 's/.*"prefix":"\\([0-9.]*\\)".*/\\1/p' stdin.GC)
for each in leases/$prefix.*; do
  grep -q '"containerID":"'"$(cat "$each/owner")"'"' stdin.GC || rm -r "$each"
done`,
}
