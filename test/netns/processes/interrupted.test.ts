// SPDX-License-Identifier: Apache-2.0
// A call whose reader or whose time is gone: closed pipes, SIGTERM and SIGKILL in the middle of ADD. One
// JSON document or nothing on stdout, and everything undone, now or by the next call.

import type { ChildProcess } from 'node:child_process'
import { existsSync, writeFileSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { expectNothingLeft } from '../../support/allowance.ts'
import { holdLock, until } from '../../support/faults/process-identities.ts'
import { endsOrWaits, startCall } from '../../support/faults/started.ts'
import { type Host, openHost, snapshot, trestle } from '../../support/host.ts'
import { answer, type InstalledIpam, installIpam } from '../../support/ipam-plugin.ts'
import { expectError, expectSilent } from '../../support/outcome.ts'
import { stateFiles, stateOf, stateWord } from '../../support/state-layout.ts'
import { attach, interfacesOf, ipamConf, netConf } from '../../support/traffic/pods.ts'

let host: Host
let before: ReturnType<typeof snapshot>
let ipam: InstalledIpam | undefined
let children: ChildProcess[]
beforeEach(() => {
  host = openHost()
  before = snapshot(host)
  children = []
})
afterEach(() => {
  for (const child of children) child.kill('SIGKILL')
  ipam?.remove()
  ipam = undefined
  host.close()
})

const slow = ipamConf({ type: 'scripted' })

/** Starts a call and does not wait. */
function start(conf: unknown, env: Record<string, string>) {
  const started = startCall(host, conf, env)
  children.push(started.child)
  return started
}

const appears = (file: string): Promise<void> => until(file, () => existsSync(file))

/** Long before the plugin would end by itself. */
const soonMs = 8000

/** An ADD that waits in its IPAM plugin. */
async function startSlow(line: string, more: { DEL?: string } = {}) {
  ipam = installIpam({ ADD: `touch started; ${line}`, ...more })
  const netns = host.pod('a')
  const call = start(slow, { CNI_NETNS: netns, CNI_PATH: ipam.path })
  await appears(`${ipam.path}/started`)
  return { ...call, netns, ipam }
}

/** The same, killed there. */
async function killedSlow(line: string, more: { DEL?: string } = {}) {
  const call = await startSlow(line, more)
  call.child.kill('SIGKILL')
  await call.ended
  return call
}

describe('a signal in the middle of ADD', () => {
  it.each([
    ['SIGTERM', 'exec sleep 20'],
    ['SIGINT', 'exec sleep 20'],
    ['SIGTERM', 'sleep 20'],
    ['SIGTERM', 'trap "" TERM; sleep 20'],
  ] as const)(
    '%s: one error document, everything undone, the delegate gets its DEL (%s) (cni#670: output is not one document)',
    async (signal, line) => {
      const { child, ended, netns, ipam: plugin } = await startSlow(line)
      const since = performance.now()
      child.kill(signal)
      const finished = await ended
      expect(performance.now() - since).toBeLessThan(soonMs)
      expectError(finished, 106, 'scripted')
      expect(plugin.calls()).toEqual(['ADD', 'DEL'])
      expect(interfacesOf(host, netns)).toEqual([])
      expectNothingLeft(host, before)
    },
  )

  it('SIGKILL: the next call on the network, for whatever pod, takes away what is left', async () => {
    const { child, ended, netns, ipam: plugin } = await startSlow('exec sleep 3')
    child.kill('SIGKILL')
    expect((await ended).stdout).toBe('')
    expect(interfacesOf(host, netns)).toEqual(['eth0'])
    const conf = netConf({ podcidr: undefined })
    expectSilent(host.cni('DEL', conf, { id: 'someone', netns: '', path: plugin.path }))
    expect(interfacesOf(host, netns)).toEqual([])
    expectNothingLeft(host, before)
  })

  it.each(['ADD', 'DEL'] as const)('SIGKILL: the next %s with the delegate gives the lease back, too', async (verb) => {
    const { ipam: plugin } = await killedSlow('[ $CNI_CONTAINERID = other ] || exec sleep 1; '.concat(answer()))
    const prevResult = { cniVersion: '1.1.0', ips: [{ address: '10.66.0.9/24' }] }
    const call = { id: 'other', netns: host.pod('b'), path: plugin.path, args: 'IgnoreUnknown=1;K8S_POD_NAME=b' }
    const next = host.cni(verb, verb === 'DEL' ? { ...slow, prevResult } : slow, call)
    expect(next.code, next.stdout).toBe(0)
    // The killed one's first, then the call's own.
    expect(plugin.calls()).toEqual(['ADD', 'DEL', verb])
    if (verb === 'DEL') return
    expect(plugin.env('DEL')).toMatchObject({ CNI_CONTAINERID: 'c1', CNI_IFNAME: 'eth0', CNI_ARGS: 'IgnoreUnknown=1' })
    expect(JSON.parse(plugin.stdin('DEL'))).toEqual(slow)
    expectSilent(host.cni('DEL', slow, call))
    expectNothingLeft(host, before)
  })

  it('SIGKILL: the next ADD gives the lease back, also where the configuration has the pool by now', async () => {
    const { ipam: plugin } = await killedSlow('exec sleep 1')
    const call = { id: 'other', netns: host.pod('b'), path: plugin.path }
    expect(host.cni('ADD', netConf(), call).code).toBe(0)
    expect(plugin.calls()).toEqual(['ADD', 'DEL'])
    expect(JSON.parse(plugin.stdin('DEL'))).toMatchObject({ name: 'net', ipam: { type: 'scripted' } })
    expectSilent(host.cni('DEL', netConf(), call))
    expectNothingLeft(host, before)
  })

  it('SIGKILL: trestle gc leaves the lease to the next call that can give it back', async () => {
    const { ipam: plugin } = await killedSlow('[ $CNI_CONTAINERID = other ] || exec sleep 1; '.concat(answer()))
    const swept = host.run('env', [stateWord(host), trestle, 'gc', '--no-runtime', '--apply'])
    expect([swept.code, swept.stderr]).toEqual([0, expect.stringContaining('scripted has its lease')])
    const call = { id: 'other', netns: host.pod('b'), path: plugin.path }
    expect(host.cni('ADD', slow, call).code).toBe(0)
    expect(plugin.calls()).toEqual(['ADD', 'DEL', 'ADD'])
    expectSilent(host.cni('DEL', slow, call))
    expectNothingLeft(host, before)
  })

  it('SIGKILL: an ADD of the same attachment is told to try again while another call gives the lease back', async () => {
    const again = '[ $CNI_CONTAINERID = other ] || [ ! -e done ] || touch after; '
    const { netns, ipam: plugin } = await killedSlow(`[ -e again ] || exec sleep 1; ${again}${answer()}`, {
      DEL: 'touch deleting; sleep 1; touch done',
    })
    writeFileSync(`${plugin.path}/again`, '')
    const meant = { ...slow, allowOverlap: true }
    const settling = start(meant, { CNI_CONTAINERID: 'other', CNI_NETNS: host.pod('b'), CNI_PATH: plugin.path })
    await appears(`${plugin.path}/deleting`)
    expectError(host.cni('ADD', meant, { netns, path: plugin.path }), 11)
    expect((await settling.ended).code).toBe(0)
    expect(host.cni('ADD', meant, { netns, path: plugin.path }).code).toBe(0)
    expect(existsSync(`${plugin.path}/after`)).toBe(true)
    for (const id of ['c1', 'other']) expectSilent(host.cni('DEL', slow, { id, netns: '', path: plugin.path }))
    expectNothingLeft(host, before)
  })

  it('SIGKILL: an ADD of the same attachment works at once (cni#550: the retry of an ADD cut short fails)', async () => {
    const { netns, ipam: plugin } = await killedSlow(
      '[ -e again ] || { touch again; exec sleep 3; }; '.concat(answer()),
    )
    expect(attach(host, slow, { netns, path: plugin.path }).address).toBe('10.66.0.7')
  })

  it('another ADD of the attachment meanwhile is told to try later, and DEL too', async () => {
    const { child, ended, netns, ipam: plugin } = await startSlow('exec sleep 20')
    const call = { netns, path: plugin.path }
    expectError(host.cni('ADD', slow, call), 11, String(child.pid))
    expectError(host.cni('DEL', slow, call), 11, String(child.pid))
    child.kill('SIGTERM')
    await ended
    expectNothingLeft(host, before)
  })
})

describe('SIGTERM', () => {
  it('ends an ADD that waits for a lock, which takes its intent record back', async () => {
    const lock = stateFiles(host).lock
    const free = holdLock(lock)
    const { child, ended } = start(netConf(), { CNI_NETNS: host.pod('a'), CNI_CONTAINERID: 'c1' })
    const intent = stateOf(host, 'net').pending('c1')
    await until('its intent is written', () => existsSync(intent))
    await endsOrWaits(Object.assign(ended, { pid: child.pid ?? 0 }))
    expect(existsSync(intent)).toBe(true)
    child.kill('SIGTERM')
    expectError(await ended, 106, 'while waiting for')
    expect(existsSync(intent)).toBe(false)
    free()
    expectNothingLeft(host, before)
  })
})

describe('a reader that has gone', () => {
  it('does not hang ADD, which takes back what it made', async () => {
    const netns = host.pod('a')
    const { child, ended } = start(netConf(), { CNI_NETNS: netns, CNI_CONTAINERID: 'c1' })
    child.stdout?.destroy()
    expect(await ended).toMatchObject({ code: 1, signal: null })
    expect(interfacesOf(host, netns)).toEqual([])
    expectNothingLeft(host, before)
    expectSilent(host.cni('DEL', netConf(), { netns }))
  })

  it('does not keep a delegate from its DEL', async () => {
    ipam = installIpam({ ADD: answer() })
    const { child, ended } = start(slow, { CNI_NETNS: host.pod('a'), CNI_PATH: ipam.path })
    child.stdout?.destroy()
    expect(await ended).toMatchObject({ code: 1, signal: null })
    expect(ipam.calls()).toEqual(['ADD', 'DEL'])
    expectNothingLeft(host, before)
  })

  it('of a result, where the disk of stdout is full, leaves no second ADD out', () => {
    const netns = host.pod('a')
    const call = `CNI_COMMAND=ADD CNI_CONTAINERID=c1 CNI_IFNAME=eth0 CNI_NETNS=${netns} ${stateWord(host)}`
    const refused = host.run('sh', ['-c', `${call} exec "${trestle}" >/dev/full`], JSON.stringify(netConf()))
    expect(refused).toMatchObject({ code: 1, stderr: '' })
    expectNothingLeft(host, before)
    attach(host, netConf(), { netns })
  })

  it.each(['VERSION', 'STATUS', 'DEL'])('does not hang or crash %s', async (verb) => {
    const { child, ended } = start(netConf(), { CNI_COMMAND: verb })
    child.stdout?.destroy()
    const finished = await ended
    expect(finished.signal).toBe(null)
    expect(finished.stderr).toBe('')
  })

  it('of stdout that was never open is no crash', () => {
    const closed = host.run('sh', ['-c', `CNI_COMMAND=VERSION exec "${trestle}" >&-`])
    expect(closed).toMatchObject({ code: 0, stdout: '', stderr: '' })
  })
})
