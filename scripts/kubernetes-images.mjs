// SPDX-License-Identifier: Apache-2.0
// Images under the names that Kubernetes' own network tests ask for, as one docker archive: its programs as
// scripts/peers.sh built them, and what their scripts call, from Debian. No registry.
// usage: node scripts/kubernetes-images.mjs /bin/busybox FOLDER OUT.tar
//   FOLDER: agnhost, the certificate that it answers with, coredns, which stands beside it, and regression-issue-74839
// The tests only ask nginx to run and to answer on port 80: agnhost does in its place.
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { debianFiles } from './image/debian.mjs'
import { tar, tarEntry } from './tar.mjs'

/** What the tests run in agnhost, beside agnhost; conntrack and grep are of distroless-iptables. */
const wanted = {
  bash: ['usr/bin/bash'],
  dash: ['usr/bin/dash', 'usr/bin/sh'],
  conntrack: ['usr/sbin/conntrack'],
  curl: ['usr/bin/curl'],
  'bind9-dnsutils': ['usr/bin/dig'],
  grep: ['usr/bin/grep'],
  iproute2: ['usr/bin/ip', 'etc/iproute2'],
  jq: ['usr/bin/jq'],
  'libc-bin': ['usr/bin/getent'],
  libc6: ['usr/lib64/ld-linux-x86-64.so.2'],
  'netcat-openbsd': ['usr/bin/nc.openbsd'],
  netbase: ['etc/protocols', 'etc/services'],
  wget: ['usr/bin/wget'],
}

// The versions that test/utils/image/manifest.go of Kubernetes 1.36.3 names.
const registry = 'registry.k8s.io'
const images = [
  { tag: `${registry}/e2e-test-images/agnhost:2.63.0`, entrypoint: ['/agnhost'], args: ['pause'] },
  { tag: `${registry}/pause:3.10.2`, entrypoint: ['/agnhost', 'pause'] },
  { tag: `${registry}/e2e-test-images/nginx:1.15-4`, entrypoint: ['/agnhost', 'netexec', '--http-port=80'] },
  { tag: `${registry}/e2e-test-images/regression-issue-74839:1.4`, entrypoint: ['/regression-issue-74839'] },
  { tag: `${registry}/e2e-test-images/glibc-dns-testing:2.0.0`, entrypoint: [] },
  { tag: `${registry}/build-image/distroless-iptables:v0.9.6`, entrypoint: [] },
  { tag: `${registry}/e2e-test-images/busybox:1.37.0-1`, entrypoint: [], args: ['sh'], isSmall: true },
]

/** @param {string | Buffer} data */
const sha256 = (data) => createHash('sha256').update(data).digest('hex')
/** @param {string} name @param {string} content */
const text = (name, content) => ({ name, data: Buffer.from(content), mode: 0o644 })

const [busybox = '/bin/busybox', folder = '.', out = 'kubernetes.tar'] = process.argv.slice(2)
/** @param {string} name */
const own = (name) => ({ name, data: readFileSync(join(folder, name)) })
const applets = execFileSync(busybox, ['--list'], { encoding: 'utf8' }).trim().split('\n')
const small = tar(
  [
    ...['dev/', 'etc/', 'proc/', 'root/', 'sys/', 'tmp/', 'usr/', 'usr/bin/', 'usr/sbin/'].map((name) => ({ name })),
    ...['usr/lib/', 'usr/lib64/', 'var/', 'var/run/'].map((name) => ({ name })),
    ...['bin', 'sbin', 'lib', 'lib64'].map((name) => ({ name, link: `usr/${name}` })),
    { name: 'usr/bin/busybox', data: readFileSync(busybox) },
    ...applets.filter((name) => name !== 'busybox').map((name) => ({ name: `usr/bin/${name}`, link: 'busybox' })),
    text('etc/passwd', 'root:x:0:0:root:/root:/bin/sh\n'),
    text('etc/group', 'root:x:0:\n'),
    text('etc/nsswitch.conf', 'hosts: files dns\n'),
  ].map(tarEntry),
)
const { files } = debianFiles(wanted, join(import.meta.dirname, '../node_modules/.cache/trestle/debian'))
const tools = tar(
  [
    ...files,
    { name: 'usr/bin/nc', link: 'nc.openbsd' },
    ...['agnhost', 'coredns', 'localhost.crt', 'localhost.key', 'regression-issue-74839'].map(own),
  ].map(tarEntry),
)
const architecture = { x64: 'amd64', arm64: 'arm64' }[process.arch] ?? process.arch
const layers = [small, tools].map((data) => ({ name: `${sha256(data)}/layer.tar`, data, digest: sha256(data) }))
const described = images.map(({ tag, entrypoint, args = [], isSmall = false }) => {
  const below = isSmall ? layers.slice(0, 1) : layers
  const config = Buffer.from(
    JSON.stringify({
      architecture,
      os: 'linux',
      config: { Env: ['PATH=/usr/bin:/usr/sbin'], Entrypoint: entrypoint, Cmd: args },
      rootfs: { type: 'layers', diff_ids: below.map(({ digest }) => `sha256:${digest}`) },
      history: below.map(() => ({ created_by: 'scripts/kubernetes-images.mjs' })),
    }),
  )
  return { tag, config, name: `${sha256(config)}.json`, layers: below.map(({ name }) => name) }
})
const manifest = described.map(({ tag, name, layers: all }) => ({ Config: name, RepoTags: [tag], Layers: all }))
writeFileSync(
  `${out}.new`,
  tar([
    ...described.map(({ name, config }) => tarEntry({ name, data: config, mode: 0o644 })),
    ...layers.map(({ name, data }) => tarEntry({ name, data, mode: 0o644 })),
    tarEntry(text('manifest.json', JSON.stringify(manifest))),
  ]),
)
renameSync(`${out}.new`, out)
