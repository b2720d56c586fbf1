// SPDX-License-Identifier: Apache-2.0
import type { Mutant } from '../mutant.ts'

/** What leaves a renamed network's attachments, or takes those of a live pod for them, and the test that sees it. */
export const mutants: readonly Mutant[] = [
  {
    name: 'container id and interface alone find a record of another name',
    file: 'src/commands/call/attachment-records.ts',
    find: "return call.netns === '' || !existsSync(call.netns) ? found : []",
    replace: 'return found',
    caughtBy: {
      project: 'netns',
      file: 'test/netns/state/network-renamed.test.ts',
      test: 'frees it where the configuration has changed too, once CNI_NETNS is',
    },
  },
  {
    name: 'an ADD that was refused leaves no word of it',
    file: 'src/commands/teardown/attachments.ts',
    find: '    if (now !== undefined && isCutShort) await keepApart(context, record)\n',
    replace: "    if (now === 'refused' && isCutShort) await keepApart(context, record)\n",
    caughtBy: {
      project: 'netns',
      file: 'test/netns/state/network-renamed.test.ts',
      test: 'is not taken for one of the network that refused it because its interface exists',
    },
  },
  {
    name: 'a lease of a renamed network is asked back under the new name',
    file: 'src/commands/verbs/del.ts',
    find: 'withNetworkName(conf.stdin, leased.key.network)',
    replace: 'conf.stdin',
    caughtBy: {
      project: 'netns',
      file: 'test/netns/state/network-renamed.test.ts',
      test: 'gives a lease back under the name that the delegated plugin knows it by',
    },
  },
]
