// SPDX-License-Identifier: Apache-2.0
// The result of ADD in the shape of CNI 1.1.0 (spec section 5 "Success"). Older shapes are read and
// written in result-shapes.ts. Keys we do not know are kept: a chained plugin passes them on.

export interface ResultInterface {
  readonly name: string
  readonly mac?: string
  readonly mtu?: number
  /** The netns path of a pod's interface; absent or empty for one on the host. */
  readonly sandbox?: string
}

export interface ResultIp {
  /** CIDR with the host part kept: 10.1.2.3/24. */
  readonly address: string
  readonly gateway?: string
  readonly interface?: number
}

/** A result. Entries may carry further keys than typed here; they are written back unchanged. */
export interface Result {
  readonly interfaces: readonly ResultInterface[]
  readonly ips: readonly ResultIp[]
  readonly routes: readonly Route[]
  readonly dns?: Dns
  /** Top-level keys of a prevResult that this version of the protocol does not name. */
  readonly others?: Readonly<Record<string, unknown>>
}

// Routes and DNS settings as the protocol has them, in configurations and in results.

/** An IP route as in CNI spec 1.1.0, section 5. `dst` is a canonical CIDR, `gw` an address. */
export interface Route {
  readonly dst: string
  readonly gw?: string
  readonly mtu?: number
  readonly advmss?: number
  readonly priority?: number
  readonly table?: number
  readonly scope?: number
}

/** DNS settings as in CNI spec 1.1.0, section 5. */
export interface Dns {
  readonly nameservers?: readonly string[]
  readonly domain?: string
  readonly search?: readonly string[]
  readonly options?: readonly string[]
}

// The protocol versions trestle speaks, and which verb each has (CNI spec 1.1.0, section 2).

export const supportedVersions = ['0.1.0', '0.2.0', '0.3.0', '0.3.1', '0.4.0', '1.0.0', '1.1.0'] as const

export type CniVersion = (typeof supportedVersions)[number]

export const currentVersion: CniVersion = '1.1.0'

/** Whether `text` is exactly one of the supported version strings (libcni compares exactly). */
export function isSupported(text: unknown): text is CniVersion {
  return typeof text === 'string' && (supportedVersions as readonly string[]).includes(text)
}

export function atLeast(a: CniVersion, b: CniVersion): boolean {
  return supportedVersions.indexOf(a) >= supportedVersions.indexOf(b)
}
