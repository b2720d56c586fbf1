// SPDX-License-Identifier: Apache-2.0
// A mutant is a small defect that a named test must see: an exported function of a module behaves otherwise.
// `npm run mutants` switches each on in a copy of the tree, runs its test and wants it red: a test that stays green
// guards nothing. Tables import types alone of src: they are loaded beside it.

/** Whose functions mutants wrap: the compiler sees a function that is gone or takes something else. */
interface Modules {
  'src/cni/error.ts': typeof import('../../src-before/cni/error.ts')
  'src/cni/config-head.ts': typeof import('../../src-before/cni/config-head.ts')
  'src/cni/result-shapes.ts': typeof import('../../src-before/cni/result-shapes.ts')
  'src/commands/attach/intent.ts': typeof import('../../src-before/commands/attach/intent.ts')
  'src/commands/attach/range-overlap.ts': typeof import('../../src-before/commands/attach/range-overlap.ts')
  'src/commands/call/attachment-records.ts': typeof import('../../src-before/commands/call/attachment-records.ts')
  'src/commands/call/dispatch.ts': typeof import('../../src-before/commands/call/dispatch.ts')
  'src/commands/recover/collect.ts': typeof import('../../src-before/commands/recover/collect.ts')
  'src/commands/recover/recover.ts': typeof import('../../src-before/commands/recover/recover.ts')
  'src/commands/recover/without-record.ts': typeof import('../../src-before/commands/recover/without-record.ts')
  'src/commands/teardown/attachments.ts': typeof import('../../src-before/commands/teardown/attachments.ts')
  'src/commands/teardown/delegated-lease.ts': typeof import('../../src-before/commands/teardown/delegated-lease.ts')
  'src/commands/teardown/remove-attachment.ts': typeof import('../../src-before/commands/teardown/remove-attachment.ts')
  'src/commands/verbs/check.ts': typeof import('../../src-before/commands/verbs/check.ts')
  'src/commands/verbs/gc.ts': typeof import('../../src-before/commands/verbs/gc.ts')
  'src/config/bridge.ts': typeof import('../../src-before/config/bridge.ts')
  'src/drivers/attach.ts': typeof import('../../src-before/drivers/attach.ts')
  'src/drivers/bridge.ts': typeof import('../../src-before/drivers/bridge.ts')
  'src/drivers/specs.ts': typeof import('../../src-before/drivers/specs.ts')
  'src/features/accept-place.ts': typeof import('../../src-before/features/accept-place.ts')
  'src/features/bandwidth.ts': typeof import('../../src-before/features/bandwidth.ts')
  'src/features/firewall.ts': typeof import('../../src-before/features/firewall.ts')
  'src/features/host-ports.ts': typeof import('../../src-before/features/host-ports.ts')
  'src/features/masquerade.ts': typeof import('../../src-before/features/masquerade.ts')
  'src/features/port-conditions.ts': typeof import('../../src-before/features/port-conditions.ts')
  'src/features/tuning.ts': typeof import('../../src-before/features/tuning.ts')
  'src/model/kinds.ts': typeof import('../../src-before/model/kinds.ts')
  'src/model/names.ts': typeof import('../../src-before/model/names.ts')
  'src/model/record.ts': typeof import('../../src-before/model/record.ts')
  'src/model/tables.ts': typeof import('../../src-before/model/tables.ts')
  'src/plan/ipam/allocate.ts': typeof import('../../src-before/plan/ipam/allocate.ts')
  'src/plan/ipam/bridge-addresses.ts': typeof import('../../src-before/plan/ipam/bridge-addresses.ts')
  'src/plan/ipam/range-overlap.ts': typeof import('../../src-before/plan/ipam/range-overlap.ts')
  'src/plan/order/difference.ts': typeof import('../../src-before/plan/order/difference.ts')
  'src/plan/order/facts.ts': typeof import('../../src-before/plan/order/facts.ts')
  'src/plan/order/stage.ts': typeof import('../../src-before/plan/order/stage.ts')
  'src/plan/order/stages.ts': typeof import('../../src-before/plan/order/stages.ts')
  'src/plan/recovery/verdicts.ts': typeof import('../../src-before/plan/recovery/verdicts.ts')
  'src/plan/state/config-digest.ts': typeof import('../../src-before/plan/state/config-digest.ts')
  'src/system/files/files.ts': typeof import('../../src-before/system/files/files.ts')
  'src/system/ipam/ipam.ts': typeof import('../../src-before/system/ipam/ipam.ts')
  'src/system/upstream/host-local-leases.ts': typeof import('../../src-before/system/upstream/host-local-leases.ts')
  'src/system/kernel/host-namespace.ts': typeof import('../../src-before/system/kernel/host-namespace.ts')
  'src/system/kernel/kernel-files.ts': typeof import('../../src-before/system/kernel/kernel-files.ts')
  'src/system/kernel/listening.ts': typeof import('../../src-before/system/kernel/listening.ts')
  'src/system/kernel/netns.ts': typeof import('../../src-before/system/kernel/netns.ts')
  'src/system/process/call-processes.ts': typeof import('../../src-before/system/process/call-processes.ts')
  'src/system/process/executable.ts': typeof import('../../src-before/system/process/executable.ts')
  'src/system/process/process-identity.ts': typeof import('../../src-before/system/process/process-identity.ts')
  'src/system/process/runner.ts': typeof import('../../src-before/system/process/runner.ts')
  'src/system/store/addresses.ts': typeof import('../../src-before/system/store/addresses.ts')
  'src/system/store/lock.ts': typeof import('../../src-before/system/store/lock.ts')
  'src/system/store/records.ts': typeof import('../../src-before/system/store/records.ts')
  'src/tools/batches.ts': typeof import('../../src-before/tools/batches.ts')
  'src/tools/nft.ts': typeof import('../../src-before/tools/nft.ts')
}

type Path = keyof Modules

/** `wraps`: an exported function of `module`, in place of which the copy calls what `by` makes of it. */
interface Of<P extends Path, N extends keyof Modules[P]> {
  /** One sentence: what the defect does. */
  readonly name: string
  readonly module: P
  readonly wraps: N
  readonly by: (original: Modules[P][N]) => Modules[P][N]
  /** The test's name, or a part of it, as it stands in the file, where `%s` or `$name` is any text. */
  readonly caughtBy: { readonly file: `test/${'unit' | 'netns' | 'e2e'}/${string}`; readonly test: string }
}

export type Mutant = { [P in Path]: { [N in keyof Modules[P]]: Of<P, N> }[keyof Modules[P]] }[Path]
