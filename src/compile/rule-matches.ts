// SPDX-License-Identifier: Apache-2.0
// Whom a firewall's rule names, from its text as its tool shows it.

import { familyOf } from '../cni/model/address.ts'

/** Addresses as CIDRs, links by name or by the beginning of one (`cni*`). */
export interface RuleMatches {
  readonly addresses: readonly string[]
  readonly links: readonly string[]
  /** Something else has to match, too: a port, a state, a mark. */
  readonly isNarrow: boolean
  /** A match is turned round: whom it names is whom it leaves out. */
  readonly isNegated: boolean
}

const address = /(?<![\w.:])(?:\d+(?:\.\d+){3}|[0-9a-f]*:[0-9a-f:]+)(?:\/\d+)?(?![\w.:])/gi

/** Every address in a text, those without a prefix as hosts. */
export function addressesIn(text: string): readonly string[] {
  return [...text.matchAll(address)].map(([found]) => {
    return found.includes('/') ? found : `${found}/${familyOf(found) === 6 ? 128 : 32}`
  })
}
