// SPDX-License-Identifier: Apache-2.0
import type { Mutant } from '../mutant.ts'

/** What lets a range take addresses of the node or of its router, and the tests that see it. */
export const mutants: readonly Mutant[] = [
  {
    name: 'the first ADD of a network with an overlap only warns',
    file: 'src/plan/ipam/range-overlap.ts',
    find: 'found.filter((each) => !isHad(each))',
    replace: 'found.filter((each) => !isHad(each) && had.length > 0)',
    caughtBy: {
      project: 'netns',
      file: 'test/netns/ipam/range-overlap.test.ts',
      test: 'is refused before anything is made',
    },
  },
  {
    name: 'a network with a live pod takes any range',
    file: 'src/plan/ipam/range-overlap.ts',
    find: '(each) => shared && each.prefixLength <= shared.prefixLength && includes(each, shared)',
    replace: '() => true',
    caughtBy: {
      project: 'netns',
      file: 'test/netns/ipam/range-live-pods.test.ts',
      test: 'is refused a new range that an interface or another network has',
    },
  },
  {
    name: 'an address of another network is given out again',
    file: 'src/system/ipam/ipam.ts',
    find: 'if (elsewhere(address) === undefined) return true',
    replace: 'if (elsewhere(address) === undefined || true) return true',
    caughtBy: {
      project: 'netns',
      file: 'test/netns/ipam/range-live-pods.test.ts',
      test: 'of two networks with one range, or of a renamed one',
    },
  },
  {
    name: 'the address of another interface is left out for the first pod only',
    file: 'src/commands/attach/range-overlap.ts',
    find: 'excluded: known?.excluded ?? []',
    replace: 'excluded: []',
    caughtBy: {
      project: 'netns',
      file: 'test/netns/ipam/range-overlap.test.ts',
      test: 'is given to no pod, then and later, and counts in STATUS',
    },
  },
  {
    name: 'a gateway by hand goes when no pod has it',
    file: 'src/plan/ipam/bridge-addresses.ts',
    find: 'put.some((gateway) => gateway.address === address) && ',
    replace: '',
    caughtBy: {
      project: 'netns',
      file: 'test/netns/ipam/config-edited.test.ts',
      test: 'families swapped and swapped again',
    },
  },
  {
    name: 'a gateway goes that a pod still has',
    file: 'src/plan/ipam/bridge-addresses.ts',
    find: ' && !needed.includes(bareAddress(address))',
    replace: '',
    caughtBy: {
      project: 'netns',
      file: 'test/netns/ipam/config-edited.test.ts',
      test: 'families swapped and swapped again',
    },
  },
  {
    name: 'the pool begins again where ranges change places',
    file: 'src/system/store/addresses.ts',
    find: 'own === undefined ? undefined : readLast(files, own)',
    replace: 'undefined',
    caughtBy: {
      project: 'netns',
      file: 'test/netns/ipam/pool.test.ts',
      test: 'also where ranges have changed places, gone and come back',
    },
  },
]
