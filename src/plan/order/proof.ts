// SPDX-License-Identifier: Apache-2.0
// What a tool has to show besides ending well: that the bridge is the one that was set up, and that our rules are
// there.

import { isBaseComplete } from '../rules/ruleset.ts'
import type { Proof, Shown } from './stage.ts'

/**
 * Whether what was shown is what it has to be. A bridge that somebody made anew has another MAC, and none of the ports;
 * where nothing of it was shown, nothing tells against it.
 */
export function isProven(proof: Proof, shown: Shown): boolean {
  if (proof.kind === 'rules') {
    return shown.rules !== undefined && isBaseComplete(shown.rules, [proof.table], proof.mark)
  }
  const link = shown.links.get(proof.bridge)
  return link === undefined || link.mac === proof.mac
}
