// SPDX-License-Identifier: Apache-2.0
// Damaged and lost state: a record is used as far as it is sound, what DEL cannot undo stays in it, a full disk stops no
// removal, and no address is lost for good or given away from a live pod.

import type { Mutant } from './mutant.ts'

const truncated = 'test/netns/state/state-truncated.test.ts'
const healed = 'test/netns/state/state-healed.test.ts'
const gone = 'test/netns/state/state-gone.test.ts'
const pending = {
  file: 'test/netns/teardown/faults-pending.test.ts',
  test: 'that could not run its tools withholds address and port until a later call settles it',
} as const

export const mutants: readonly Mutant[] = [
  {
    name: 'a part of a record of any shape is believed',
    module: 'src/model/kinds.ts',
    wraps: 'decoded',
    by: (original) => (kind, value) => original({ ...kind, accepts: () => true }, value),
    caughtBy: {
      file: 'test/unit/model/record.property.test.ts',
      test: 'with anything in any one place is used without a crash',
    },
  },
  {
    name: 'a record of another version is no record',
    module: 'src/model/record.ts',
    wraps: 'decodeRecord',
    by: (original) => (json) => {
      const record = original(json)
      return record?.otherFormat === undefined ? record : undefined
    },
    caughtBy: {
      file: 'test/netns/state/record-format.test.ts',
      test: 'of format %i keeps its pod, its address and its port, and goes with DEL',
    },
  },
  {
    name: 'the address is given back though something is left',
    module: 'src/commands/teardown/remove-attachment.ts',
    wraps: 'removeAttachment',
    by: (original) => async (port, removal, hasPod) => {
      const torn = await original({ ...port, writePending: () => undefined }, removal, hasPod)
      if (torn.failures.length > 0) await port.freeAddresses(undefined, 0)
      return torn
    },
    caughtBy: pending,
  },
  {
    name: 'no later call settles a pending cleanup',
    module: 'src/system/process/process-identity.ts',
    wraps: 'isWriterGone',
    by: (original) => (record) => record.pendingCleanup === undefined && original(record),
    caughtBy: pending,
  },
  {
    name: 'a removal waits for room to write its lock',
    module: 'src/system/store/lock.ts',
    wraps: 'withLock',
    by: (original) => (request, body) => {
      const { isDispensable: _, ...firm } = request
      return original(firm, body)
    },
    caughtBy: { file: gone, test: 'keeps what it has: calls fail with a known code' },
  },
  {
    name: 'DEL ends well though something is left that it could not write down',
    module: 'src/commands/teardown/remove-attachment.ts',
    wraps: 'removeAttachment',
    by: (original) => (port, removal, hasPod) => {
      const writePending = (texts: readonly string[]) => {
        try {
          port.writePending(texts)
        } catch {}
      }
      return original({ ...port, writePending }, removal, hasPod)
    },
    caughtBy: { file: gone, test: 'has no room for what a DEL cannot remove: 11' },
  },
  {
    name: 'a DEL that comes again frees what another pod has by now',
    module: 'src/system/store/records.ts',
    wraps: 'hasUnreadable',
    by: () => () => true,
    caughtBy: { file: truncated, test: 'once: a DEL that comes again frees nothing of the pod that has it by now' },
  },
  {
    name: 'trestle gc collects what live pods without a record have',
    module: 'src/plan/recovery/verdicts.ts',
    wraps: 'judgeReservation',
    by: (original) => (facts) => original({ ...facts, mayBeOfUnknownPod: false }),
    caughtBy: { file: truncated, test: 'is collected by trestle gc, which writes the record of a live pod again' },
  },
  {
    name: 'rules are collected although a pod without a record may use them',
    module: 'src/plan/recovery/verdicts.ts',
    wraps: 'judgeOrphan',
    by: (original) => (orphan, facts) => original(orphan, { ...facts, mayBeOfUnknownPod: false }),
    caughtBy: {
      file: 'test/unit/plan/recovery/kernel-orphans.test.ts',
      test: 'rules where a pod may have lost its record',
    },
  },
  {
    name: 'an ADD with a full pool leaves what nobody can have',
    module: 'src/commands/recover/collect.ts',
    wraps: 'reclaimOrphans',
    by: (original) => async (context, scope) => {
      if (scope.network === undefined) await original(context, scope)
    },
    caughtBy: { file: truncated, test: 'is collected by an ADD that finds the pool full' },
  },
  {
    name: 'an ADD gives out the address of a live pod whose reservation was lost',
    module: 'src/commands/recover/recover.ts',
    wraps: 'healBeforeAdd',
    by: (original) => (context, reserving) => original(context, { ...reserving, perPod: 0 }),
    caughtBy: { file: healed, test: 'a lost address reservation is made again' },
  },
  {
    name: 'an ADD does not see that a live pod has no record',
    module: 'src/commands/recover/recover.ts',
    wraps: 'healBeforeAdd',
    by: (original) => (context, reserving) => {
      const names: typeof reserving.names = (directory) =>
        directory === '/proc/sys/net/ipv4/conf' ? [] : reserving.names(directory)
      return original(context, { ...reserving, names })
    },
    caughtBy: { file: healed, test: 'record and reservations are made again' },
  },
  {
    name: 'an ADD takes the host port of a live pod whose reservation was lost, once its rules are gone',
    module: 'src/commands/attach/intent.ts',
    wraps: 'refuseOwnedPorts',
    by: () => async () => undefined,
    caughtBy: { file: healed, test: 'a lost reservation of a host port is made again, without rules' },
  },
]
