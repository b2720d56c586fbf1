// SPDX-License-Identifier: Apache-2.0
// What an operator has at hand on a private machine: trestle and crictl, in DIR/tools.

import { copyFile, mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'

/** Puts both there, for the runtime behind `socket`. `dir`: the machine's scratch folder. */
export async function installTools(dir: string, socket: string): Promise<void> {
  await mkdir(join(dir, 'tools'))
  await copyFile('dist/trestle', join(dir, 'tools/trestle'))
  const outfile = join(dir, 'tools/crictl.mjs')
  const banner = { js: "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url)" }
  const entryPoints = [fileURLToPath(new URL('crictl.ts', import.meta.url))]
  await build({ entryPoints, outfile, bundle: true, platform: 'node', format: 'esm', banner, logLevel: 'silent' })
  const script = `#!/bin/sh\nCONTAINER_RUNTIME_ENDPOINT=${socket} exec ${process.execPath} ${outfile} "$@"\n`
  await writeFile(join(dir, 'tools/crictl'), script, { mode: 0o755 })
}
