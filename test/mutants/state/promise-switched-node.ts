// SPDX-License-Identifier: Apache-2.0
import type { Mutant } from '../mutant.ts'

/** What host-local keeps for living pods of the upstream chain is not given out. */
export const mutants: readonly Mutant[] = [
  {
    name: 'addresses of upstream’s pods are free',
    file: 'src/system/ipam/ipam.ts',
    find: 'for (const address of upstreamAddresses(ipam.dataDir, request.conf.name)) taken.add(address)\n',
    replace: '',
    caughtBy: {
      project: 'netns',
      file: 'test/netns/ipam/upstream-leases.test.ts',
      test: 'are not given out, nor by request',
    },
  },
  {
    name: 'a request may have an address of upstream’s pods',
    file: 'src/system/ipam/ipam.ts',
    find: 'if (!isTheirs && reserveHere(request, chosen.address)) return chosen\n  if (!isTheirs) await',
    replace: 'if (reserveHere(request, chosen.address)) return chosen\n  if (!isTheirs) await',
    caughtBy: {
      project: 'netns',
      file: 'test/netns/ipam/upstream-leases.test.ts',
      test: 'are not given out, nor by request',
    },
  },
]
