// SPDX-License-Identifier: Apache-2.0
// Projects, each run by its own command: `unit` is pure and parallel; `netns` and `e2e`
// make network namespaces and start processes, so their files run one after the other; `faults` does too, but
// each of its files has a node of its own and waits much: three run at a time.
import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitest/config'

const root = fileURLToPath(new URL('..', import.meta.url))

/** The catalogue is read from its YAML: a test of the source needs no build. The code has no data: vitest caches it. */
const catalogue = {
  name: 'catalogue',
  load: (id: string) =>
    id.endsWith('/src/catalogue/built-file.ts')
      ? `import { compile } from './compile.ts'\nconst files = compile()\nexport const builtFile = (name) => files[name]`
      : undefined,
}

/** A project whose files run one at a time, with time for real kernels on loaded machines. */
function serial(name: string) {
  return {
    root,
    plugins: [catalogue],
    test: {
      name,
      include: [`test/${name}/**/*.test.ts`],
      fileParallelism: false,
      testTimeout: 240_000,
      hookTimeout: 240_000,
      teardownTimeout: 30_000,
    },
  }
}

const { test: alike } = serial('faults')
const faults = {
  root,
  plugins: [catalogue],
  test: { ...alike, fileParallelism: true, maxWorkers: 3, globalSetup: ['test/support/faults/fault-table.ts'] },
}

const kernels = serial('kernels')

export default defineConfig({
  root,
  test: {
    projects: [
      {
        root,
        plugins: [catalogue],
        test: {
          name: 'unit',
          include: ['test/unit/**/*.test.ts'],
          setupFiles: ['test/support/fuzz/seed.ts'],
          testTimeout: 60_000,
          // Pure code keeps nothing: loading what is tested anew for each file took more than a third of the time.
          isolate: false,
        },
      },
      serial('netns'),
      serial('e2e'),
      faults,
      // Run by scripts/in-kernel.sh: what this machine's kernel may lack.
      {
        ...kernels,
        test: {
          ...kernels.test,
          include: [...kernels.test.include, 'test/netns/interface/vlan.test.ts', 'test/netns/agent/overlay.test.ts'],
          testTimeout: 900_000,
          setupFiles: ['test/kernels/warm.ts'],
        },
      },
    ],
  },
})
