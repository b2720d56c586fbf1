// SPDX-License-Identifier: Apache-2.0
// Pods that fail on a real kubelet and containerd: two that wait, and faults by seed, each cured by a script that knows
// only the pod's name. Three of them; ten with TRESTLE_TEST_FULL=1.

import { rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { allFaults } from '../netns/doctor/faults/all.ts'
import { shuffled } from '../support/seeded.ts'
import { networkStateAt, recordName, stateEnv, stateVariable, usualStateDir } from '../support/state-layout.ts'
import { must, uplink } from './lab/calls.ts'
import { httpGet, putPod, startKubelet, whenReady } from './lab/kubelet.ts'
import { type Lab, missingParts, openContainerdLab, peers, pluginType, prepareLab, type Ran } from './lab/lab.ts'
import { installTools } from './lab/tools.ts'

const parts = ['containerd', 'containerd-shim-runc-v2', 'ctr', 'runc', 'kubelet'].map((name) => `bin/${name}`)
const missing = missingParts([...parts, 'cni/loopback', 'images/lab.tar'], 'cni containerd kubelet')

const seed = Number(process.env['TRESTLE_TEST_SEED'] ?? Date.now() % 1_000_000)
const isFull = process.env['TRESTLE_TEST_FULL'] === '1'
/** Those whose cure is a command that doctor prints, on a node with two pods as this one has. */
const curable = allFaults.filter(({ on, cure, make, says }) => {
  return on === undefined && cure === undefined && says === undefined && !/\/proc\/sys|\badd gone/.test(make)
})
/**
 * Those that name the first pod's address go first: a cure that makes the pod anew gives it another. Those that cost a
 * record go last: what a pod has is not compared with the kernel without it.
 */
const turnOf = ({ make }: { readonly make: string }): number =>
  /10\.240\.0\.2\b/.test(make) ? 0 : make.includes(stateVariable) ? 2 : 1
const chosen = shuffled(curable, seed)
  .slice(0, isFull ? 10 : 3)
  .toSorted((a, b) => turnOf(a) - turnOf(b))

const plugin = {
  type: 'trestle',
  podcidr: ['10.240.0.0/24', 'fd00:240::/64'],
  capabilities: { portMappings: true, bandwidth: true },
}
/** Where the records of the pods are. */
const records = networkStateAt(usualStateDir, 'pods').directoryOf('attachments')
/** The end of every record's name. */
const anyRecord = recordName('')
const conflist = { cniVersion: '1.1.0', name: 'pods', plugins: [plugin] }
const annotations = { 'kubernetes.io/ingress-bandwidth': '100M' }

interface Said {
  readonly findings: readonly { readonly id: string; readonly severity: string; readonly on: string }[]
}

/** A runtime and kubelet do things when they like. */
const patient = { timeout: 60_000, interval: 500 }

describe.skipIf(missing.length > 0 || pluginType !== 'trestle')('doctor beside kubelet', { timeout: 300_000 }, () => {
  let lab: Lab
  let known: Readonly<Record<string, string>> | undefined
  beforeAll(async () => {
    lab = await openContainerdLab(await prepareLab({}))
    await installTools(lab.dir, join(lab.dir, 'containerd.sock'))
    await sh('mount -t tmpfs tmpfs /var/log && mkdir /var/log/pods && mount -t tmpfs tmpfs /etc/sysctl.d')
    await startKubelet(lab)
  })
  afterAll(async () => await lab?.close())

  const run = (line: string, env: Readonly<Record<string, string>> = {}): Promise<Ran> =>
    lab.run('bash', ['-c', `PATH=${lab.dir}/tools:$PATH; ${line}`], { env })
  async function sh(line: string, env: Readonly<Record<string, string>> = {}): Promise<string> {
    const { stdout, stderr, exitCode } = await run(line, env)
    expect(exitCode, `${line}: ${stdout}${stderr}`).toBe(0)
    return stdout
  }

  /** Waits until doctor finds just this above a note. */
  const finds = (words: string, ...expected: readonly string[]) =>
    vi.waitFor(async () => {
      const { findings } = JSON.parse((await run(`trestle doctor ${words} -o json`)).stdout) as Said
      const found = findings.filter(({ severity }) => severity !== 'note').map(({ id, on }) => `${id} (${on})`)
      expect(found).toEqual(expected)
    }, patient)

  it('names why pods wait, and finds nothing after its cure', async () => {
    const directory = join(lab.dir, 'root/etc/cni/net.d')
    const place = async (name: string, text: string) => {
      await writeFile(join(directory, 'new'), text)
      await rename(join(directory, 'new'), join(directory, name))
    }
    await place('10-pods.conflist', JSON.stringify(conflist))
    await place(
      '05-old.conflist',
      '{ "cniVersion": "1.0.0", "name": "old",\n  "plugins": [ { "type": "bridge" }, ] }\n',
    )
    await putPod(lab, { name: 'a', hostPort: 8080, annotations })
    const file = `${lab.dir}/kubelet.log`
    const log = () => sh(`cat ${file}`)
    await vi.waitFor(async () => expect(await log()).toContain('cni plugin not initialized'), patient)
    // The warning is what kubelet logged in the last hour; the error is why.
    await finds(
      `--log ${file}`,
      'json-syntax (/etc/cni/net.d/05-old.conflist:2:36)',
      'cni-not-initialized (default/a-lab)',
    )
    await sh('mv /etc/cni/net.d/05-old.conflist /etc/cni/net.d/05-old.conflist.disabled')
    await finds('')
    await whenReady(lab, ['a'])
    await sh('rm /opt/cni/bin/trestle')
    await putPod(lab, { name: 'b', hostPort: 8081, annotations })
    await vi.waitFor(async () => expect(await log()).toContain('failed to find plugin'), patient)
    // kubelet may take an earlier sandbox of the other pod away now, which wants the plugin too.
    await finds(
      `--pod default/b-lab --log ${file}`,
      'plugin-missing (/etc/cni/net.d/10-pods.conflist:1:56)',
      expect.stringMatching(/^plugin-not-found \(.*default\/b-lab/),
    )
    await sh('cp "$(command -v trestle)" /opt/cni/bin/')
    await finds('')
    await whenReady(lab, ['a', 'b'])
  })

  it.each(chosen)('a script that knows only the name of the pod cures: $what', async ({ make, tidy }) => {
    await sh('until [ -e /etc/cni/net.d/10-pods.conflist ]; do :; done; mkdir -p $SCRATCH', {
      SCRATCH: join(lab.dir, 'scratch'),
    })
    for (const [name, hostPort] of [
      ['a', 8080],
      ['b', 8081],
    ] as const) {
      await putPod(lab, { name, hostPort, annotations })
      await vi.waitFor(
        async () =>
          expect(await sh(`ls ${records}`)).toMatch(
            new RegExp(name === 'a' ? anyRecord : `${anyRecord}\n.*${anyRecord}`),
          ),
        {
          timeout: 60_000,
          interval: 200,
        },
      )
    }
    await whenReady(lab, ['a', 'b'])
    const env = await podVariables('a')
    await sh(make, env)
    expect((await run('trestle doctor')).exitCode, make).toBe(1)
    const cured = await sh(`${process.execPath} ${fileURLToPath(new URL('lab/cure-pod.mjs', import.meta.url))} a`)
    expect(cured).not.toBe('')
    await whenReady(lab, ['a', 'b'])
    await vi.waitFor(
      async () =>
        expect(await httpGet(lab, `TCP4:${uplink.node[0]}:8080`, { from: 'outside' })).toContain('hello from a pod'),
      { timeout: 30_000, interval: 200 },
    )
    await run(tidy ?? 'true', env)
  })

  /** What the lines of a fault name, for a pod of kubelet. */
  async function podVariables(name: string): Promise<Readonly<Record<string, string>>> {
    // A record that was written again has no name of a pod: it is the same pod as before.
    const file = (await run(`grep -l '"name":"${name}-lab"' ${records}/*`)).stdout.trim()
    if (file === '' && known !== undefined) return known
    const record = JSON.parse(await must(lab, `cat ${file}`)) as {
      readonly id: { readonly containerId: string }
      readonly netns: { readonly path: string }
      readonly spec: { readonly host: { readonly name: string } }
    }
    known = {
      ID: record.id.containerId,
      POD: record.netns.path,
      NS: record.netns.path.slice(record.netns.path.lastIndexOf('/') + 1),
      VETH: record.spec.host.name,
      CONF: '/etc/cni/net.d',
      BIN: '/opt/cni/bin',
      PEERS: `${peers}/cni`,
      ...stateEnv({ stateDir: usualStateDir }),
      SCRATCH: join(lab.dir, 'scratch'),
    }
    return known
  }
})
