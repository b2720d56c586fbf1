// SPDX-License-Identifier: Apache-2.0
// macspoofchk: frames of the pod with another source MAC than its own are dropped.

import type { Feature } from './feature.ts'

export const macCheck: Feature = {
  elements: ({ host, port }) =>
    host === undefined || port?.onlyMac === undefined
      ? []
      : [
          { set: 'guarded', key: [host.name] },
          { set: 'guardedmac', key: [host.name, port.onlyMac] },
        ],
}
