// SPDX-License-Identifier: Apache-2.0
// macspoofchk: frames of the pod with another source MAC than its own are dropped.

import type { Feature } from '../model/feature.ts'

export const macCheck: Feature = {
  elements: ({ host, port }) =>
    host === undefined || port?.onlyMac === undefined
      ? []
      : [
          { set: 'macCheckLinks', key: [host.name] },
          { set: 'macCheckPairs', key: [host.name, port.onlyMac] },
        ],
}
