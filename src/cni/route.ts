// SPDX-License-Identifier: Apache-2.0
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
