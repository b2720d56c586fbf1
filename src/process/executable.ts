// SPDX-License-Identifier: Apache-2.0
// The executable's names, and its other bundles, each an asset of it, or a file beside the bundle when run unpacked: the
// commands for people, the agent, and what writes a call down. The usual call does not pay for them.

import { readFileSync, realpathSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { getAsset, isSea } from 'node:sea'
import { compileFunction } from 'node:vm'
import { ownType } from '../cni/call.ts'

/** The bundles, and their files in `dist/` (build.mjs). */
type BundleName = 'cli.cjs' | 'agent.cjs' | 'record.cjs'

/**
 * Compiles a bundle and returns its `main`. Throws if the bundle is missing or has no `main`.
 *
 * The bundle gets a `require` for builtins only: in an executable started from a snapshot neither
 * `import()` nor a `require` of files works (nodejs.org/api/single-executable-applications.html).
 */
export function loadBundle<Main>(asset: BundleName): Main {
  const path = isSea() ? asset : join(dirname(realpathSync(process.argv[1] ?? '.')), asset)
  const source = isSea() ? getAsset(asset, 'utf8') : readFileSync(path, 'utf8')
  const module: { exports: { main?: Main } } = { exports: {} }
  const run = compileFunction(source, ['exports', 'require', 'module'], { filename: path })
  run(module.exports, requireBuiltinOf(asset), module)
  if (module.exports.main === undefined) throw new Error(`${path}: no main`)
  return module.exports.main
}

function requireBuiltinOf(asset: BundleName) {
  return (id: string): unknown => {
    const found: unknown = process.getBuiltinModule(id)
    if (found === undefined) throw new Error(`${asset}: '${id}' is not a builtin module`)
    return found
  }
}

/**
 * The types of a configuration that mean this executable (CNI spec 1.1.0, section 1: a runtime finds the file by the
 * type): the name that it was called by, the name of the file where that is a link to it, and `trestle`.
 */
export function ownTypes(): readonly string[] {
  // A runtime starts the file by its path, which is argv[0]; Node's execPath is what /proc/self/exe says.
  const files = isSea() ? [process.argv0, process.execPath] : [process.argv[1] ?? '']
  return [...new Set([...files.map((file) => basename(file)), ownType])].filter((name) => name !== '')
}
