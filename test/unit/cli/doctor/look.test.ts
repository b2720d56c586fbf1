// SPDX-License-Identifier: Apache-2.0
// What doctor reads from files: the log of runtimes, and sysctl.d.

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { keptSettings } from '../../../../src/commands/doctor/kernel.ts'
import { errorsIn, readLog } from '../../../../src/commands/doctor/log.ts'

let root: string
beforeEach(() => {
  root = mkdtempSync(`${tmpdir()}/doctor-look-`)
})
afterEach(() => rmSync(root, { recursive: true, force: true }))

const nowMs = Date.parse('2026-11-22T12:00:00Z')
const noTools = async () => {
  throw new Error('no process is started')
}
const failed = (time: string, pod: string, id: string) =>
  `time="${time}" level=error msg="RunPodSandbox for &PodSandboxMetadata{Name:${pod},Uid:u,Namespace:default,Attempt:0,} failed, error" error="rpc error: code = Unknown desc = failed to setup network for sandbox \\"${id}\\": plugin type=\\"flannel\\" failed (add): open /run/flannel/subnet.env: no such file or directory"`

async function errorsOf(lines: readonly string[], now = nowMs) {
  writeFileSync(`${root}/log`, `${lines.join('\n')}\n`)
  return errorsIn((await readLog(noTools, now, `${root}/log`)) ?? [])
}

describe('the log', () => {
  it.each([
    ['is not there', '/none', 'there is no such file'],
    ['is a directory', '', 'a directory, where a file is needed'],
  ])('is not taken for one without errors where its file %s', async (_, name, why) => {
    await expect(readLog(noTools, nowMs, `${root}${name}`)).rejects.toThrow(`cannot read ${root}${name}: ${why}`)
  })

  it.each([
    ['klog', 'E1122 11:30:00.914392     236 pod_workers.go:1'],
    ['syslog', 'Nov 22 11:30:00 node1 kubelet[1]:'],
  ])("knows the time of %s, which is the node's own", async (_, head) => {
    const errors = await errorsOf([`${head} error: network is not ready: cni plugin not initialized`])
    const offsetMs = new Date(nowMs).getTimezoneOffset() * 60_000
    const seen = Date.parse('2026-11-22T11:30:00Z') + offsetMs
    // One from another part of the world is of more than an hour ago, or later than now.
    expect(errors.map(({ lastMs }) => Math.floor(lastMs / 1000) * 1000)).toEqual(seen > nowMs - 3_600_000 ? [seen] : [])
  })

  it.each([
    ['Dec  3 11:30:00 node1 kubelet[1]:', '2027-01-05T12:00:00Z', 0],
    ['E1203 11:30:00.914392     236 pod_workers.go:1', '2027-01-05T12:00:00Z', 0],
    ['Dec 31 23:40:00 node1 kubelet[1]:', new Date(2027, 0, 1, 0, 10).toISOString(), 1],
  ])('%s is of the last year at %s', async (head, now, count) => {
    const errors = await errorsOf([`${head} error: network is not ready: cni plugin not initialized`], Date.parse(now))
    expect(errors.map(({ lastMs }) => new Date(lastMs).getFullYear())).toEqual(
      Array.from({ length: count }, () => 2026),
    )
  })

  it('has each error once, with its count, its pods and its last time', async () => {
    const errors = await errorsOf([
      failed('2026-11-22T11:30:00Z', 'web', 'd95583cb11aa'),
      failed('2026-11-22T11:59:00Z', 'db', 'aa95583cb11d'),
      'time="2026-11-22T11:59:30Z" level=info msg="StopPodSandbox for cni"',
    ])
    expect(errors).toMatchObject([
      {
        id: 'flannel-subnet-env',
        count: 2,
        pods: ['default/web', 'default/db'],
        lastMs: Date.parse('2026-11-22T11:59:00Z'),
      },
    ])
  })

  it('does not count what is older than an hour, nor what is no matter of networks', async () => {
    expect(await errorsOf([failed('2026-11-22T10:30:00Z', 'web', 'd95583cb')])).toEqual([])
    const pull = 'time="2026-11-22T11:59:00Z" level=error msg="PullImage failed" error="failed to resolve reference"'
    expect(await errorsOf([pull])).toEqual([])
  })

  it('knows a sandbox that failed behind its network, and no container', async () => {
    const task = 'failed to create containerd task: failed to create shim task: OCI runtime create failed: no cgroup'
    const sandbox = `time="2026-11-22T11:59:00Z" level=error msg="RunPodSandbox for &PodSandboxMetadata{Name:web,Uid:u,Namespace:shop,Attempt:0,} failed, error" error="rpc error: code = Unknown desc = failed to start sandbox \\"ab\\": ${task}"`
    const container = `E1122 11:59:00 kuberuntime.go:1] "StartContainer from runtime service failed" err="${task} in sandbox" pod="shop/web"`
    expect(await errorsOf([sandbox])).toMatchObject([{ id: 'sandbox-failed', pods: ['shop/web'] }])
    expect(await errorsOf([container])).toEqual([])
  })

  it('knows the ids of trestle', async () => {
    const line =
      'E1122 11:59:00 pod_workers.go: "Error syncing pod" err="failed to setup network for sandbox \\"ab\\": plugin type=\\"trestle\\" failed (add): no IP addresses available in range set 10.1.0.0/29 [pool-exhausted]" pod="shop/cart-1"'
    expect(await errorsOf([line])).toMatchObject([{ id: 'pool-exhausted', pods: ['shop/cart-1'] }])
  })
})

describe('sysctl.d', () => {
  const write = (file: string, text: string) => {
    mkdirSync(`${root}${file.slice(0, file.lastIndexOf('/'))}`, { recursive: true })
    writeFileSync(`${root}${file}`, text)
  }
  const key = 'net.ipv4.ip_forward'
  const kept = () => keptSettings([key], root).get(key)

  it('has no value for what no file names', () => {
    write('/etc/sysctl.d/10.conf', '# net.ipv4.ip_forward = 0\nnet.ipv4.conf.all.rp_filter = 2\n')
    expect(kept()).toBeUndefined()
  })

  it('takes the last file by name, whatever its directory, and /etc/sysctl.conf after all', () => {
    write('/usr/lib/sysctl.d/50-default.conf', 'net.ipv4.ip_forward=1\n')
    write('/etc/sysctl.d/20-first.conf', 'net/ipv4/ip_forward = 0\n')
    expect(kept()).toEqual({ key, value: '1', file: '/usr/lib/sysctl.d/50-default.conf' })
    write('/etc/sysctl.conf', '-net.ipv4.ip_forward = 0')
    expect(kept()).toEqual({ key, value: '0', file: '/etc/sysctl.conf' })
  })

  it('takes a file of /etc in place of one of /usr with its name', () => {
    write('/usr/lib/sysctl.d/50-default.conf', 'net.ipv4.ip_forward=1\n')
    write('/etc/sysctl.d/50-default.conf', '')
    expect(kept()).toBeUndefined()
  })

  it('knows the other name of forwarding', () => {
    const [other, file] = ['net.ipv4.conf.all.forwarding', '/etc/sysctl.d/90.conf']
    write('/etc/sysctl.d/50.conf', `${key} = 0`)
    write(file, `${other} = 1`)
    expect(kept()).toEqual({ key: other, value: '1', file })
    write('/etc/sysctl.d/50.conf', `${key} = 1`)
    write(file, `${other} = 0`)
    expect(kept()).toEqual({ key: other, value: '0', file })
  })
})
