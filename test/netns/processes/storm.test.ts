// SPDX-License-Identifier: Apache-2.0
// Three networks at once, 20 calls at a time, with DEL, CHECK, GC and STATUS between the ADDs, while the executable is
// replaced under the running calls, as an upgrade does it: by rename(2). No error, no address twice, nothing left.

import { copyFileSync, mkdtempSync, readFileSync, renameSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { expectNothingLeft } from '../../support/allowance.ts'
import { type Answer, type Finished, type Host, openHost, snapshot, trestle, type Verb } from '../../support/host.ts'
import { addressesOf, allOf, startCni } from '../../support/locks/parallel.ts'
import { ipamConf, netConf } from '../../support/traffic/pods.ts'

const count = Number(process.env['PODS'] ?? 200)
const atOnce = 20
const minutes = 60_000

interface Planned {
  readonly id: string
  readonly netns: string
  readonly conf: object
}

const subnet = (range: string) => ({ type: 'host-local', ranges: [[{ subnet: range }]] })
const networks: readonly ((at: number) => object)[] = [
  (at) => ({
    ...netConf({ name: 'wide', bridge: 'br-wide', podcidr: ['10.71.0.0/16', 'fd71::/64'] }),
    runtimeConfig: { portMappings: [{ hostPort: 20_000 + at, containerPort: 80, protocol: 'tcp' }] },
  }),
  () => ipamConf(subnet('10.72.0.0/16'), { name: 'routed', mode: 'ptp', ipMasq: true }),
  () => ipamConf(subnet('10.73.0.0/16'), { name: 'plain', bridge: 'br-plain', macspoofchk: true }),
]

let host: Host
let directory: string
beforeEach(() => {
  host = openHost()
  directory = mkdtempSync(`${tmpdir()}/trestle-storm-`)
  install()
})
afterEach(() => {
  host.close()
  rmSync(directory, { recursive: true, force: true })
})

const executable = () => `${directory}/trestle`
/** Not its inode's number: the first file's may be given to the third. */
const changedAt = () => statSync(executable(), { bigint: true }).ctimeNs

/** A new file under the name of the old one, which calls are running from. */
function install(): void {
  copyFileSync(trestle, `${directory}/trestle.new`)
  renameSync(`${directory}/trestle.new`, executable())
}

const call = async (verb: Verb, { id, netns, conf }: Planned, more: object = {}): Promise<Finished> =>
  await startCni(host, verb, { conf: { ...conf, ...more }, id, netns, file: executable() })

const failuresOf = (finished: readonly Finished[]) =>
  finished.filter(({ code }) => code !== 0).map(({ stdout, stderr }) => stdout + stderr)

describe('a storm', () => {
  it(
    `of ${count} ADDs, ${atOnce} at a time, among other calls and with a new executable in the middle`,
    async () => {
      const before = snapshot(host)
      const pods = Array.from({ length: count }, (_, at): Planned => {
        const id = `p${at}`
        return { id, netns: host.pod(id), conf: networks[at % networks.length]?.(at) ?? {} }
      })
      const added = new Map<Planned, Answer>()
      const others: Finished[] = []
      const first = changedAt()
      const jobs = pods.map((pod, at) => async () => {
        // Twice on the way: calls before and after it run at the same time.
        if (at === Math.floor(count / 3) || at === Math.floor((2 * count) / 3)) install()
        const done = await call('ADD', pod)
        if (done.json !== undefined && done.code === 0) added.set(pod, done.json)
        if (at % 10 === 5) others.push(await call('CHECK', pod, { prevResult: done.json }))
        if (at % 10 === 7) others.push(await call('STATUS', { ...pod, id: '' }))
        // The runtime lists all pods that it has begun to make, or will.
        if (at % 20 === 9)
          others.push(await call('GC', { ...pod, id: '' }, { 'cni.dev/valid-attachments': listed(pods) }))
        if (at % 4 === 3) {
          others.push(await call('DEL', pod), await call('DEL', { ...pod, netns: '' }))
          added.delete(pod)
        }
        return done
      })
      const finished = await allOf(jobs, atOnce)

      expect(failuresOf([...finished, ...others])).toEqual([])
      expect(changedAt()).not.toBe(first)
      const addresses = [...added.values()].flatMap((json) => addressesOf({ code: 0, stdout: '', stderr: '', json }))
      expect(addresses.length).toBeGreaterThan(count / 2)
      expect(new Set(addresses).size).toBe(addresses.length)

      const checks = [...added].map(
        ([pod, prevResult]) =>
          async () =>
            await call('CHECK', pod, { prevResult }),
      )
      expect(failuresOf(await allOf(checks, atOnce))).toEqual([])
      const dels = [...added.keys()].map((pod) => async () => await call('DEL', pod))
      expect(failuresOf(await allOf(dels, atOnce))).toEqual([])
      expectNothingLeft(host, before)
    },
    10 * minutes,
  )

  it('does not keep the executable from being replaced, nor the other way round', async () => {
    const pod = { id: 'a', netns: host.pod('a'), conf: networks[2]?.(0) ?? {} }
    expect(failuresOf([await call('ADD', pod)])).toEqual([])
    const running = Array.from({ length: 10 }, async () => await call('STATUS', { ...pod, id: '' }))
    for (let time = 0; time < 10; time++) install()
    expect(failuresOf(await Promise.all(running))).toEqual([])
    expect(readFileSync(executable()).equals(readFileSync(trestle))).toBe(true)
    expect(failuresOf([await call('DEL', pod)])).toEqual([])
  })
})

function listed(pods: readonly Planned[]) {
  return pods.map(({ id }) => ({ containerID: id, ifname: 'eth0' }))
}
