// SPDX-License-Identifier: Apache-2.0
// `trestle agent` speaks TLS to the API server whatever OpenSSL's and Node's configuration on its host says: it verifies
// the server, loads nothing, and opens no port but that of its metrics.

import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { type Canaries, openCanaries, withOpensslConfiguration } from '../../support/canaries.ts'
import { nodeWithApi } from '../../support/cluster/agent-node.ts'
import { isReady, makeCertificate, nodeObject, type Running } from '../../support/cluster/cluster.ts'
import { trestle } from '../../support/host.ts'

const node = nodeWithApi({ secure: true })
let canaries: Canaries
beforeEach(() => {
  canaries = openCanaries()
})
afterEach(() => canaries.close())

function agent(tracer: readonly string[], caFile = node.certificate): Running {
  return node.start(['--api-server', 'https://127.0.0.1:6443', '--ca-file', caFile], tracer)
}

/** The ports that are open on the node, but for the API server's and that of the metrics. */
function strangePorts(): readonly string[] {
  const open = node.host.run('ss', ['-Hltn']).stdout.split('\n')
  return open.filter((line) => line !== '' && !/:(6443|9917) /.test(line))
}

it('reaches a server over TLS whatever /etc/ssl/openssl.cnf has', { timeout: 180_000 }, async () => {
  for (const [name, file] of Object.entries(canaries.configuration)) {
    const started = agent(withOpensslConfiguration(file))
    await started.seen(isReady, `ready with a configuration that is ${name}`)
    expect(canaries.loaded(), name).toEqual([])
    await started.end()
  }
})

it('opens no inspector for SIGUSR1, and goes on', { timeout: 60_000 }, async () => {
  const started = agent([])
  await started.seen(isReady, 'ready')
  started.child.kill('SIGUSR1')
  await sleep(500)
  expect(strangePorts()).toEqual([])
  await node.api.order({ put: [nodeObject('two', { cidrs: ['10.244.2.0/24'], addresses: ['192.0.2.12'] })] })
  const isRouted = () => node.host.run('ip', ['route']).stdout.includes('10.244.2.0/24 via 192.0.2.12')
  const end = performance.now() + 20_000
  while (!isRouted() && performance.now() < end) await sleep(50)
  expect(isRouted()).toBe(true)
})

it('loads nothing and opens no port by a variable of Node or OpenSSL', { timeout: 180_000 }, async () => {
  const found = new Set(readFileSync(trestle, 'latin1').match(/(?<![A-Za-z0-9_])(?:NODE|OPENSSL|SSL)_[A-Z0-9_]+\b/g))
  // Node's start ends by these two: test/netns/edge/environment.test.ts.
  const names = [...found].filter((name) => !['NODE_CHANNEL_FD', 'NODE_REPL_EXTERNAL_MODULE'].includes(name))
  const options = `--require ${canaries.module} --inspect=127.0.0.1:9229`
  for (const value of [canaries.module, canaries.directory, options, canaries.configuration.loading]) {
    const started = agent(['env', '-C', canaries.root, ...names.map((name) => `${name}=${value}`)])
    await started.seen(isReady, `ready with each variable being ${value}`)
    expect(strangePorts(), value).toEqual([])
    expect(canaries.loaded(), value).toEqual([])
    await started.end()
  }
})

it('refuses a server that another CA signed, also with NODE_TLS_REJECT_UNAUTHORIZED=0', {
  timeout: 60_000,
}, async () => {
  const other = makeCertificate(canaries.root)
  const environment = ['env', 'NODE_TLS_REJECT_UNAUTHORIZED=0', `NODE_EXTRA_CA_CERTS=${node.certificate}`]
  const started = agent(environment, other.certificate)
  await started.seen((line) => JSON.stringify(line).includes('self-signed certificate'), 'a refusal')
  expect(started.lines.some(isReady)).toBe(false)
  expect(node.api.lines.filter((line) => line['path'] !== undefined)).toEqual([])
})
