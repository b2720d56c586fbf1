// SPDX-License-Identifier: Apache-2.0
// The networks of a soak: each with other features, and each with a few places for pods. In one of them another plugin
// makes the interfaces, and ours is chained behind it.

/** How many pods a network has at most. */
export const slotsPerNetwork = 4

/** A place for a pod: one after the other, many pods have it. */
export interface Slot {
  readonly number: number
  readonly network: string
}

const base = { cniVersion: '1.1.0', type: 'trestle' }
const rates = { ingressRate: 8_000_000, ingressBurst: 800_000, egressRate: 8_000_000, egressBurst: 800_000 }

/** The network whose interfaces another plugin makes. */
export const foreign = 'chain'

/** Our plugin in each network's list, by its name. Bridges are named as test/support/allowance.ts knows them. */
const plugins: Readonly<Record<string, object>> = {
  wide: {
    podcidr: ['10.61.0.0/24', 'fd61::/64'],
    bridge: 'br-wide',
    firewall: { ingressPolicy: 'same-bridge' },
    bandwidth: rates,
    macspoofchk: true,
    takesPorts: true,
  },
  routed: {
    mode: 'ptp',
    ipMasq: true,
    isDefaultGateway: true,
    ipam: { type: 'host-local', ranges: [[{ subnet: '10.62.0.0/24' }], [{ subnet: 'fd62::/64' }]] },
    takesPorts: true,
  },
  flat: { bridge: 'br-flat', portIsolation: true, macspoofchk: true },
  chain: {
    mode: 'chained',
    bandwidth: rates,
    tuning: { sysctl: { 'net.core.somaxconn': '200' } },
    takesPorts: true,
  },
  // Five addresses: the pods whose namespace went are in the way of others.
  small: { podcidr: '10.64.0.0/29', bridge: 'br-small', removeWhenEmpty: true, takesPorts: true },
}

/** The names of the networks. */
export const networkNames: readonly string[] = Object.keys(plugins)

/** The bridges, by network. */
export const bridgeOf: Readonly<Record<string, string>> = {
  wide: 'br-wide',
  flat: 'br-flat',
  small: 'br-small',
}

/** Every place for a pod. */
export const slots: readonly Slot[] = networkNames.flatMap((network, group) =>
  Array.from({ length: slotsPerNetwork }, (_, at) => ({ number: group * slotsPerNetwork + at, network })),
)

/** The configuration for a pod, as libcni sends it: host ports are the slot's own, over both protocols. */
export function confOf({ network, number }: Slot): object {
  const portMappings = (['tcp', 'udp'] as const).map((protocol) => ({
    hostPort: 20_000 + number,
    containerPort: 80,
    protocol,
  }))
  const { takesPorts, ...keys } = plugins[network] as { readonly takesPorts?: true }
  return { ...base, name: network, ...keys, ...(takesPorts ? { runtimeConfig: { portMappings } } : {}) }
}
