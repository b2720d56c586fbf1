// SPDX-License-Identifier: Apache-2.0
import type { Mutant } from '../mutant.ts'

/** What hides a service's client, or cuts it off, and the test that sees it. */
export const mutants: readonly Mutant[] = [
  {
    name: 'everybody within the subnet is masqueraded, bridged packets included',
    file: 'src/tools/nft.ts',
    find: "'ip saddr . ip daddr @hairpin4 iifname . oifname @hairpinlink ct status dnat masquerade'",
    replace: "'ip saddr . ip daddr @hairpin4 ct status dnat masquerade'",
    caughtBy: {
      project: 'netns',
      file: 'test/netns/ports/service-clients.test.ts',
      test: 'on a bridge, bridge-nf-call-iptables',
    },
  },
  {
    name: 'a pod on a bridge does not reach itself by its host port',
    file: 'src/drivers/specs.ts',
    find: 'selfHairpin: own.selfHairpin ?? hostPorts?.snat ?? false,',
    replace: 'selfHairpin: own.selfHairpin ?? false,',
    caughtBy: { project: 'unit', file: 'test/unit/features/hairpin.test.ts', test: 'has host ports' },
  },
]
