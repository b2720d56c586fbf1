// SPDX-License-Identifier: Apache-2.0
// Pods that fail on a real kubelet and containerd: docs/debug.md, "A pod that does not start" as it stands, and faults by
// seed, each cured by a script that knows only the pod's name. Three of them; ten with TRESTLE_TEST_FULL=1.

import { readFileSync } from 'node:fs'
import { copyFile, mkdir, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { allFaults } from '../netns/doctor/faults/all.ts'
import { shuffled } from '../support/seeded.ts'
import { must, uplink } from './lab/calls.ts'
import { httpGet, putPod, startKubelet, whenReady } from './lab/kubelet.ts'
import { type Lab, missingParts, openContainerdLab, peers, pluginType, prepareLab, type Ran } from './lab/lab.ts'

const parts = ['containerd', 'containerd-shim-runc-v2', 'ctr', 'runc', 'kubelet'].map((name) => `bin/${name}`)
const missing = missingParts([...parts, 'cni/loopback', 'images/lab.tar'], 'cni containerd kubelet')

const seed = Number(process.env['TRESTLE_TEST_SEED'] ?? Date.now() % 1_000_000)
const isFull = process.env['TRESTLE_TEST_FULL'] === '1'
/** Those whose cure is a command that doctor prints, on a node with two pods as this one has. */
const curable = allFaults.filter(({ on, cure, make, says }) => {
  return on === undefined && cure === undefined && says === undefined && !/\/proc\/sys|\badd gone/.test(make)
})
/** Those that cost a record go last: what a pod has is not compared with the kernel without it. */
const chosen = shuffled(curable, seed)
  .slice(0, isFull ? 10 : 3)
  .toSorted((a, b) => Number(/TRESTLE_STATE_DIR/.test(a.make)) - Number(/TRESTLE_STATE_DIR/.test(b.make)))

const plugin = {
  type: 'trestle',
  podcidr: ['10.240.0.0/24', 'fd00:240::/64'],
  capabilities: { portMappings: true, bandwidth: true },
}
const conflist = { cniVersion: '1.1.0', name: 'pods', plugins: [plugin] }
const annotations = { 'kubernetes.io/ingress-bandwidth': '100M' }

interface Shown {
  readonly command: string
  readonly printed: string
}

/** A block of the page each. */
function transcripts(): readonly (readonly Shown[])[] {
  const [, section = ''] = readFileSync('docs/debug.md', 'utf8').split('\n## A pod that does not start\n')
  const blocks = [...(section.split('\n## ')[0]?.matchAll(/```\n([\s\S]*?)```/g) ?? [])].map(([, text = '']) => text)
  return blocks.map((block) =>
    block
      .split(/^\$ /m)
      .slice(1)
      .map((part) => {
        const [command = '', ...lines] = part.split('\n')
        return { command, printed: lines.join('\n') }
      }),
  )
}

/** Without what is another in each run: numbers of processes, times, ids and how often something was logged. */
function masked(text: string): string {
  return text
    .replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'TIME')
    .replace(/\(process \d+\)/g, '(process N)')
    .replace(/\d+ times? in the last hour/g, 'N times in the last hour')
    .replace(/\b[0-9a-f]{64}\b/g, 'ID')
    .replace(/[IWEF]\d{4} [\d:.]+ +\d+ \S+\]/g, 'KLOG')
    .replace(/trestle \d\S* \([^)]*\), Linux [^;]+;/g, 'trestle VERSION;')
    .replace(/pods of trestle: .*/g, 'pods of trestle: SOME')
    .replace(/\s+/g, ' ')
    .trim()
}

/** A runtime and kubelet do things when they like. */
const patient = { timeout: 60_000, interval: 500 }

