// SPDX-License-Identifier: Apache-2.0
// Loads the commands for humans. They are a second bundle, so that the CNI path does not pay for
// them: an asset of the executable, or the file beside the bundle when run unpacked.
import { readFileSync, realpathSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { getAsset, isSea } from 'node:sea'
import { compileFunction } from 'node:vm'

const asset = 'cli.cjs'

/** What the cli bundle exports: runs the words after the program's name, gives the exit code. */
export type CliMain = (args: readonly string[]) => Promise<number>

/**
 * Compiles the cli bundle and returns its `main`. Throws if the bundle is missing or has no `main`.
 *
 * The bundle gets a `require` for builtins only: in an executable started from a snapshot neither
 * `import()` nor a `require` of files works (nodejs.org/api/single-executable-applications.html).
 */
export function loadCli(): CliMain {
  const path = isSea() ? asset : join(dirname(realpathSync(process.argv[1] ?? '.')), asset)
  const source = isSea() ? getAsset(asset, 'utf8') : readFileSync(path, 'utf8')
  const module: { exports: { main?: CliMain } } = { exports: {} }
  const run = compileFunction(source, ['exports', 'require', 'module'], { filename: path })
  run(module.exports, requireBuiltin, module)
  if (typeof module.exports.main !== 'function') throw new Error(`${path}: no function main`)
  return module.exports.main
}

function requireBuiltin(id: string): unknown {
  const found: unknown = process.getBuiltinModule(id)
  if (found === undefined) throw new Error(`${asset}: '${id}' is not a builtin module`)
  return found
}
