// SPDX-License-Identifier: Apache-2.0
// Projects, each run by its own command: `unit` and `fuzz` are pure and parallel; `netns` and `e2e`
// make network namespaces and start processes, so their files run one after the other.
import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitest/config'

const root = fileURLToPath(new URL('..', import.meta.url))

/** A project whose files run one at a time, with time for real kernels on loaded machines. */
function serial(name: string) {
  return {
    root,
    test: {
      name,
      include: [`test/${name}/**/*.test.ts`],
      fileParallelism: false,
      testTimeout: 120_000,
      hookTimeout: 120_000,
      teardownTimeout: 30_000,
    },
  }
}

export default defineConfig({
  root,
  test: {
    projects: [
      { root, test: { name: 'unit', include: ['test/unit/**/*.test.ts'], testTimeout: 20_000 } },
      { root, test: { name: 'fuzz', include: ['test/fuzz/**/*.test.ts'] } },
      serial('netns'),
      serial('e2e'),
    ],
  },
})
