// SPDX-License-Identifier: Apache-2.0
// Directories of configurations by what is the matter with them, and a plugin that tells which file it was in: for tests
// that compare what `trestle lint` says with what a runtime does.
import { readdir, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Lab } from './lab.ts'

/** A plugin that says which file it was in, and makes nothing. */
export const marker = `#!/bin/sh
case "$CNI_COMMAND" in
  VERSION) echo '{"cniVersion":"1.1.0","supportedVersions":["0.3.1","0.4.0","1.0.0"]}' ;;
  ADD) cat > /run/marker.seen; echo '{"cniVersion":"1.0.0","ips":[]}' ;;
esac
`
const plugin = (file: string, more: object = {}) => ({ type: 'marker', from: file, ...more })
export const list = (file: string, name: string, more: object = {}) =>
  JSON.stringify({ cniVersion: '1.0.0', name, plugins: [plugin(file)], ...more })
const single = (file: string, name: string) => JSON.stringify({ cniVersion: '1.0.0', name, ...plugin(file) })
const half = '{"name": "half", "plugins": ['

/** File names and their texts. */
export type Files = Readonly<Record<string, string>>

/** Directories by what is the matter with them: the files, what containerd uses, and a finding that says why. */
export const directories: readonly (readonly [
  what: string,
  files: Files,
  used: string | undefined,
  finding: string | undefined,
])[] = [
  // Its plugin speaks nothing newer than its cniVersion: there is no cure, so it is no finding.
  ['one list', { '10-a.conflist': list('10-a.conflist', 'a') }, '10-a.conflist', undefined],
  [
    'the order of bytes',
    { '9-b.conflist': list('9-b.conflist', 'b'), '10-a.conf': single('10-a.conf', 'a') },
    '10-a.conf',
    'sorted-later',
  ],
  [
    'a .conf beside the .conflist of one network',
    { '10-a.conf': single('10-a.conf', 'a'), '10-a.conflist': list('10-a.conflist', 'a') },
    '10-a.conf',
    'same-network',
  ],
  [
    'a backup',
    { '05-b.conflist.bak': half, '10-a.conflist': list('10-a.conflist', 'a') },
    '10-a.conflist',
    'wrong-extension',
  ],
  [
    'a broken file that comes first',
    { '05-b.conflist': half, '10-a.conflist': list('10-a.conflist', 'a') },
    undefined,
    'json-syntax',
  ],
  [
    'a broken file that comes later',
    { '10-a.conflist': list('10-a.conflist', 'a'), '20-b.conflist': half },
    '10-a.conflist',
    'json-syntax',
  ],
  [
    'a plugin that is missing',
    { '10-a.conflist': list('10-a.conflist', 'a').replace('"marker"', '"absent"') },
    '10-a.conflist',
    'plugin-missing',
  ],
  ['no file', {}, undefined, 'dir-empty'],
  ['a file of no extension that counts', { '10-a.conflist.disabled': list('x', 'a') }, undefined, 'dir-empty'],
  ['an empty file', { '10-a.conflist': '' }, undefined, 'file-empty'],
  ['half a file', { '10-a.conflist': half }, undefined, 'json-syntax'],
  ['a list without plugins', { '10-a.conflist': '{"cniVersion":"1.0.0","name":"a"}' }, undefined, 'plugins-missing'],
  [
    'an empty list',
    { '10-a.conflist': '{"cniVersion":"1.0.0","name":"a","plugins":[]}' },
    undefined,
    'plugins-missing',
  ],
  ['a list in a .conf', { '10-a.conf': list('10-a.conf', 'a') }, undefined, 'list-in-conf'],
  [
    'a list without a name',
    { '10-a.conflist': `{"plugins":[${JSON.stringify(plugin('x'))}]}` },
    undefined,
    'name-missing',
  ],
  ['a plugin without a type', { '10-a.conflist': '{"name":"a","plugins":[{}]}' }, undefined, 'type-missing'],
  ['a version that is a number', { '10-a.conflist': list('x', 'a', { cniVersion: 1 }) }, undefined, 'wrong-type'],
  [
    'a capability that is a text',
    { '10-a.conflist': `{"name":"a","plugins":[${JSON.stringify(plugin('x', { capabilities: { mac: 'yes' } }))}]}` },
    undefined,
    'wrong-type',
  ],
]

/** What lint -o json says, as far as it is looked at here. */
export interface Said {
  readonly findings: readonly { readonly id: string; readonly file: string }[]
  readonly runtimes?: {
    readonly containerd: { readonly file?: string }
    readonly crio: { readonly file?: string; readonly network?: string }
    readonly cnitool: readonly { readonly network: string; readonly choice: { readonly file?: string } }[]
  }
}

/** What `trestle lint` says of the machine's /etc/cni/net.d. */
export async function lint(lab: Lab): Promise<Said> {
  return JSON.parse((await lab.run('/opt/cni/bin/trestle', ['lint', '-o', 'json'])).stdout) as Said
}

/** Moves files into their place below `etc`/net.d, as an installer does; a last one tells a runtime to look at all of them. */
export async function put(etc: string, files: Files): Promise<void> {
  const dir = join(etc, 'net.d')
  for (const [name, text] of Object.entries(files)) {
    await writeFile(join(etc, 'new'), text)
    await rename(join(etc, 'new'), join(dir, name))
  }
  await writeFile(join(dir, 'zz-last'), '')
  await rm(join(dir, 'zz-last'))
}

/** Empties /etc/cni/net.d of the machine, whose folder outside is `etc`/net.d. */
export async function clear(etc: string): Promise<void> {
  for (const name of await readdir(join(etc, 'net.d'))) await rm(join(etc, 'net.d', name), { recursive: true })
}
