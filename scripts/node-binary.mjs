// SPDX-License-Identifier: Apache-2.0
// The Node binary that goes into the executable: from npm, at the version package.json names, stripped, and for x86-64
// without its need of libatomic.so.1, with libraries looked for beside it, and without a walk over the heap at each start.
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { chmodSync, copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { withoutLibatomic } from './without-libatomic.mjs'
import { withoutSourcePositions } from './without-source-positions.mjs'

const root = join(import.meta.dirname, '..')
const cache = join(root, 'node_modules/.cache/trestle')
const lock = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8'))

/**
 * The path of a stripped node for `arch` ('x64' or 'arm64'), made once and kept in node_modules/.cache.
 * npm installs only the package of this machine's architecture; the other one is downloaded on first use.
 */
export function strippedNode(arch) {
  const { version, integrity } = lock.packages[`node_modules/node-linux-${arch}`]
  const stripped = join(cache, `node-${version}-${arch}-own-atomics-origin-no-walk`)
  if (existsSync(stripped)) return stripped
  mkdirSync(cache, { recursive: true })
  const work = mkdtempSync(join(cache, 'work-'))
  try {
    const installed = join(root, `node_modules/node-linux-${arch}/bin/node`)
    const original = existsSync(installed) ? installed : download(`node-linux-${arch}@${version}`, { integrity, work })
    const copy = join(work, 'node')
    copyFileSync(original, copy)
    strip(copy)
    if (arch === 'x64') change(copy, version)
    chmodSync(copy, 0o755)
    renameSync(copy, stripped)
  } finally {
    rmSync(work, { recursive: true })
  }
  return stripped
}

/** What cannot be changed stays, and is said: the executable is only slower, or needs a library more. */
function change(path, version) {
  const needs = withoutLibatomic(path)
  if (needs !== undefined) console.log(`hosts need libatomic.so.1 (libatomic1), as this node does: ${needs}`)
  const walks = withoutSourcePositions(path, version)
  if (walks !== undefined) console.log(`each start walks the heap, as that of this node does (1 ms): ${walks}`)
}

/** Fetches a package with `npm pack` and returns the path of its bin/node. Throws unless it is the locked one. */
function download(spec, { integrity, work }) {
  const quiet = { cwd: work, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] }
  const file = execFileSync('npm', ['pack', '--silent', spec], quiet).trim()
  const digest = createHash('sha512').update(readFileSync(join(work, file)))
  if (`sha512-${digest.digest('base64')}` !== integrity) throw new Error(`${spec}: not what package-lock.json names`)
  execFileSync('tar', ['-xzf', file, 'package/bin/node'], quiet)
  return join(work, 'package/bin/node')
}

/** GNU strip knows its own architecture only, llvm-strip all; unstripped works too and is 30 MB larger. */
function strip(path) {
  for (const tool of ['strip', 'llvm-strip']) {
    try {
      execFileSync(tool, ['--strip-all', path], { stdio: ['ignore', 'ignore', 'pipe'] })
      return
    } catch {
      // missing, or not for this architecture: the next one
    }
  }
  console.log(`neither strip nor llvm-strip can strip ${path}: packed unstripped`)
}
