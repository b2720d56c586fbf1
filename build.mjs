// SPDX-License-Identifier: Apache-2.0
// The whole build: four bundles, one executable, the list of what is inside, their sums. `--arm64` also cross-builds for arm64 (without a
// startup snapshot), `--empty` makes the empty executable and prints the start-up time beside it.
import { execFileSync, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { build } from 'esbuild'
import { gateAgent, gateBundle, gateText } from './scripts/bundle-gate.mjs'
import { leanClient } from './scripts/lean-client.mjs'
import { pack } from './scripts/pack.mjs'
import { sbom } from './scripts/sbom.mjs'
import { startTimes } from './scripts/start-time.mjs'
import { compile } from './src/catalogue/compile.ts'

process.chdir(import.meta.dirname)
const { values: flags } = parseArgs({
  options: { arm64: { type: 'boolean' }, empty: { type: 'boolean' } },
})
const dist = (name) => join(import.meta.dirname, 'dist', name)
const { version } = JSON.parse(readFileSync('package.json', 'utf8'))

function commit() {
  try {
    const git = (...args) => execFileSync('git', args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim()
    return (
      git('rev-parse', '--short=12', 'HEAD') + (git('status', '--porcelain', '--untracked-files=no') ? '-dirty' : '')
    )
  } catch {
    return 'unknown' // an unpacked archive, or no commit yet
  }
}

async function bundle(entry, outfile, plugins = []) {
  const define = { TRESTLE_VERSION: JSON.stringify(version), TRESTLE_COMMIT: JSON.stringify(commit()) }
  const { metafile } = await build({
    entryPoints: [entry],
    outfile,
    define,
    absWorkingDir: import.meta.dirname, // the gate reads paths relative to it
    bundle: true,
    // Its other form loads parts by a name that esbuild cannot see.
    alias: { 'jsonc-parser': 'jsonc-parser/lib/esm/main.js' },
    platform: 'node',
    format: 'cjs',
    target: 'node26',
    minify: true,
    metafile: true,
    plugins,
    sourcemap: 'external',
    legalComments: 'none',
    logLevel: 'warning',
  })
  writeFileSync(`${outfile}.meta.json`, JSON.stringify(metafile))
  gateText(outfile)
  return metafile
}

/** A timer in the start-up snapshot stops all timers of a call: STATUS, which waits a second, would end without a word. */
function requireTimers(executable) {
  const conf = { cniVersion: '1.1.0', name: 'build', type: 'trestle', ipam: { type: 'none0' } }
  const env = { CNI_COMMAND: 'STATUS', PATH: process.env.PATH }
  const { stdout } = spawnSync(executable, { env, input: JSON.stringify(conf), encoding: 'utf8' })
  if (stdout === '') throw new Error(`${executable}: no timer fires, something was left at work in the warm-up`)
}

mkdirSync('dist', { recursive: true })
const cni = await bundle('src/main.ts', dist('trestle.cjs'))
gateBundle(cni)
const cli = await bundle('src/commands/command-line.ts', dist('cli.cjs'))
const record = await bundle('src/recording/keep-call.ts', dist('record.cjs'))
const agent = await bundle('src/agent/agent-main.ts', dist('agent.cjs'), [leanClient])
gateAgent(agent)
const metafiles = { 'trestle.cjs': cni, 'cli.cjs': cli, 'agent.cjs': agent, 'record.cjs': record }
writeFileSync(dist('trestle.cdx.json'), sbom({ metafiles }))
if (flags.arm64) writeFileSync(dist('trestle-arm64.cdx.json'), sbom({ metafiles, arch: 'arm64' }))

const catalogue = Object.entries(compile())
for (const [name, text] of catalogue) writeFileSync(dist(name), text)
const assetNames = ['cli.cjs', 'agent.cjs', 'record.cjs', ...catalogue.map(([name]) => name)]
const input = { entry: dist('trestle.cjs'), assets: Object.fromEntries(assetNames.map((name) => [name, dist(name)])) }
await pack({ ...input, output: dist('trestle') })
requireTimers(dist('trestle'))
const names = ['trestle', 'trestle.cjs', ...assetNames, 'trestle.cdx.json']
if (flags.arm64) {
  try {
    await pack({ ...input, output: dist('trestle-arm64'), arch: 'arm64' })
    names.splice(1, 0, 'trestle-arm64')
  } catch (error) {
    console.log(`trestle-arm64 not made: ${error.message}`)
  }
}
const sha256 = (name) =>
  createHash('sha256')
    .update(readFileSync(dist(name)))
    .digest('hex')
writeFileSync(dist('SHA256SUMS'), names.map((name) => `${sha256(name)}  ${name}\n`).join(''))

// What the runtime costs as it is: bytecode that is not used stays in.
const emptyMain = join(import.meta.dirname, 'scripts/empty-main.cjs')
if (flags.empty) await pack({ entry: emptyMain, output: dist('empty'), isLean: false })
const call = {
  name: 'trestle',
  file: dist('trestle'),
  env: { CNI_COMMAND: 'VERSION' },
  input: '{"cniVersion":"1.1.0"}',
}
const [own, empty] = startTimes(
  existsSync(dist('empty')) ? [call, { name: 'empty', file: dist('empty') }] : [call],
  flags.empty ? 40 : 5,
)
const ms = ({ minMs, medianMs }) => `${minMs.toFixed(1)} / ${medianMs.toFixed(1)} ms`
const over = empty ? `, empty executable ${ms(empty)}, over it ${(own.medianMs - empty.medianMs).toFixed(1)} ms` : ''
const mb = (statSync(dist('trestle')).size / 1e6).toFixed(1)
console.log(`dist/trestle ${version} ${commit()}: ${mb} MB; VERSION min / median ${ms(own)}${over}`)
