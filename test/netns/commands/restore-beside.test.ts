// SPDX-License-Identifier: Apache-2.0
// `trestle restore` beside calls of the runtime: what changes between its look and its work is no failure.

import { writeFileSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { until } from '../../support/faults/process-identities.ts'
import { haveStrace, noStrace, startTracedCommand } from '../../support/faults/strace.ts'
import { type Host, openHost } from '../../support/host.ts'
import { startCni, startCommand } from '../../support/locks/parallel.ts'
import { expectError, expectSilent, runLine } from '../../support/outcome.ts'
import { stateOf } from '../../support/state-layout.ts'
import { gateAt } from '../../support/tool.ts'
import { attach, later, netConf } from '../../support/traffic/pods.ts'

let host: Host
beforeEach(() => {
  host = openHost()
})
afterEach(() => host.close())

const onHost = (line: string) => runLine(host, `ip ${line}`)

/** Restores, and does `meanwhile` when `ip` is about to read what has `text`. */
async function restoreBeside(text: string, meanwhile: () => void) {
  const gate = gateAt('ip', text)
  try {
    const restoring = startCommand(host, ['restore'], gate.env)
    await until('restore has looked', gate.isReached)
    meanwhile()
    gate.open()
    return await restoring
  } finally {
    gate.close()
  }
}

describe('restore', () => {
  it('goes on where a call makes the link that was missing', async () => {
    const conf = netConf({ bandwidth: { egressRate: 8_000_000 } })
    const pod = attach(host, conf)
    const { name = '', mac = '' } = pod.result.interfaces?.find((each) => each.name.startsWith('ifb')) ?? {}
    onHost(`link del ${name}`)
    const { code, stderr } = await restoreBeside('type ifb', () => onHost(`link add ${name} address ${mac} type ifb`))
    expect(code, stderr).toBe(0)
    expectSilent(later(host, 'CHECK', { conf, pod }))
  })

  it('gives no address away whose reservation it mends', async (test) => {
    if (!haveStrace()) return test.skip(noStrace)
    const pod = attach(host, netConf())
    const address = stateOf(host, 'net').address(pod.address)
    writeFileSync(address, 'no record')
    const slow = { calls: 'unlink,unlinkat', what: 'delay_exit=2500000', when: 1, paths: [address] }
    let isOver = false
    const restoring = startTracedCommand(host, ['restore'], slow, {}).finally(() => {
      isOver = true
    })
    // One that removed the file before it writes it anew would be held there.
    const netns = host.pod('thief')
    do {
      const thief = await startCni(host, 'ADD', { conf: netConf(), id: 'thief', netns, args: `IP=${pod.address}` })
      expectError(thief, 102, pod.address)
    } while (!isOver)
    expect((await restoring).code).toBe(0)
    expectSilent(later(host, 'CHECK', { conf: netConf(), pod }))
  })

  it('takes no pod for lost whose DEL has removed its link, and has not ended', async () => {
    const conf = netConf({ bandwidth: { egressRate: 8_000_000 } })
    const pod = attach(host, conf)
    const gate = gateAt('ip', 'link del')
    try {
      const deleting = startCni(host, 'DEL', { conf, ...pod.call, env: gate.env })
      await until('DEL removes the link', gate.isReached)
      onHost(`link del ${pod.hostLink}`)
      const { code, stdout } = await startCommand(host, ['restore'])
      gate.open()
      expectSilent(await deleting)
      expect(code, stdout).toBe(0)
    } finally {
      gate.close()
    }
  })

  it('goes on where the link goes that was to be mended, and tells whose it was', async () => {
    const conf = netConf()
    const [gone, stays] = [attach(host, conf, { id: 'gone' }), attach(host, conf, { id: 'stays' })]
    for (const { hostLink } of [gone, stays]) onHost(`link set ${hostLink} nomaster`)
    const { code, stdout, stderr } = await restoreBeside('master', () => onHost(`link del ${gone.hostLink}`))
    expect(code, stderr).toBe(1)
    expect(stdout).toContain('container gone')
    expectSilent(later(host, 'CHECK', { conf, pod: stays }))
  })
})