describe.skipIf(missing.length > 0 || pluginType !== 'trestle')('doctor beside kubelet', { timeout: 300_000 }, () => {
  let lab: Lab
  let known: Readonly<Record<string, string>> | undefined
  beforeAll(async () => {
    lab = await openContainerdLab(await prepareLab({}))
    await mkdir(join(lab.dir, 'tools'))
    await copyFile('dist/trestle', join(lab.dir, 'tools/trestle'))
    const outfile = join(lab.dir, 'tools/crictl.mjs')
    const banner = { js: "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url)" }
    const entryPoints = [fileURLToPath(new URL('lab/crictl.ts', import.meta.url))]
    await build({ entryPoints, outfile, bundle: true, platform: 'node', format: 'esm', banner, logLevel: 'silent' })
    const script = `#!/bin/sh\nCONTAINER_RUNTIME_ENDPOINT=${lab.dir}/containerd.sock exec ${process.execPath} ${outfile} "$@"\n`
    await writeFile(join(lab.dir, 'tools/crictl'), script, { mode: 0o755 })
    // The logs of this node alone, where distributions without a journal have them.
    await sh('mount -t tmpfs tmpfs /var/log && mkdir /var/log/pods && mount -t tmpfs tmpfs /etc/sysctl.d')
    await startKubelet(lab)
    await sh(`ln -s ${lab.dir}/kubelet.log /var/log/syslog`)
  })
  afterAll(async () => await lab?.close())

  const run = (line: string, env: Readonly<Record<string, string>> = {}): Promise<Ran> =>
    lab.run('bash', ['-c', `PATH=${lab.dir}/tools:$PATH; ${line}`], { env })
  async function sh(line: string, env: Readonly<Record<string, string>> = {}): Promise<string> {
    const { stdout, stderr, exitCode } = await run(line, env)
    expect(exitCode, `${line}: ${stdout}${stderr}`).toBe(0)
    return stdout
  }

  /** Runs what a block of the page shows, and compares what is printed. */
  async function follow(shown: readonly Shown[]): Promise<void> {
    expect(shown.length).toBeGreaterThan(3)
    for (const { command, printed } of shown) {
      // A runtime sees a changed directory when it likes.
      await vi.waitFor(async () => {
        const { stdout, stderr } = await run(command)
        if (process.env['TRESTLE_TEST_SHOW'] === '1') console.log(`$ ${command}\n${stdout}${stderr}`)
        else expect(masked(stdout), `${command}: ${stderr}`).toBe(masked(printed))
      }, patient)
    }
  }

  it('the page leads from a pod that does not start to one that runs', async () => {
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
    const log = () => sh('cat /var/log/syslog')
    await vi.waitFor(async () => expect(await log()).toContain('cni plugin not initialized'), patient)
    const [first = [], second = []] = transcripts()
    await follow(first)
    await whenReady(lab, ['a'])
    await sh('rm /opt/cni/bin/trestle')
    await putPod(lab, { name: 'b', hostPort: 8081, annotations })
    await vi.waitFor(async () => expect(await log()).toContain('failed to find plugin'), patient)
    await follow(second)
    await whenReady(lab, ['a', 'b'])
    await sh('rm /var/log/syslog')
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
          expect(await sh('ls /run/trestle/networks/pods/attachments')).toMatch(
            name === 'a' ? /:eth0/ : /:eth0\n.*:eth0/,
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
    const records = '/run/trestle/networks/pods'
    // A record that was written again has no name of a pod: it is the same pod as before.
    const file = (await run(`grep -l '"name":"${name}-lab"' ${records}/attachments/*`)).stdout.trim()
    if (file === '' && known !== undefined) return known
    const record = JSON.parse(await must(lab, `cat ${file}`)) as {
      readonly key: { readonly containerId: string }
      readonly netns: { readonly path: string }
      readonly spec: { readonly host: { readonly name: string } }
    }
    known = {
      ID: record.key.containerId,
      POD: record.netns.path,
      NS: record.netns.path.slice(record.netns.path.lastIndexOf('/') + 1),
      VETH: record.spec.host.name,
      CONF: '/etc/cni/net.d',
      BIN: '/opt/cni/bin',
      PEERS: `${peers}/cni`,
      TRESTLE_STATE_DIR: '/run/trestle',
      SCRATCH: join(lab.dir, 'scratch'),
    }
    return known
  }
})
