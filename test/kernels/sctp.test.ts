// SPDX-License-Identifier: Apache-2.0
// Host ports over SCTP, on a bridge and routed.

import { spawn } from 'node:child_process'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { attach, netConf } from '../support/traffic/pods.ts'
import { outside } from '../support/traffic/traffic.ts'
import { openUplinkedHost, type UplinkedHost } from '../support/traffic/uplinked-host.ts'

let host: UplinkedHost
beforeEach(() => {
  host = openUplinkedHost()
})
afterEach(() => host.close())

it.each(['bridge', 'ptp'])('a host port answers over SCTP from outside and from another pod, mode %s', async (mode) => {
  const conf = netConf({ mode })
  const sctp = { hostPort: 8082, containerPort: 80, protocol: 'sctp' }
  const pod = attach(host, { ...conf, runtimeConfig: { portMappings: [sctp] } }, { id: 'served' })
  const other = attach(host, conf, { id: 'other' })
  const words = [`--net=${pod.netns}`, '--', 'socat', 'SCTP-LISTEN:80,reuseaddr,fork', 'SYSTEM:echo served']
  const server = spawn('nsenter', words, { stdio: 'ignore' })
  host.atClose(() => server.kill('SIGKILL'))
  const said = (from: string, port: number) =>
    host.inPod(from, 'socat', ['-T10', '-u', `SCTP:${outside.node4}:${port}`, '-']).stdout
  for (const from of [host.internet, other.netns])
    await vi.waitFor(() => expect(said(from, 8082)).toBe('served\n'), { timeout: 120_000, interval: 300 })
  expect(said(host.internet, 8083)).toBe('')
})
