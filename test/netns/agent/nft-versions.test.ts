// SPDX-License-Identifier: Apache-2.0
// An nft that refuses `monitor destroy`, as 1.0.7 and newer do: the agent hears of flushed rules all the same.

import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import { afterEach, beforeEach, expect, it } from 'vitest'
import {
  type AgentFiles,
  type ApiServer,
  agentFiles,
  isReady,
  nodeObject,
  openApiServer,
  type Running,
  startAgent,
} from '../../support/cluster/cluster.ts'
import { type Host, openHost } from '../../support/host.ts'
import { runLine } from '../../support/outcome.ts'

let host: Host
let files: AgentFiles
let api: ApiServer
let running: Running | undefined

beforeEach(async () => {
  host = openHost()
  files = agentFiles()
  runLine(host, 'ip link set lo up')
  api = await openApiServer(host)
  await api.order({ put: [nodeObject('self', { cidrs: ['10.244.1.0/24'], addresses: ['192.0.2.11'] })] })
})

afterEach(async () => {
  await running?.end('SIGKILL')
  await api.end('SIGKILL')
  files.remove()
  host.close()
})

it('hears of flushed rules from an nft that knows no "monitor destroy"', async () => {
  const bin = `${files.root}/newer`
  mkdirSync(bin)
  const refuses = '[ "$*" = "monitor destroy" ] && { echo "Error: syntax error, unexpected destroy" >&2; exit 1; }'
  writeFileSync(`${bin}/nft`, `#!/bin/sh\n${refuses}\nPATH=\${PATH#${bin}:}\nexec nft "$@"\n`)
  chmodSync(`${bin}/nft`, 0o755)
  running = startAgent(host, files, ['--look', '3600'], ['env', `PATH=${bin}:${process.env['PATH']}`])
  await running.seen(isReady, 'ready')
  const { cniVersion, name, plugins } = files.configuration()
  const conf = { cniVersion, name, ...plugins[0] }
  const netns = host.pod('p')
  expect(host.cni('ADD', conf, { id: 'p', netns }).code).toBe(0)
  // The monitor may have to begin first: a table is removed until the agent has heard of it.
  const isRepaired = () => running?.lines.some(({ message }) => message === 'repaired') === true
  for (let turn = 0; turn < 4 && !isRepaired(); turn++) {
    host.run('nft', ['add', 'table', 'inet', 'trestle'])
    host.run('nft', ['delete', 'table', 'inet', 'trestle'])
    await running.seen(({ message }) => message === 'repaired', 'the repair').catch(() => undefined)
  }
  expect(isRepaired()).toBe(true)
  expect(host.run('nft', ['list', 'table', 'inet', 'trestle']).code).toBe(0)
  expect(host.cni('DEL', conf, { id: 'p', netns }).code).toBe(0)
})
