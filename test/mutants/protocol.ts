// SPDX-License-Identifier: Apache-2.0
// Every call answers with one JSON document or nothing, in the version of the caller, and a failure has a code and one
// line. A configuration means the same under each name of the executable.

import { basename } from 'node:path'
import type { Mutant } from './mutant.ts'

const dispatch = 'test/unit/commands/dispatch.test.ts'
const shapes = 'test/unit/cni/result-shapes.test.ts'

export const mutants: readonly Mutant[] = [
  {
    name: 'an error is of our version, not of the caller’s',
    module: 'src/commands/call/dispatch.ts',
    wraps: 'failure',
    by: (original) => (thrown, _, env) => original(thrown, '1.1.0', env),
    caughtBy: { file: dispatch, test: 'control characters' },
  },
  {
    name: 'a message has line breaks as they came',
    module: 'src/cni/error.ts',
    wraps: 'messageWithId',
    by: (original) => (error) => original(error).replace(/^.* \[/, () => `${error.message} [`),
    caughtBy: { file: dispatch, test: 'control characters' },
  },
  {
    name: 'a full disk is a defect of ours, 999',
    module: 'src/cni/error.ts',
    wraps: 'toCniError',
    by: (original) => (thrown) => {
      const isFull = thrown instanceof Error && 'code' in thrown && thrown.code === 'ENOSPC'
      return original(isFull && !('path' in thrown) ? thrown.message : thrown)
    },
    caughtBy: { file: dispatch, test: 'a full disk, told by write(2), which has no path' },
  },
  {
    name: 'a result that nobody reads is no reason for a DEL',
    module: 'src/commands/call/dispatch.ts',
    wraps: 'dispatch',
    by: (original) => async (input, handlers) => {
      const { teardown: _, ...output } = await original(input, handlers)
      return output
    },
    caughtBy: { file: dispatch, test: 'an ADD whose result nobody reads is taken back by DEL, no other call' },
  },
  {
    name: 'DEL reads the whole configuration, and fails where a part of it is wrong',
    module: 'src/commands/call/dispatch.ts',
    wraps: 'dispatch',
    by: (original) => async (input, handlers) => {
      if (input.env['CNI_COMMAND'] !== 'DEL') return await original(input, handlers)
      const text = await input.stdin()
      const again = { ...input, stdin: () => text }
      const env = { ...input.env, CNI_COMMAND: 'CHECK' }
      const read = await original({ ...again, env }, { ...handlers, check: async () => undefined })
      return read.exitCode === 0 ? await original(again, handlers) : read
    },
    caughtBy: {
      file: dispatch,
      test: 'DEL of a good container id and name succeeds whatever else the configuration holds',
    },
  },
  {
    name: 'VERSION answers in its own version',
    module: 'src/cni/config-head.ts',
    wraps: 'readVersionRequest',
    by: () => () => '1.1.0',
    caughtBy: { file: dispatch, test: 'VERSION with stdin %s' },
  },
  {
    name: 'VERSION fails where stdin is no JSON',
    module: 'src/commands/call/dispatch.ts',
    wraps: 'dispatch',
    by: (original) => async (input, handlers) => {
      if (input.env['CNI_COMMAND'] !== 'VERSION') return await original(input, handlers)
      try {
        JSON.parse(await input.stdin())
        return await original(input, handlers)
      } catch {
        return await original({ ...input, env: {} }, handlers)
      }
    },
    caughtBy: { file: dispatch, test: 'VERSION with stdin %s' },
  },
  {
    name: 'an address before 1.0.0 says the other family',
    module: 'src/cni/result-shapes.ts',
    wraps: 'writeResult',
    by: (original) => (result, version) =>
      original(result, version).replace(/"version":"([46])"/g, (_, family) => `"version":"${family === '4' ? 6 : 4}"`),
    caughtBy: { file: shapes, test: 'writeResult' },
  },
  {
    name: 'keys of other plugins are lost',
    module: 'src/cni/result-shapes.ts',
    wraps: 'readResult',
    by: (original) => (value, version, path) => {
      const { others: _, ...result } = original(value, version, path)
      return result
    },
    caughtBy: { file: shapes, test: 'keeps keys it does not know, at every place' },
  },
  {
    name: 'the name by which a link to the executable was called is not its type',
    module: 'src/system/process/executable.ts',
    wraps: 'ownTypes',
    by: () => () => ['trestle', basename(process.execPath)],
    caughtBy: {
      file: 'test/netns/edge/own-name.test.ts',
      test: 'is a whole plugin under its own name, and shares state with the one called trestle',
    },
  },
  {
    name: 'a configuration has another digest under each name of the executable',
    module: 'src/plan/state/config-digest.ts',
    wraps: 'configDigest',
    by:
      (original) =>
      ({ stdin, role }) =>
        original({ stdin, role: role === 'ipam' ? 'main' : 'ipam' }),
    caughtBy: {
      file: 'test/unit/plan/state/config-digest.test.ts',
      test: 'is the same under every name of the executable',
    },
  },
  {
    name: 'lint counts only entries that say mode: chained',
    module: 'src/config/bridge.ts',
    wraps: 'usualMode',
    by: () => () => 'bridge',
    caughtBy: { file: 'test/unit/cli/lint/file.test.ts', test: 'two chained entries of trestle' },
  },
]
