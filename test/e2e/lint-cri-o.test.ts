// SPDX-License-Identifier: Apache-2.0
// What `trestle lint` says CRI-O will use, against CRI-O's own library (ocicni), in the same directories.
import { chmod, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { type Lab, missingParts, openBareLab, peers, pluginType, prepareLab } from './lab/lab.ts'
import { clear, directories, type Files, lint, list, marker, put } from './lab/net-dirs.ts'

const missing = missingParts(['bin/ocicnitool'], 'cri-o')
if (pluginType !== 'trestle') missing.push('this file is about trestle')

/** Where CRI-O goes on and containerd does not look, or the other way round. */
const more: readonly (readonly [what: string, files: Files])[] = [
  [
    'a first file whose plugin is missing',
    {
      '05-b.conflist': list('05-b.conflist', 'b').replace('"marker"', '"absent"'),
      '10-a.conflist': list('10-a.conflist', 'a'),
    },
  ],
  [
    'a first file whose plugin cannot be started',
    {
      '05-b.conflist': list('05-b.conflist', 'b').replace('"marker"', '"broken"'),
      '10-a.conflist': list('10-a.conflist', 'a'),
    },
  ],
  [
    'a first file of a version that its plugin does not speak',
    {
      '05-b.conflist': list('05-b.conflist', 'b', { cniVersion: '1.1.0' }),
      '10-a.conflist': list('10-a.conflist', 'a'),
    },
  ],
  [
    'two files of one network',
    { '05-a.conflist': list('05-a.conflist', 'a'), '10-a.conflist': list('10-a.conflist', 'a') },
  ],
  ['a .conf without a name', { '10-a.conf': '{"cniVersion":"1.0.0","type":"marker"}' }],
]

describe.skipIf(missing.length > 0)('lint says what CRI-O does', () => {
  let lab: Lab
  let etc: string
  beforeAll(async () => {
    const scratch = await prepareLab({})
    const bin = join(scratch, 'root/opt/cni/bin')
    await writeFile(join(bin, 'marker'), marker, { mode: 0o755 })
    await writeFile(join(bin, 'broken'), '\x7fELF of another machine')
    await chmod(join(bin, 'broken'), 0o755)
    lab = await openBareLab(scratch)
    etc = join(scratch, 'root/etc/cni')
  })
  afterEach(() => clear(etc))
  afterAll(async () => {
    await lab?.close()
  })

  /** The default network that the library has loaded, and its file; it says so on stderr. */
  async function loaded(): Promise<{ file: string | undefined; network: string | undefined }> {
    const pod = ['ns', 'pod', 'id', '/run/netns/none']
    const env = { CONF_PATH: '/etc/cni/net.d', BIN_PATH: '/opt/cni/bin' }
    const { stderr } = await lab.run(join(peers, 'bin/ocicnitool'), ['status', ...pod], { env })
    const found = [...stderr.matchAll(/Found CNI network (\S+) \(type=[^)]*\) at \/etc\/cni\/net\.d\/([^"\s]+)/g)]
    const network = /Updated default CNI network name to ([^"\s]+)/.exec(stderr)?.[1]
    return { network, file: found.find((match) => match[1] === network)?.[2] }
  }

  const all = [
    ...directories.map(([what, files]) => ({ what, files })),
    ...more.map(([what, files]) => ({ what, files })),
  ]
  it.each(all)('$what (cni#258: the wrong file is chosen)', async ({ files }) => {
    await put(etc, files)
    const { file, network } = (await lint(lab)).runtimes?.crio ?? {}
    expect(await loaded()).toEqual({ file, network })
  })
})
