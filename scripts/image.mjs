// SPDX-License-Identifier: Apache-2.0
// The image that the DaemonSet of conf-examples/kubernetes runs: dist/trestle and the Debian programs that it starts, as
// an OCI archive (opencontainers/image-spec, "Image Layout"). No Docker, no registry. The same executable and the same
// packages give the same bytes.
// usage: node scripts/image.mjs [--out FILE] [--executable FILE] [--arm64 FILE] [--name NAME] [--tag TAG]
//        default: dist/trestle-image.tar, dist/trestle, no second architecture, localhost/trestle, the version
// then:  ctr --namespace k8s.io images import dist/trestle-image.tar
import { createHash } from 'node:crypto'
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { gzipSync } from 'node:zlib'
import { debianFiles } from './image/debian.mjs'
import { allocatorSettings } from './image/environment.mjs'
import { tar, tarEntry } from './tar.mjs'

const root = join(import.meta.dirname, '..')
const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
const { values } = parseArgs({
  options: {
    tag: { type: 'string', default: version },
    out: { type: 'string', default: join(root, 'dist/trestle-image.tar') },
    executable: { type: 'string', default: join(root, 'dist/trestle') },
    arm64: { type: 'string' },
    name: { type: 'string', default: 'localhost/trestle' },
  },
})
for (const file of [values.executable, values.arm64 ?? values.executable])
  if (!existsSync(file)) throw new Error(`image: there is no ${file}: npm run build`)

/**
 * What each package is there for. Both variants of iptables: which one is used is decided by the tables that the node's
 * kernel has (src/system/firewalls/foreign-firewalls.ts).
 */
const wantedOf = (arch) => ({
  iproute2: ['usr/bin/ip', 'usr/sbin/tc', 'usr/sbin/bridge', 'etc/iproute2'],
  nftables: ['usr/sbin/nft'],
  iptables: [
    ...['nft', 'legacy'].flatMap((variant) => [
      `usr/sbin/xtables-${variant}-multi`,
      ...['', '-save', '-restore'].flatMap((verb) => [
        `usr/sbin/iptables-${variant}${verb}`,
        `usr/sbin/ip6tables-${variant}${verb}`,
      ]),
    ]),
    'usr/lib/ARCH/xtables',
  ],
  'util-linux': ['usr/bin/nsenter', 'usr/bin/lsns', 'usr/bin/setpriv'],
  procps: ['usr/sbin/sysctl'],
  conntrack: ['usr/sbin/conntrack'],
  dash: ['usr/bin/dash', 'usr/bin/sh'],
  netbase: ['etc/protocols', 'etc/services'],
  'libstdc++6': ['usr/lib/ARCH/libstdc++.so.6'],
  'libgcc-s1': ['usr/lib/ARCH/libgcc_s.so.1'],
  libc6: [loaders[arch], 'usr/lib/ARCH/libdl.so.2', 'usr/lib/ARCH/libpthread.so.0'],
  ...(arch === 'arm64' ? { libatomic1: ['usr/lib/ARCH/libatomic.so.1'] } : {}),
})
const loaders = { amd64: 'usr/lib64/ld-linux-x86-64.so.2', arm64: 'usr/lib/ld-linux-aarch64.so.1' }

const sha256 = (data) => createHash('sha256').update(data).digest('hex')

/** Each folder above the files, once, before them. */
function folders(names) {
  const all = new Set()
  for (const name of names)
    for (let at = name.indexOf('/'); at !== -1; at = name.indexOf('/', at + 1)) all.add(name.slice(0, at + 1))
  return [...all].sort()
}

/** A layer: its tar's digest, and the blob that is stored. */
function layer(entries) {
  const archive = tar([
    ...folders(entries.map(({ name }) => name)).map((name) => tarEntry({ name })),
    ...entries.map(tarEntry),
  ])
  const data = gzipSync(archive, { level: 6 })
  // RFC 1952: the byte that names the system is the only one that could depend on it.
  data[9] = 255
  return { diffId: `sha256:${sha256(archive)}`, data }
}

function blob(mediaType, data) {
  return { descriptor: { mediaType, digest: `sha256:${sha256(data)}`, size: data.length }, data }
}

const json = (value) => Buffer.from(JSON.stringify(value))
const text = (name, content) => ({ name, data: Buffer.from(content), mode: 0o644 })

