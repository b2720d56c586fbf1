// SPDX-License-Identifier: Apache-2.0
import type { Mutant } from '../mutant.ts'

/** What breaks hostAccept, and the test that sees it. */
export const mutants: readonly Mutant[] = [
  {
    name: 'the accept goes before a conditional drop of the administrator',
    file: 'src/features/accept-place.ts',
    find: "    if (!rule.isUnconditional) {\n      if (rule.act === 'drop') state",
    replace: "    if (!rule.isUnconditional && rule.act !== 'drop') {\n      if (rule.act === 'log') state",
    caughtBy: {
      project: 'unit',
      file: 'test/unit/features/accept-place.test.ts',
      test: 'is behind drops that are named',
    },
  },
  {
    name: 'whoever is in nonMasqueradeCIDRs or acceptFrom gets new connections with established too',
    file: 'src/features/firewall.ts',
    find: "acceptNew: firewall?.hostAccept === 'established' ? 'none' : { to: subnets, from },",
    replace: 'acceptNew: { to: subnets, from },',
    caughtBy: {
      project: 'unit',
      file: 'test/unit/features/host-accept.test.ts',
      test: 'is no new connection with established',
    },
  },
  {
    name: 'a packet that comes with the bit set is let in',
    file: 'src/model/tables.ts',
    find: "  'admit-clear',\n",
    replace: '',
    caughtBy: {
      project: 'netns',
      file: 'test/netns/firewall/host-accept-place.test.ts',
      test: 'is not taken from others',
    },
  },
]
