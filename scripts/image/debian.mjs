// SPDX-License-Identifier: Apache-2.0
// The files of the image that come from Debian: programs, what ld.so loads for them, and their data. Packages are
// downloaded by apt, which checks their signatures, and unpacked; none is installed, none of their scripts is run.
import { execFileSync } from 'node:child_process'
import { lstatSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, renameSync, rmSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'

/** Needed by scripts of packages, which are not run. A library that is needed after all is told as missing. */
const unused = /^(perl|libperl|usrmerge$|dpkg$|debconf|debianutils|tar$|lib(file|text|number|gdbm|db5)|init-system)/

/**
 * The files, sorted by name: `{name, data, mode}`, or `{name, link}`; and the packages that they are of:
 * `{name, version, control}`. `wanted`: what each package is there for, as paths in a system with merged /usr; `cache`:
 * where downloaded packages are kept; `arch`: in Debian's words. Throws where apt cannot download, and where a library is missing.
 */
export function debianFiles(wanted, cache, arch) {
  mkdirSync(cache, { recursive: true })
  const packages = download(wanted, cache, arch)
  const root = mkdtempSync(join(cache, 'root-'))
  try {
    const owners = new Map(packages.flatMap((each) => unpack(join(cache, each.file), root).map((name) => [name, each])))
    const names = withLibraries(wanted, root, triplets[arch])
    const used = new Set([...names].flatMap((name) => owners.get(name)?.name ?? []))
    return {
      files: [...names].sort().map((name) => fileOf(root, name)),
      packages: packages.filter(({ name }) => used.has(name)).sort((a, b) => (a.name < b.name ? -1 : 1)),
    }
  } finally {
    rmSync(root, { recursive: true })
  }
}

const triplets = { amd64: 'x86_64-linux-gnu', arm64: 'aarch64-linux-gnu' }

/** apt-get with lists of its own, so that another architecture needs no change of this machine. */
function openApt(arch, cache) {
  const lists = join(cache, `lists-${arch}`)
  mkdirSync(join(lists, 'partial'), { recursive: true })
  const settings = [`APT::Architecture=${arch}`, `Dir::State::lists=${lists}`, 'Dir::State::status=/dev/null']
  const options = ['-q', '-y', ...settings.flatMap((each) => ['-o', each]), '-o', `APT::Architectures::=${arch}`]
  return (args, cwd) =>
    execFileSync('apt-get', [...options, ...args], { cwd, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })
}

/** As on a machine with nothing installed: what is wanted and everything that it depends on. */
function download(wanted, cache, arch) {
  const apt = openApt(arch, cache)
  const list = () => apt(['install', '--print-uris', '--no-install-recommends', ...Object.keys(wanted)])
  let uris
  try {
    uris = list()
  } catch {
    apt(['update'])
    uris = list()
  }
  const found = [...uris.matchAll(/^'\S+' (\S+)_(\S+)_(\S+)\.deb (\d+)/gm)].map(([, name, version]) => ({
    name,
    version: decodeURIComponent(version),
  }))
  const packages = found.filter(({ name }) => !unused.test(name))
  const fileOfPackage = ({ name, version }) =>
    readdirSync(cache).find((file) =>
      [arch, 'all'].some((each) => file === `${name}_${version.replaceAll(':', '%3a')}_${each}.deb`),
    )
  const absent = packages.filter((each) => fileOfPackage(each) === undefined)
  if (absent.length > 0) {
    const work = mkdtempSync(join(cache, 'download-'))
    try {
      const specs = absent.map(({ name, version }) => `${name}=${version}`)
      apt(['download', ...specs], work)
      // Whole or not at all, where two builds run at once.
      for (const file of readdirSync(work)) renameSync(join(work, file), join(cache, file))
    } finally {
      rmSync(work, { recursive: true })
    }
  }
  return packages.map((each) => {
    const file = fileOfPackage(each)
    if (file === undefined) throw new Error(`image: apt-get did not download ${each.name} ${each.version}`)
    const control = execFileSync('dpkg-deb', ['-f', join(cache, file)], { encoding: 'utf8' })
    return { ...each, file, control }
  })
}

/** Unpacks a package as a system with merged /usr has it; returns the names of its files. */
function unpack(deb, root) {
  const work = `${root}.work`
  execFileSync('dpkg-deb', ['-x', deb, work])
  try {
    return walk(work).map((name) => {
      const to = merged(name)
      mkdirSync(dirname(join(root, to)), { recursive: true })
      renameSync(join(work, name), join(root, to))
      return to
    })
  } finally {
    rmSync(work, { recursive: true })
  }
}

const merged = (name) => (/^(bin|sbin|lib|lib64)\//.test(name) ? `usr/${name}` : name)

function walk(root, under = '') {
  return readdirSync(join(root, under), { withFileTypes: true }).flatMap((entry) => {
    const name = join(under, entry.name)
    return entry.isDirectory() ? walk(root, name) : [name]
  })
}

/** The wanted files, and those that they lead to: targets of links, and libraries of programs. */
function withLibraries(wanted, root, triplet) {
  const names = new Set()
  const queue = Object.values(wanted).flatMap((paths) => paths.map((path) => path.replace('ARCH', triplet)))
  for (let name = queue.shift(); name !== undefined; name = queue.shift()) {
    if (names.has(name)) continue
    const path = join(root, name)
    const stat = lstatSync(path, { throwIfNoEntry: false })
    if (stat === undefined) throw new Error(`image: no package has /${name}`)
    if (stat.isDirectory()) {
      queue.push(...walk(root, name))
      continue
    }
    names.add(name)
    if (stat.isSymbolicLink()) queue.push(merged(resolve('/', dirname(name), readlinkSync(path)).slice(1)))
    else for (const library of neededBy(path)) queue.push(`usr/lib/${triplet}/${library}`)
  }
  return names
}

function neededBy(path) {
  if (readFileSync(path).readUInt32BE(0) !== 0x7f454c46) return []
  const dynamic = execFileSync('readelf', ['-d', path], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })
  const names = [...dynamic.matchAll(/\(NEEDED\).*\[(.+)\]/g)].map(([, name]) => name)
  return names.filter((name) => !name.startsWith('ld-linux'))
}

function fileOf(root, name) {
  const path = join(root, name)
  const stat = lstatSync(path)
  if (stat.isSymbolicLink()) return { name, link: readlinkSync(path) }
  return { name, data: readFileSync(path), mode: stat.mode & 0o111 ? 0o755 : 0o644 }
}
