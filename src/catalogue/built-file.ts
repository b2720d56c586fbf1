// SPDX-License-Identifier: Apache-2.0
// The files that build.mjs makes of the catalogue: assets of the executable, or beside the bundle when run unpacked.
// Unit tests have the YAML itself in their place (test/vitest.config.ts).

import { readFileSync, realpathSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { getAsset, isSea } from 'node:sea'

export function builtFile(name: 'diagnoses.json' | 'patterns.json'): string {
  if (isSea()) return getAsset(name, 'utf8')
  return readFileSync(join(dirname(realpathSync(process.argv[1] ?? '.')), name), 'utf8')
}
