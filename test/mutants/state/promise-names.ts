// SPDX-License-Identifier: Apache-2.0
import type { Mutant } from '../mutant.ts'

/** Names and MACs derive from the attachment alone, or from the address of the pod. */
export const mutants: readonly Mutant[] = [
  {
    name: 'parts of a key run together',
    file: 'src/model/names.ts',
    find: "['link', key.network, key.containerId, key.ifName].join('\\0')",
    replace: "['link', key.network, key.containerId, key.ifName].join('')",
    caughtBy: {
      project: 'unit',
      file: 'test/unit/model/names.property.test.ts',
      test: 'of different attachments are different, also where the parts run together',
    },
  },
  {
    name: 'a MAC may be a manufacturer’s',
    file: 'src/model/names.ts',
    find: '& 0xfc) | 0x02',
    replace: '& 0xfc)',
    caughtBy: {
      project: 'unit',
      file: 'test/unit/model/names.property.test.ts',
      test: 'are locally administered and unicast',
    },
  },
  {
    name: 'a pod’s MAC follows the attachment, not the address',
    file: 'src/model/names.ts',
    find: 'if (cidr.family === 4) return toMac',
    replace: "if (cidr.family === 4 && key.ifName === '') return toMac",
    caughtBy: {
      project: 'unit',
      file: 'test/unit/model/names.property.test.ts',
      test: 'of pods follow an IPv4 address one to one',
    },
  },
]
