// SPDX-License-Identifier: Apache-2.0
// ADD leaves all or nothing, a second one is refused; DEL needs two ids; CHECK names every difference; GC removes what
// is not on a list that is there. A call has no part in what another host network namespace made.

import type { Mutant } from './mutant.ts'

const hostNamespace = 'test/netns/state/host-namespace.test.ts'
const garbage = 'test/unit/plan/recovery/garbage.test.ts'
const renamed = 'test/netns/state/network-renamed.test.ts'

export const mutants: readonly Mutant[] = [
  {
    name: 'an ADD that failed leaves what it made',
    module: 'src/commands/teardown/attachments.ts',
    wraps: 'teardown',
    by: (original) => async (context, files, record) => {
      const isOwn = process.env['CNI_COMMAND'] === 'ADD' && record.writer.pid === process.pid
      return isOwn ? [] : await original(context, files, record)
    },
    caughtBy: { file: 'test/netns/chained/settings.test.ts', test: 'that only the node has are refused' },
  },
  {
    name: 'a live attachment is taken down for the second ADD',
    module: 'src/commands/teardown/attachments.ts',
    wraps: 'isDead',
    by: (original) => (stored, context) => !stored.isPending || original(stored, context),
    caughtBy: {
      file: 'test/netns/interface/attachments.test.ts',
      test: 'of a live attachment is refused and harms nothing',
    },
  },
  {
    name: 'an ADD that finished after the look before the intent record is not seen',
    module: 'src/system/store/records.ts',
    wraps: 'findFinished',
    by: () => () => undefined,
    caughtBy: {
      file: 'test/netns/processes/races.test.ts',
      test: 'of two ADDs of one attachment one is refused, even where it had looked before the other began',
    },
  },
  {
    name: 'without a record DEL does nothing',
    module: 'src/commands/recover/without-record.ts',
    wraps: 'removeWithoutRecord',
    by: () => async () => undefined,
    caughtBy: {
      file: 'test/netns/teardown/del-matrix.test.ts',
      test: 'works where the state directory was removed while the pod lives',
    },
  },
  {
    name: 'container id and interface alone find a record of another name',
    module: 'src/commands/call/attachment-records.ts',
    wraps: 'askedFor',
    by: (original) => (context, call, conf) => original(context, { ...call, netns: '' }, conf),
    caughtBy: { file: renamed, test: 'frees it where the configuration has changed too, once CNI_NETNS is' },
  },
  {
    name: 'an ADD that was refused leaves no word of it',
    module: 'src/commands/call/attachment-records.ts',
    wraps: 'keepApart',
    by: () => async () => undefined,
    caughtBy: {
      file: renamed,
      test: 'is not taken for one of the network that refused it because its interface exists',
    },
  },
  {
    name: 'a lease is asked back under another name than it was given',
    module: 'src/commands/teardown/delegated-lease.ts',
    wraps: 'returnLease',
    by: (original) => (context, lease) =>
      original(context, { ...lease, stdin: JSON.stringify({ ...JSON.parse(lease.stdin), name: 'another' }) }),
    caughtBy: { file: renamed, test: 'gives a lease back under the name that the delegated plugin knows it by' },
  },
  {
    name: 'only the first difference is told',
    module: 'src/commands/verbs/check.ts',
    wraps: 'check',
    by: (original) => async (context, call, conf) =>
      await original(context, call, conf).catch((thrown: AggregateError) => {
        const [first] = thrown.errors
        const details = { value: first.details.split('\n')[0] }
        throw new AggregateError([Object.create(first, { details })], thrown.message)
      }),
    caughtBy: {
      file: 'test/netns/check/check.test.ts',
      test: 'several things are broken: it names all of them',
    },
  },
  {
    name: 'a pair of links that is missing is no difference',
    module: 'src/plan/order/difference.ts',
    wraps: 'difference',
    by: (original) => (ops, observed) => original(ops, observed).filter(({ op }) => op.kind !== 'veth.add'),
    caughtBy: {
      file: 'test/unit/plan/difference.test.ts',
      test: 'is every operation, once, where there is nothing',
    },
  },
  {
    name: 'an absent list is an empty one',
    module: 'src/commands/verbs/gc.ts',
    wraps: 'gc',
    by: (original) => (context, call, conf) =>
      original(context, call, { ...conf, validAttachments: conf.validAttachments ?? [] }),
    caughtBy: { file: 'test/netns/teardown/gc.test.ts', test: 'without a list removes nothing' },
  },
  {
    name: 'another interface of a listed container stays',
    module: 'src/commands/verbs/gc.ts',
    wraps: 'gc',
    by: (original) => (context, call, conf) => {
      const listed = conf.validAttachments
      if (!listed) return original(context, call, conf)
      const validAttachments = listed.flatMap((each) => ['eth0', 'net1'].map((ifName) => ({ ...each, ifName })))
      return original(context, call, { ...conf, validAttachments })
    },
    caughtBy: { file: 'test/netns/teardown/gc.test.ts', test: 'with %s removes all of this network' },
  },
  {
    name: 'what is unlisted goes though its namespace is there',
    module: 'src/plan/recovery/verdicts.ts',
    wraps: 'judgeAttachment',
    by: (original) => (facts) =>
      original(facts.netns === 'live' && facts.isListed === false ? { ...facts, netns: 'gone' } : facts),
    caughtBy: { file: garbage, test: 'unlisted, namespace there' },
  },
  {
    name: 'a pod that is just being made is collected',
    module: 'src/plan/recovery/verdicts.ts',
    wraps: 'judgeAttachment',
    by: (original) => (facts) => original({ ...facts, isOld: true }),
    caughtBy: { file: garbage, test: 'not older than five minutes' },
  },
  {
    name: 'a call from another host network namespace takes what it finds for its own',
    module: 'src/system/kernel/host-namespace.ts',
    wraps: 'hostStateOf',
    by: () => (writer, self) => (writer.bootId === self.bootId ? 'here' : 'ended'),
    caughtBy: { file: hostNamespace, test: 'changes nothing of the attachment and says so' },
  },
  {
    name: 'what cannot be seen from a pid namespace counts as over',
    module: 'src/system/kernel/host-namespace.ts',
    wraps: 'hostStateOf',
    by: (original) => (writer, self) => original(writer, { ...self, pidNamespace: writer.pidNamespace }),
    caughtBy: { file: hostNamespace, test: 'from a pid namespace where the other host cannot be seen' },
  },
  {
    name: 'a host network namespace that has ended keeps its attachments for ever',
    module: 'src/system/kernel/host-namespace.ts',
    wraps: 'hostStateOf',
    by: (original) => (writer, self) => {
      const state = original(writer, self)
      return state === 'ended' && writer.bootId === self.bootId ? 'elsewhere' : state
    },
    caughtBy: {
      file: hostNamespace,
      test: 'a host network namespace that no process is in any more is over',
    },
  },
]
