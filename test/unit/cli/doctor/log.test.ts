// SPDX-License-Identifier: Apache-2.0
// What doctor reads from the log of runtimes.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { readErrors } from '../../../../src/commands/doctor/log.ts'
import type { Node } from '../../../../src/commands/doctor/observed-node.ts'

const nowMs = Date.parse('2026-11-22T12:00:00Z')
let root: string
beforeEach(() => {
  root = mkdtempSync(`${tmpdir()}/doctor-log-`)
  vi.useFakeTimers({ now: nowMs, toFake: ['Date'] })
})
afterEach(() => {
  vi.useRealTimers()
  rmSync(root, { recursive: true, force: true })
})

const errorsOfFile = (logFile: string) => readErrors({ options: { logFile }, configurations: [{}] } as unknown as Node)
const failed = (time: string, pod: string, id: string) =>
  `time="${time}" level=error msg="RunPodSandbox for &PodSandboxMetadata{Name:${pod},Uid:u,Namespace:default,Attempt:0,} failed, error" error="rpc error: code = Unknown desc = failed to setup network for sandbox \\"${id}\\": plugin type=\\"flannel\\" failed (add): open /run/flannel/subnet.env: no such file or directory"`

async function errorsOf(lines: readonly string[], now = nowMs) {
  vi.setSystemTime(now)
  writeFileSync(`${root}/log`, `${lines.join('\n')}\n`)
  const errors = await errorsOfFile(`${root}/log`)
  return errors.map(({ id, pods, finding: { message, severity, on } }) => {
    const [, count, last = ''] = /^(\d+) times? in the last hour, last (\S+): /.exec(message) ?? []
    return { id, pods, severity, on, count: Number(count), lastMs: Date.parse(last) }
  })
}

describe('the log', () => {
  it.each([
    ['is not there', '/none', 'there is no such file'],
    ['is a directory', '', 'a directory, where a file is needed'],
  ])('is not taken for one without errors where its file %s', async (_, name, why) => {
    await expect(errorsOfFile(`${root}${name}`)).rejects.toThrow(`cannot read ${root}${name}: ${why}`)
  })

  it("knows the time of klog, which is the node's own", async () => {
    const line =
      'E1122 11:30:00.914392     236 pod_workers.go:1 error: network is not ready: cni plugin not initialized'
    const errors = await errorsOf([line])
    const offsetMs = new Date(nowMs).getTimezoneOffset() * 60_000
    const seen = Date.parse('2026-11-22T11:30:00Z') + offsetMs
    // One from another part of the world is of more than an hour ago, or later than now.
    expect(errors.map(({ lastMs }) => Math.floor(lastMs / 1000) * 1000)).toEqual(seen > nowMs - 3_600_000 ? [seen] : [])
  })

  it.each([
    ['E1203 11:30:00.914392     236 pod_workers.go:1', '2027-01-05T12:00:00Z', 0],
    ['E1231 23:40:00.914392     236 pod_workers.go:1', new Date(2027, 0, 1, 0, 10).toISOString(), 1],
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
        on: 'default/web; default/db',
        severity: 'warning',
        lastMs: Date.parse('2026-11-22T11:59:00Z'),
      },
    ])
  })

  it('is a note where the last one is of more than five minutes ago', async () => {
    const errors = await errorsOf([failed('2026-11-22T11:54:00Z', 'web', 'd95583cb11aa')])
    expect(errors).toMatchObject([{ severity: 'note' }])
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
