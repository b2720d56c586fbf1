// SPDX-License-Identifier: Apache-2.0
// An ADD killed while its tools have their batch and wait: whoever comes next ends them first, so that nothing is made
// after its record is gone. Other processes live on.

import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { expectNothingLeft } from '../../support/allowance.ts'
import { holdTools, missingForStuck } from '../../support/faults/held-tools.ts'
import { until } from '../../support/faults/process-identities.ts'
import { startCall } from '../../support/faults/started.ts'
import { type Finished, type Host, openHost, snapshot, trestle } from '../../support/host.ts'
import { answer, type InstalledIpam, installIpam } from '../../support/ipam-plugin.ts'
import { expectError, expectSilent } from '../../support/outcome.ts'
import { callFiles, recordName, stateEnv, stateOf, stateWord } from '../../support/state-layout.ts'
import { attach, ipamConf, netConf } from '../../support/traffic/pods.ts'

const conf = netConf({
  bandwidth: { ingressRate: 8_000_000, egressRate: 8_000_000 },
  runtimeConfig: { portMappings: [{ hostPort: 8080, containerPort: 80, protocol: 'tcp' }] },
})
const notStuck = missingForStuck()
if (notStuck !== undefined) console.warn(notStuck)

let host: Host
let before: ReturnType<typeof snapshot>
let held: ReturnType<typeof holdTools> | undefined
let ipam: InstalledIpam | undefined
let children: ChildProcess[]
beforeEach(() => {
  host = openHost()
  before = snapshot(host)
  children = []
})
afterEach(() => {
  held?.close()
  for (const child of children) child.kill('SIGKILL')
  ipam?.remove()
  ipam = undefined
  host.close()
})

/** Starts an ADD of c1 with these tools held, and kills it when they are. */
async function killedAdd(tools: readonly ('ip' | 'tc' | 'nft')[], howLong: { seconds: number } | 'stuck') {
  held = holdTools(tools, howLong)
  if (howLong === 'stuck') await held.lock()
  const netns = host.pod('c1')
  const env = { CNI_CONTAINERID: 'c1', CNI_NETNS: netns, PATH: held.path }
  const { child, ended } = startCall(host, conf, env)
  children.push(child)
  for (const tool of tools) await held.begun(tool)
  if (howLong === 'stuck') await held.stuck()
  child.kill('SIGKILL')
  await ended
  return { held, env, netns }
}

/** Runs one of the commands for people. */
function command(...words: readonly string[]): Finished {
  return host.run('env', [stateWord(host), trestle, ...words])
}

/** Each leaves nothing of c1. */
const next: Readonly<Record<string, () => void>> = {
  DEL: () => expectSilent(host.cni('DEL', conf)),
  'ADD of another container with the same port': () => {
    const other = attach(host, conf, { id: 'c2' })
    expectSilent(host.cni('DEL', conf, other.call))
  },
  GC: () => expectSilent(host.cni('GC', { ...conf, 'cni.dev/valid-attachments': [] })),
  'gc --apply': () => expect(command('gc', '--apply', '--no-runtime').code).toBe(0),
  'restore, then DEL without a namespace': () => {
    command('restore')
    expectSilent(host.cni('DEL', conf, { netns: '' }))
  },
}

