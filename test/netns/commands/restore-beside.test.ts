// SPDX-License-Identifier: Apache-2.0
// `trestle restore` beside calls of the runtime: what changes between its look and its work is no failure.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { until } from '../../support/faults/process-identities.ts'
import { type Host, openHost } from '../../support/host.ts'
import { startCni, startCommand } from '../../support/locks/parallel.ts'
import { expectSilent, runLine } from '../../support/outcome.ts'
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

  it('goes on where the link goes that was to be mended', async () => {
    const conf = netConf()
    const [gone, stays] = [attach(host, conf, { id: 'gone' }), attach(host, conf, { id: 'stays' })]
    for (const { hostLink } of [gone, stays]) onHost(`link set ${hostLink} nomaster`)
    const { code, stderr } = await restoreBeside('master', () => onHost(`link del ${gone.hostLink}`))
    expect(code, stderr).toBe(0)
    expectSilent(later(host, 'CHECK', { conf, pod: stays }))
  })
})
