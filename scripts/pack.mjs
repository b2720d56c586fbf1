// SPDX-License-Identifier: Apache-2.0
// Bundles to executables: Node from npm, stripped, with the bundle injected by @yao-pkg/pkg.
// With `snapshot`, the executable starts from a V8 startup snapshot; the bundle then has to call
// v8.startupSnapshot.setDeserializeMainFunction. Only possible for this machine's architecture.
import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createRequire } from 'node:module'
import { join, resolve } from 'node:path'
import { strippedNode } from './node-binary.mjs'
import { withoutCodeCache } from './snapshot-blob.mjs'

const require = createRequire(import.meta.url)

/**
 * Makes the executable `output` from the CommonJS bundle `entry` (absolute paths). `assets` maps names to
 * files. `isLean`: what a start does not run is left out of the snapshot. Throws if the injection did not happen: pkg may
 * leave a bare node without saying so.
 */
export async function pack({
  entry,
  output,
  assets = {},
  arch = 'x64',
  snapshot = arch === process.arch,
  isLean = true,
}) {
  const node = strippedNode(arch)
  const partial = `${output}.partial`
  const seaConfig = { useSnapshot: snapshot, useCodeCache: false, disableExperimentalSEAWarning: true, assets }
  seaConfig.execArgvExtension = 'none' // NODE_OPTIONS of the runtime must not reach the plugin
  // The fixed hash seed saves 2 ms with a snapshot; without one every cached builtin is rejected (+4 ms).
  // A call is over before code of the baseline compiler pays: compiling 500 functions costs an ADD 4 ms of CPU; nor does
  // that of the next one, which a thread makes of the digest's inner loop (0.5 M instructions, 100 page faults).
  // The heap's first half space of 1 MB is full in the middle of an ADD: with a larger one nothing is collected (0.5 ms,
  // and threads that help).
  // Node starts four threads for V8 and ends them again; a call has no work for them (0.5 ms).
  const small = ['--min-semi-space-size=4', '--v8-pool-size=1']
  // OPENSSL_CONF and /etc/ssl/openssl.cnf could load a library, or end a call without a document; SIGUSR1 opened Node's
  // inspector on a port. Without OpenSSL's configuration to read, a start is 0.9 M instructions shorter.
  const closed = ['--openssl-config=/dev/null', '--disable-sigusr1']
  seaConfig.execArgv = snapshot
    ? [...closed, '--no-rehash-snapshot', '--no-sparkplug', '--no-maglev', ...small]
    : closed
  const targets = [{ nodeRange: 'node26', platform: 'linux', arch: process.arch, output: partial }]
  // The blob does not depend on the architecture without a snapshot: pkg may run this machine's node.
  const maker = strippedNode(process.arch)
  const making = (from, nodePath) => loadSea()(from, { targets, nodePath, seaConfig })
  const injected = await withInjection({ node, snapshot }, () =>
    inWorkshop(() =>
      snapshot && isLean ? withLeanHeap({ entry, maker }, making) : withoutHeap({ entry, maker }, making),
    ),
  )
  if (!injected || statSync(partial).size <= statSync(node).size) {
    rmSync(partial, { force: true })
    throw new Error(`pack: nothing was injected into ${output}`)
  }
  // One write of 124 MB is cached in pages of up to 2 MB, which a call maps whole: 80 MiB resident for 44 (Linux 6.18,
  // ext4). A copy's are those of a file that came to a node in the usual ways.
  const copy = `${output}.copy`
  copyFileSync(partial, copy)
  rmSync(partial)
  chmodSync(copy, 0o755)
  renameSync(copy, output)
}

/** Where bundles are packed. Its name is in the executable, so it is the same on every machine. */
const workshop = '/tmp/trestle-pack'

/** Runs `packing` with a workshop that is this process's alone. */
async function inWorkshop(packing) {
  try {
    mkdirSync(workshop, { mode: 0o700 })
  } catch (error) {
    if (error.code !== 'EEXIST') throw error
    throw new Error(`pack: ${workshop} is there: another build is running. If none is, remove it`)
  }
  try {
    return await packing()
  } finally {
    rmSync(workshop, { recursive: true })
  }
}

async function withoutHeap({ entry, maker }, making) {
  const from = join(workshop, 'bundle.cjs')
  copyFileSync(entry, from)
  return making(from, maker)
}

/**
 * Runs `making` with snapshot-lean.cjs behind the bundle and a node that lets it in, and prints what the two had to say. The
 * same bundle gives the same bytes: V8 takes its numbers from a seed, works in one thread and compiles nothing on the side,
 * what it can see of the machine is the same everywhere, and snapshot-same.cjs takes the rest away.
 */
async function withLeanHeap({ entry, maker }, making) {
  const [from, node, real, log, tools] = ['bundle.cjs', 'node', 'real', 'stderr', 'bin'].map((name) =>
    join(workshop, name),
  )
  writeFileSync(from, ['snapshot-same.cjs', entry, 'snapshot-lean.cjs'].map(read).join(''))
  copyFileSync(maker, real) // a link's target would be in the snapshot
  // The warm-up runs `cat` in place of every tool, and looks whether they are there.
  mkdirSync(tools)
  for (const name of ['cat', 'conntrack', 'ip', 'nft', 'nsenter', 'sysctl', 'tc'])
    symlinkSync('/bin/cat', join(tools, name))
  // pkg's own options for node do not reach the process that makes the blob.
  const options = '--expose-internals --random-seed=42 --predictable --no-opt --no-sparkplug --no-maglev'
  const script = [
    '#!/bin/sh',
    `cd ${workshop}`,
    'if [ -f "$2" ]; then cp "$2" sea-config.json; set -- "$1" sea-config.json; fi',
    `exec env -i PATH=${tools} HOME=/ TZ=UTC ${real} ${options} "$@" 2>>stderr`,
    '',
  ]
  writeFileSync(node, script.join('\n'), { mode: 0o755 })
  await making(from, node)
  for (const line of readFileSync(log, 'utf8').split('\n')) if (/^(snapshot|warm-up): /.test(line)) console.log(line)
}

function read(name) {
  return readFileSync(resolve(import.meta.dirname, name), 'utf8')
}

function loadSea() {
  require('@yao-pkg/pkg/lib-es5/log').log.info = () => {} // it names the architecture of the blob's maker, not the target's
  return require('@yao-pkg/pkg/lib-es5/sea').default
}

/**
 * Runs `packing` with postject's `inject` replaced: it injects into a copy of `node`, whatever pkg copied,
 * and drops the builtin code cache from a snapshot's blob. Returns whether an injection was made.
 */
async function withInjection({ node, snapshot }, packing) {
  const postject = require('postject')
  const { inject } = postject
  let injected = false
  postject.inject = async (file, resource, blob, options) => {
    copyFileSync(node, file)
    const smaller = snapshot ? withoutCodeCache(blob) : undefined
    if (snapshot && !smaller) console.log('pack: unknown snapshot layout: the builtin code cache stays in (2 ms)')
    await inject(file, resource, smaller ?? blob, options)
    injected = true
  }
  try {
    await packing()
  } finally {
    postject.inject = inject
  }
  return injected
}