describe('an ADD that was killed while its tools were held up', () => {
  describe.each(Object.keys(next))('then %s', (name) => {
    it.each([0.1, 1.2, 25])('leaves nothing, and nothing comes later (%s s)', async (seconds) => {
      // The bridge is there: the pair of links is in the first batch.
      expectSilent(host.cni('DEL', conf, attach(host, conf, { id: 'before' }).call))
      const killed = await killedAdd(['ip', 'nft'], { seconds })
      next[name]?.()
      await killed.held.ended()
      expectNothingLeft(host, before)
      expect(callFiles(host)).toEqual([])
    })
  })

  it.each(['ip', 'nft', 'tc'] as const)('in %s alone: DEL leaves nothing', async (tool) => {
    expectSilent(host.cni('DEL', conf, attach(host, conf, { id: 'before' }).call))
    const killed = await killedAdd([tool], { seconds: 1.2 })
    expectSilent(host.cni('DEL', conf))
    await killed.held.ended()
    expectNothingLeft(host, before)
  })

  it('other processes live on: of the same name and environment, and of another user, even with the descriptor', async () => {
    expectSilent(host.cni('DEL', conf, attach(host, conf, { id: 'before' }).call))
    const killed = await killedAdd(['ip', 'nft'], { seconds: 25 })
    const [file = ''] = callFiles(host)
    const like = { env: killed.env, argv0: 'ip', stdio: 'ignore' } as const
    children.push(spawn('/bin/sleep', ['60'], { ...like, detached: true }))
    children.push(spawn('/bin/sleep', ['60'], { ...like, uid: 65534 }))
    const inherits = `exec 3< ${host.stateDir}/${file}; exec setpriv --reuid=65534 --clear-groups sleep 60`
    const other = spawn('sh', ['-c', inherits], { stdio: 'ignore' })
    children.push(other)
    await until('its user is another', () => host.run('stat', ['-c', '%u', `/proc/${other.pid}`]).stdout === '65534\n')
    expectSilent(host.cni('DEL', conf))
    expect(killed.held.atWork()).toEqual([])
    for (const { pid, exitCode, signalCode } of children.slice(1)) {
      expect([exitCode, signalCode]).toEqual([null, null])
      expect(existsSync(`/proc/${pid}/exe`)).toBe(true)
    }
    expectNothingLeft(host, before)
  })

  it.skipIf(notStuck !== undefined)(
    'one that cannot be ended: DEL is 11 in time and keeps all, until it is gone',
    async () => {
      // The lock of what all share is not what it holds.
      const first = attach(host, netConf(), { id: 'before' })
      const killed = await killedAdd(['ip'], 'stuck')
      const begun = performance.now()
      expectError(host.cni('DEL', conf), 11, `process ${killed.held.atWork()[0]}`)
      expect(performance.now() - begun).toBeLessThan(20_000)
      const state = stateOf(host, 'net')
      expect(state.names('pending')).toEqual([recordName('c1')])
      expect(state.names('addresses')).toHaveLength(2)
      // Another pod does not wait for it for so long.
      const other = attach(host, netConf(), { id: 'c2' })
      expect(state.names('pending')).toEqual([recordName('c1')])
      killed.held.release()
      await killed.held.ended()
      for (const pod of [first, other]) expectSilent(host.cni('DEL', netConf(), pod.call))
      expectSilent(host.cni('DEL', conf))
      expectNothingLeft(host, before)
    },
  )

  it('whoever takes over its lock ends them first', async () => {
    held = holdTools(['nft'], { seconds: 25 })
    const first = startCall(host, conf, { CNI_CONTAINERID: 'c1', CNI_NETNS: host.pod('c1'), PATH: held.path })
    children.push(first.child)
    // The first ADD sets the rules up under the machine's lock.
    await held.begun('nft')
    const another = netConf({ name: 'another', bridge: 'br-another', podcidr: '10.98.0.0/24' })
    const second = startCall(host, another, { CNI_CONTAINERID: 'c2', CNI_NETNS: host.pod('c2') })
    children.push(second.child)
    await until('it waits for the lock', () => isWaiting('c2', 'another'))
    first.child.kill('SIGKILL')
    expect((await second.ended).code).toBe(0)
    expect(held.atWork()).toEqual([])
    expectSilent(host.cni('DEL', another, { id: 'c2' }))
    expectSilent(host.cni('DEL', conf))
    expectNothingLeft(host, before)
  })

  // What a DEL without `ipam` knows of a plugin, it knows from the record.
  it.each([
    ['names it', {}],
    ['has no ipam any more', { ipam: undefined }],
  ])('its IPAM plugin is waited for, then sent DEL, whose configuration %s', async (_, changed) => {
    ipam = installIpam({
      ADD: `touch started; sleep 1.2; touch done; ${answer()}`,
      DEL: '[ -e done ] && touch after',
    })
    const plugin = ipam
    const slow = ipamConf({ type: 'scripted' })
    const { child, ended } = startCall(host, slow, { CNI_NETNS: host.pod('c1'), CNI_PATH: plugin.path })
    children.push(child)
    await until('the plugin', () => existsSync(`${plugin.path}/started`))
    child.kill('SIGKILL')
    await ended
    expectSilent(host.cni('DEL', { ...slow, ...changed }, { path: plugin.path }))
    expect(existsSync(`${plugin.path}/after`)).toBe(true)
    expectNothingLeft(host, before)
  })

  it('the IPAM plugin of a killed GC is waited for before another pod is given an address', async () => {
    ipam = installIpam({ ADD: `[ -e done ] && touch after; ${answer()}`, GC: 'touch started; sleep 1.2; touch done' })
    const plugin = ipam
    const slow = ipamConf({ type: 'scripted' })
    const env = { CNI_COMMAND: 'GC', CNI_CONTAINERID: '', CNI_IFNAME: '', CNI_PATH: plugin.path }
    const { child, ended } = startCall(host, { ...slow, 'cni.dev/valid-attachments': [] }, env)
    children.push(child)
    await until('the plugin', () => existsSync(`${plugin.path}/started`))
    child.kill('SIGKILL')
    await ended
    const pod = attach(host, slow, { path: plugin.path })
    expect(existsSync(`${plugin.path}/after`)).toBe(true)
    expect(callFiles(host)).toEqual([])
    expectSilent(host.cni('DEL', slow, pod.call))
    expectNothingLeft(host, before)
  })

  it('from another pid namespace nothing is ended: DEL is 11', async () => {
    expectSilent(host.cni('DEL', conf, attach(host, conf, { id: 'before' }).call))
    const killed = await killedAdd(['ip'], { seconds: 25 })
    const words = Object.entries({
      ...killed.env,
      CNI_COMMAND: 'DEL',
      CNI_IFNAME: 'eth0',
      ...stateEnv(host),
    })
    const isolated = [
      '--pid',
      '--fork',
      '--kill-child',
      '--mount-proc',
      'env',
      '-i',
      ...words.map((each) => each.join('=')),
    ]
    expectError(host.run('unshare', [...isolated, trestle], JSON.stringify(conf)), 11)
    expect(killed.held.atWork()).not.toEqual([])
    expectSilent(host.cni('DEL', conf))
    expectNothingLeft(host, before)
  })
})

function isWaiting(id: string, network: string): boolean {
  return existsSync(stateOf(host, network).pending(id))
}
