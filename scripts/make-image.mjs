// SPDX-License-Identifier: Apache-2.0
// Writes a docker-archive with two images made of one static busybox, so that tests need no registry.
// usage: node scripts/make-image.mjs /bin/busybox OUT.tar
import { createHash } from 'node:crypto'
import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import { tar, tarEntry } from './tar.mjs'

const applets = 'cat echo env hostname httpd id ip ls nc ping ping6 ps sh sleep wget'.split(' ')

/** @param {string | Buffer} data */
const sha256 = (data) => createHash('sha256').update(data).digest('hex')

const [busybox = '/bin/busybox', out = 'lab.tar'] = process.argv.slice(2)
const layer = tar([
  ...['bin', 'dev', 'etc', 'proc', 'sys', 'tmp', 'www'].map((name) => tarEntry({ name: `${name}/` })),
  tarEntry({ name: 'bin/busybox', data: readFileSync(busybox) }),
  ...applets.map((name) => tarEntry({ name: `bin/${name}`, link: 'busybox' })),
  tarEntry({ name: 'etc/passwd', data: Buffer.from('root:x:0:0:root:/:/bin/sh\n'), mode: 0o644 }),
  tarEntry({ name: 'www/index.html', data: Buffer.from('hello from a pod\n'), mode: 0o644 }),
])
const layerName = `${sha256(layer)}/layer.tar`
const architecture = { x64: 'amd64', arm64: 'arm64' }[process.arch] ?? process.arch
// A pod's sandbox only has to stay; the runtime ends it with SIGKILL.
const images = [
  { tag: 'lab.local/pause:1', command: ['/bin/sleep', '2147483647'] },
  { tag: 'lab.local/busybox:1', command: ['/bin/sh'] },
].map(({ tag, command }) => {
  const config = JSON.stringify({
    architecture,
    os: 'linux',
    config: { Env: ['PATH=/bin'], Entrypoint: command },
    rootfs: { type: 'layers', diff_ids: [`sha256:${sha256(layer)}`] },
    history: [{ created_by: 'scripts/make-image.mjs' }],
  })
  return { tag, config: Buffer.from(config), name: `${sha256(config)}.json` }
})
const manifest = images.map(({ tag, name }) => ({ Config: name, RepoTags: [tag], Layers: [layerName] }))
writeFileSync(
  `${out}.new`,
  tar([
    ...images.map(({ name, config }) => tarEntry({ name, data: config, mode: 0o644 })),
    tarEntry({ name: layerName, data: layer, mode: 0o644 }),
    tarEntry({ name: 'manifest.json', data: Buffer.from(JSON.stringify(manifest)), mode: 0o644 }),
  ]),
)
renameSync(`${out}.new`, out)
