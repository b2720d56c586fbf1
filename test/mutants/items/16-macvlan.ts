// SPDX-License-Identifier: Apache-2.0
import type { Mutant } from '../mutant.ts'

/** What takes a link of others for the pod's macvlan, or gives it what the kernel does not, and the tests that see it. */
export const mutants: readonly Mutant[] = [
  {
    name: 'a macvlan is torn down by the name that it was to have',
    file: 'src/drivers/macvlan.ts',
    find: "kind: 'group.del',\n    group: podLinkGroup(spec.key),",
    replace: "kind: 'link.del',\n    dev: spec.key.ifName,",
    caughtBy: {
      project: 'netns',
      file: 'test/netns/interface/macvlan.test.ts',
      test: 'a name that the pod has, and that one stays',
    },
  },
  {
    name: 'a passthru has a MAC of its own in result and record',
    file: 'src/drivers/macvlan.ts',
    find: "mode === 'passthru' ? link.mac : mac",
    replace: "mode === 'vepa' ? link.mac : mac",
    caughtBy: {
      project: 'unit',
      file: 'test/unit/drivers/macvlan.test.ts',
      test: 'is not put on Wi-Fi, but for passthru',
    },
  },
]
