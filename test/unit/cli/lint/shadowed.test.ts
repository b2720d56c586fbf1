// SPDX-License-Identifier: Apache-2.0
// Two files of one directory, of which pods get the wrong one (flannel#1437), and files that are rightly behind others.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { lintDirectory } from '../../../../src/cli/lint/directory.ts'
import { bridgeOf } from '../../../../src/cli/lint/directory-findings.ts'
import { openPrograms } from '../../../../src/cli/lint/programs.ts'

const list = (name: string, type: string, more: object = {}) =>
  JSON.stringify({ cniVersion: '1.1.0', name, plugins: [{ type, ...more }] })
const pool = { ipam: { type: 'host-local', subnet: '10.88.0.0/16' } }
const flannel = list('cbr0', 'flannel', { delegate: { isDefaultGateway: true } })

/** Findings about more than one file, as `severity id message`. */
function look(files: Readonly<Record<string, string>>): readonly string[] {
  const directory = mkdtempSync(join(tmpdir(), 'trestle-shadowed-'))
  try {
    for (const [name, text] of Object.entries(files)) writeFileSync(join(directory, name), text)
    const { findings } = lintDirectory(directory, openPrograms(['/nonexistent/bin']))
    const about = findings.filter(({ id }) => id === 'sorted-later' || id === 'bridge-shared')
    return about.map(({ severity, id, message }) => `${severity} ${id} ${message}`)
  } finally {
    rmSync(directory, { recursive: true })
  }
}

it("a runtime's own example before flannel: pods get the wrong network, and both are on cni0", () => {
  const example = list('containerd-net', 'bridge', { bridge: 'cni0', ...pool })
  expect(look({ '10-containerd-net.conflist': example, '10-flannel.conflist': flannel })).toEqual([
    'warning sorted-later 10-containerd-net.conflist is before it in the order of names: ' +
      'pods do not get the network of flannel',
    'note bridge-shared 2 networks are on the bridge cni0: containerd-net, cbr0',
  ])
})

it.each([
  ['Multus before it', '00-multus.conflist', list('m', 'multus')],
  ['trestle before it, after a migration', '05-pods.conflist', list('pods', 'trestle', { podcidr: '10.1.0.0/24' })],
  ['Cilium before it', '05-cilium.conflist', list('cilium', 'cilium-cni')],
])('%s is no more than a note', (_, name, text) => {
  const found = look({ [name]: text, '10-flannel.conflist': flannel })
  expect(found).toEqual([`note sorted-later ${name} is before it in the order of names`])
})

it('a network of a person behind that of another is no more than a note', () => {
  const files = { '10-a.conflist': list('a', 'ptp', pool), '20-b.conflist': list('b', 'macvlan', { ipam: {} }) }
  expect(look(files)).toEqual(['note sorted-later 10-a.conflist is before it in the order of names'])
})

it.each([
  [{ type: 'bridge' }, 'cni0'],
  [{ type: 'bridge', bridge: 'br1' }, 'br1'],
  [{ type: 'flannel' }, 'cni0'],
  [{ type: 'flannel', delegate: { bridge: 'br2' } }, 'br2'],
  [{ type: 'flannel', delegate: { type: 'ptp' } }, undefined],
  [{ type: 'ptp' }, undefined],
])('the bridge of %j is %s', (conf, bridge) => expect(bridgeOf(conf)).toBe(bridge))
