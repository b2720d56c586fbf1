// SPDX-License-Identifier: Apache-2.0
// What a call starts and waits for: tools of killed calls are ended, locks have one holder, DEL answers when its work is
// done and no earlier, and nothing is started or asked twice.

import { readdirSync, readlinkSync, statSync } from 'node:fs'
import type { Mutant } from './mutant.ts'

const killedTools = 'test/netns/processes/killed-tools.test.ts'
const earlyAnswer = 'test/netns/teardown/early-answer.test.ts'
const processes = 'test/netns/processes/processes.test.ts'
const lookBesideTool = {
  file: 'test/netns/ports/on-listening.test.ts',
  test: 'is beside the last tool, when that is at work',
} as const

/** Of the call's own state directory: processes of other tests on the machine have others. */
function hasCallFile(pid: string): boolean {
  try {
    const links = readdirSync(`/proc/${pid}/fd`).map((fd) => readlinkSync(`/proc/${pid}/fd/${fd}`))
    return links.some((link) => link.startsWith(`${process.env['TRESTLE_STATE_DIR']}/call.`))
  } catch {
    return false
  }
}

export const mutants: readonly Mutant[] = [
  {
    name: 'DEL does not wait for what the killed ADD of its own record has at work',
    module: 'src/system/process/call-processes.ts',
    wraps: 'endProcessesOf',
    by: (original) => async (writer, deadline) => {
      const isHolder = 'purpose' in writer
      if (isHolder) await original(writer, deadline)
    },
    caughtBy: { file: killedTools, test: 'its IPAM plugin is waited for, then sent DEL, whose configuration %s' },
  },
  {
    name: 'whoever takes over the lock of a killed call does not end what it had started',
    module: 'src/system/process/call-processes.ts',
    wraps: 'endProcessesOf',
    by: (original) => async (writer, deadline) => {
      const isHolder = 'purpose' in writer
      if (!isHolder) await original(writer, deadline)
    },
    caughtBy: { file: killedTools, test: 'whoever takes over its lock ends them first' },
  },
  {
    name: 'processes of other users that have the descriptor are ended, too',
    module: 'src/system/process/call-processes.ts',
    wraps: 'endKilledCalls',
    by: (original) => async (delegates) => {
      const others = readdirSync('/proc').filter((name) => /^\d+$/.test(name) && name !== String(process.pid))
      for (const pid of others.filter(hasCallFile)) process.kill(Number(pid), 'SIGKILL')
      await original(delegates)
    },
    caughtBy: { file: killedTools, test: 'other processes live on' },
  },
  {
    name: 'tools do not inherit the descriptor',
    module: 'src/system/process/runner.ts',
    wraps: 'runnerUntil',
    by: (original) => (deadline, starter) =>
      original(deadline, starter && ((kind) => ({ ...starter(kind), fd: undefined }))),
    caughtBy: { file: killedTools, test: 'other processes live on: of the same name' },
  },
  {
    name: 'a holder of another pid namespace is dead',
    module: 'src/system/process/process-identity.ts',
    wraps: 'hasEnded',
    by: (original) => (identity, writtenMs) =>
      identity.pidNamespace !== readlinkSync('/proc/self/ns/pid') || original(identity, writtenMs),
    caughtBy: {
      file: 'test/netns/processes/lock.test.ts',
      test: 'is not taken from a process of another pid namespace, of which nothing can be told',
    },
  },
  {
    name: 'a live holder is waited for without end',
    module: 'src/system/store/lock.ts',
    wraps: 'withLock',
    by: (original) => (request, body) => original({ ...request, waitMs: 100 * request.waitMs }, body),
    caughtBy: {
      file: 'test/netns/processes/lock.test.ts',
      test: 'waits for a live holder no longer than asked, and names it',
    },
  },
  {
    name: 'sysctls are set with the interface and again with the addresses of a delegated plugin',
    module: 'src/plan/order/facts.ts',
    wraps: 'specOf',
    by: (original) => (facts) => original({ ...facts, isMade: true }),
    caughtBy: { file: processes, test: 'of an ADD with delegated IPAM set sysctls once' },
  },
  {
    name: 'the version of nft is kept whatever file is there',
    module: 'src/model/kinds.ts',
    wraps: 'decodeFile',
    by: (original) => (kind, json) => {
      const known = original(kind, json)
      const { path = '' } = (known ?? {}) as { readonly path?: string }
      const now = statSync(path, { throwIfNoEntry: false })
      return known && now ? { ...known, inode: now.ino, mtimeMs: now.mtimeMs } : known
    },
    caughtBy: { file: processes, test: 'is known to STATUS after a setup' },
  },
  {
    name: 'the look for listeners is beside an earlier tool, so the next one waits for it',
    module: 'src/plan/order/stages.ts',
    wraps: 'lastStages',
    by: (original) => (spec, after, warns) =>
      original(spec, after, warns).map((stage) => (stage.beside === 'flows' ? { ...stage, beside: 'pod' } : stage)),
    caughtBy: lookBesideTool,
  },
  {
    name: 'the look comes before a tool that was started ahead has its input',
    module: 'src/system/process/runner.ts',
    wraps: 'prestart',
    by: (original) => (run, commands) =>
      original((command) => {
        const { stdin } = command
        if (typeof stdin !== 'function') return run(command)
        return run({ ...command, stdin: (give) => stdin((text) => setImmediate(() => give(text))) })
      }, commands),
    caughtBy: lookBesideTool,
  },
  {
    name: 'DEL waits for the exit of ip',
    module: 'src/system/kernel/kernel-files.ts',
    wraps: 'isLinkGone',
    by: () => () => false,
    caughtBy: { file: earlyAnswer, test: 'waits for nothing that ends for no signal' },
  },
  {
    name: 'DEL waits for the exit of nft',
    module: 'src/plan/order/stage.ts',
    wraps: 'proofOfRules',
    by: () => () => undefined,
    caughtBy: { file: earlyAnswer, test: 'waits for nothing that ends for no signal' },
  },
  {
    name: 'DEL answers before ip has done anything',
    module: 'src/system/kernel/kernel-files.ts',
    wraps: 'isLinkGone',
    by: () => () => true,
    caughtBy: { file: earlyAnswer, test: 'removes links and rules before it answers' },
  },
  {
    name: 'nft reads the rules of others before it tells its generation',
    module: 'src/tools/batches.ts',
    wraps: 'withEvidence',
    by: (original) => (batch, proof) => {
      const shown = original(batch, proof)
      return shown.tool === 'nft' && batch.tool === 'nft' ? { ...shown, stdin: batch.stdin } : shown
    },
    caughtBy: { file: earlyAnswer, test: 'does not make nft read the rules of others' },
  },
  {
    name: 'other work in a batch of removals is cut short',
    module: 'src/tools/batches.ts',
    wraps: 'withEvidence',
    by: (original) => (batch, proof) => {
      if (proof?.kind !== 'gone' || batch.tool !== 'ip' || batch.in !== 'host') return original(batch, proof)
      const links = batch.ops.flatMap((op) => ('dev' in op ? [op.dev] : []))
      return { ...batch, evidence: { kind: 'gone', links } }
    },
    caughtBy: { file: 'test/unit/tools/evidence.test.ts', test: 'is nothing where the batch does more than remove' },
  },
]
