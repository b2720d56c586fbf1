// SPDX-License-Identifier: Apache-2.0
// Everything that is published, from dist/ into dist/release/: archives, packages, the image, manifests, and what says
// which bytes they are. Times are the commit's and owners are root: the same commit gives the same files.
// usage: npm run release [-- --image NAME]      NAME: the registry that the image will be in, without a tag
// needs: Debian's dpkg-deb, rpm and tar; npm and Debian's archive for the parts for arm64
import { createHash } from 'node:crypto'
import { cpSync, createReadStream, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { parseArgs } from 'node:util'
import { execaSync } from 'execa'
import { manifests } from './release/manifests.mjs'
import { buildDeb, buildRpm } from './release/packages.mjs'
import { provenance } from './release/provenance.mjs'

const root = join(import.meta.dirname, '..')
const out = join(root, 'dist/release')
const { values } = parseArgs({ options: { image: { type: 'string', default: 'localhost/trestle' } } })
const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
const git = (...words) => execaSync('git', words, { cwd: root }).stdout
if (git('status', '--porcelain', '--untracked-files=no') !== '') throw new Error('release: commit your changes first')
const commit = git('rev-parse', 'HEAD')
process.umask(0o022)
const env = { SOURCE_DATE_EPOCH: git('log', '-1', '--format=%ct'), TZ: 'UTC', LC_ALL: 'C' }
const run = (file, ...args) => execaSync(file, args, { cwd: root, env, stdio: ['ignore', 'ignore', 'inherit'] })

/** Debian's and RPM's words for the two machines. */
const machines = [
  { deb: 'amd64', rpm: 'x86_64', executable: 'dist/trestle' },
  { deb: 'arm64', rpm: 'aarch64', executable: 'dist/trestle-arm64' },
]

run(process.execPath, 'build.mjs', '--arm64')
rmSync(out, { recursive: true, force: true })
const completions = Object.fromEntries(
  ['bash', 'zsh', 'fish'].map((shell) => [
    shell,
    execaSync('dist/trestle', ['completion', shell], { cwd: root }).stdout,
  ]),
)
for (const machine of machines) {
  const name = `trestle-${version}-linux-${machine.deb}`
  const stage = join(out, 'stage', name)
  stageFiles(stage, machine)
  archive(`${name}.tar.gz`, dirname(stage), name)
  buildDeb({ stage, out, machine, version, run })
  buildRpm({ stage, out, machine, version, run })
}
const image = `trestle-${version}-image.tar`
const index = execaSync(
  process.execPath,
  ['scripts/image.mjs', '--arm64', 'dist/trestle-arm64', '--name', values.image, '--out', join(out, image)],
  { cwd: root, env, stderr: 'inherit' },
).stdout.match(/index (sha256:[0-9a-f]{64})/)[1]
manifests({ root, out, version, image: `${values.image}@${index}`, archive })
cpSync(join(root, 'scripts/release/install.sh'), join(out, 'install.sh'))
for (const { deb, executable } of machines)
  cpSync(join(root, `${executable}.cdx.json`), join(out, `trestle-${version}-${deb}.cdx.json`))
rmSync(join(out, 'stage'), { recursive: true })
const digests = new Map()
for (const name of readdirSync(out).sort()) digests.set(name, await sha256(join(out, name)))
writeFileSync(join(out, `trestle-${version}.intoto.json`), provenance({ digests, commit, version, root }))
digests.set(`trestle-${version}.intoto.json`, await sha256(join(out, `trestle-${version}.intoto.json`)))
writeFileSync(join(out, 'SHA256SUMS'), [...digests].map(([name, digest]) => `${digest}  ${name}\n`).join(''))
console.log(`dist/release: ${digests.size + 1} files of ${version}, commit ${commit.slice(0, 12)}, image ${index}`)

/** What each archive and package has, in one folder. */
function stageFiles(stage, { executable }) {
  mkdirSync(join(stage, 'completions'), { recursive: true })
  run('install', '-m', '755', executable, join(stage, 'trestle'))
  for (const name of ['LICENSE', 'README.md']) run('install', '-m', '644', name, stage)
  run('cp', '-r', '--no-preserve=mode', 'conf-examples', 'docs', stage)
  for (const [shell, text] of Object.entries(completions))
    writeFileSync(join(stage, 'completions', `trestle.${shell}`), `${text}\n`)
}

/** A .tar.gz that depends on the names and bytes of its files alone. */
function archive(name, directory, ...members) {
  const sameBytes = ['--sort=name', '--owner=0', '--group=0', '--numeric-owner', `--mtime=@${env.SOURCE_DATE_EPOCH}`]
  run(
    'tar',
    ...sameBytes,
    '--mode=u+rwX,go+rX,go-w',
    '--use-compress-program=gzip -n',
    '-C',
    directory,
    '-cf',
    join(out, name),
    ...members,
  )
}

async function sha256(file) {
  const hash = createHash('sha256')
  await pipeline(createReadStream(file), hash)
  return hash.digest('hex')
}