/** The blobs of one architecture's image, its manifest first. */
function imageOf(architecture, executable) {
  const { files, packages } = debianFiles(
    wantedOf(architecture),
    join(root, 'node_modules/.cache/trestle/debian'),
    architecture,
  )
  const base = layer([
    ...['bin', 'sbin', 'lib', 'lib64'].map((name) => ({ name, link: `usr/${name}` })),
    ...['dev/', 'proc/', 'run/', 'sys/', 'tmp/', 'var/'].map((name) => ({ name })),
    { name: 'var/run', link: '/run' },
    text('etc/passwd', 'root:x:0:0:root:/:/bin/sh\n'),
    text('etc/group', 'root:x:0:\n'),
    // Where scanners of images look for packages that dpkg did not install.
    ...packages.map(({ name, control }) => text(`var/lib/dpkg/status.d/${name}`, control)),
    ...files,
  ])
  const own = layer([
    { name: 'usr/local/bin/trestle', data: readFileSync(executable) },
    text('usr/share/doc/trestle/LICENSE', readFileSync(join(root, 'LICENSE'))),
  ])
  const layers = [base, own].map(({ data }) => blob('application/vnd.oci.image.layer.v1.tar+gzip', data))
  const config = blob(
    'application/vnd.oci.image.config.v1+json',
    json({
      architecture,
      os: 'linux',
      config: {
        Env: ['PATH=/usr/local/bin:/usr/sbin:/usr/bin', ...allocatorSettings],
        Entrypoint: ['/usr/local/bin/trestle'],
        Labels: { 'org.opencontainers.image.version': version, 'org.opencontainers.image.licenses': 'Apache-2.0' },
      },
      rootfs: { type: 'layers', diff_ids: [base, own].map(({ diffId }) => diffId) },
      history: [{ created_by: 'scripts/image.mjs: Debian' }, { created_by: 'scripts/image.mjs: trestle' }],
    }),
  )
  const manifest = blob(
    'application/vnd.oci.image.manifest.v1+json',
    json({
      schemaVersion: 2,
      mediaType: 'application/vnd.oci.image.manifest.v1+json',
      config: config.descriptor,
      layers: layers.map(({ descriptor }) => descriptor),
    }),
  )
  return { platform: { architecture, os: 'linux' }, blobs: [manifest, config, ...layers], packages }
}

const here = { x64: 'amd64', arm64: 'arm64' }[process.arch]
const images = [
  imageOf(here, values.executable),
  ...(values.arm64 === undefined ? [] : [imageOf('arm64', values.arm64)]),
]
const name = `${values.name}:${values.tag}`
const manifests = images.map(({ blobs: [manifest], platform }) => ({ ...manifest.descriptor, platform }))
const mediaType = 'application/vnd.oci.image.index.v1+json'
const both = blob(mediaType, json({ schemaVersion: 2, mediaType, manifests }))
// containerd knows the image by its tag and by its digest; for others, skopeo say, the tag alone is a name.
const byTag = { 'io.containerd.image.name': name, 'org.opencontainers.image.ref.name': values.tag }
const byDigest = { 'io.containerd.image.name': `${values.name}@${both.descriptor.digest}` }
const named = [byTag, byDigest].map((annotations) => ({ ...both.descriptor, annotations }))
const index = json({ schemaVersion: 2, manifests: named })
const blobs = [both, ...images.flatMap((image) => image.blobs)].map(({ descriptor, data }) => ({
  name: `blobs/sha256/${descriptor.digest.slice('sha256:'.length)}`,
  data,
  mode: 0o644,
}))
const archive = tar(
  [
    { name: 'oci-layout', data: json({ imageLayoutVersion: '1.0.0' }), mode: 0o644 },
    { name: 'index.json', data: index, mode: 0o644 },
    { name: 'blobs/' },
    { name: 'blobs/sha256/' },
    ...blobs,
  ].map(tarEntry),
)
writeFileSync(`${values.out}.partial`, archive)
renameSync(`${values.out}.partial`, values.out)
const mb = (archive.length / 1e6).toFixed(1)
const debian = images.map(({ packages }) => packages.length).join(' and ')
console.log(`${values.out}: ${name}, ${mb} MB, ${debian} Debian packages, index ${both.descriptor.digest}`)
