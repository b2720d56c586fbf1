// SPDX-License-Identifier: Apache-2.0
// conf-examples/grafana-dashboard.json: each query of it has an answer from a Prometheus that scrapes a real agent.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { execaSync } from 'execa'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { agentFiles, isReady, nodeObject, openApiServer, startAgent, until } from '../../support/cluster/cluster.ts'
import { type Host, openHost } from '../../support/host.ts'
import { runLine } from '../../support/outcome.ts'
import { attach } from '../../support/traffic/pods.ts'

const isThere = !execaSync('which', ['prometheus'], { reject: false }).failed
if (!isThere) console.warn('skipped, missing: prometheus (Debian: prometheus)')

interface Dashboard {
  readonly panels: readonly { readonly title: string; readonly targets: readonly { readonly expr: string }[] }[]
}

const { panels } = JSON.parse(readFileSync('conf-examples/grafana-dashboard.json', 'utf8')) as Dashboard

describe.skipIf(!isThere)('the dashboard', () => {
  let host: Host
  const ends: (() => unknown)[] = []
  beforeEach(() => {
    host = openHost()
  })
  afterEach(async () => {
    for (const end of ends.splice(0).toReversed()) await end()
    host.close()
  })

  it('asks for what the agent has', async () => {
    for (const line of [
      'link set lo up',
      'link add up0 type bridge',
      'link set up0 up',
      'addr add 192.0.2.11/24 dev up0',
    ])
      runLine(host, `ip ${line}`)
    const files = agentFiles()
    const api = await openApiServer(host)
    ends.push(
      () => files.remove(),
      () => api.end('SIGKILL'),
    )
    await api.order({ put: [nodeObject('self', { cidrs: ['10.244.1.0/24'], addresses: ['192.0.2.11'] })] })
    const agent = startAgent(host, files)
    ends.push(() => agent.end('SIGKILL'))
    await agent.seen(isReady, 'readiness')
    attach(host, { cniVersion: '1.1.0', name: 'pods', type: 'trestle', podcidr: '10.244.1.0/24' })

    writeFileSync(
      `${files.root}/prometheus.yml`,
      'scrape_configs: [{job_name: trestle, scrape_interval: 1s, static_configs: [{targets: ["127.0.0.1:9917"]}]}]\n',
    )
    const words = ['--config.file', `${files.root}/prometheus.yml`, '--storage.tsdb.path', `${files.root}/tsdb`]
    const server = spawn(
      'nsenter',
      [`--net=${host.path}`, '--', 'prometheus', ...words, '--web.listen-address=127.0.0.1:9090'],
      {
        stdio: 'ignore',
      },
    )
    ends.push(async () => {
      const ended = once(server, 'exit')
      server.kill('SIGKILL')
      await ended
    })
    const resultsOf = (expr: string): number => {
      const url = `http://127.0.0.1:9090/api/v1/query?query=${encodeURIComponent(expr)}`
      const ask = `fetch('${url}').then((found) => found.json()).then(({ data }) => console.log(data.result.length))`
      return Number(host.run(process.execPath, ['-e', ask]).stdout)
    }
    await until(
      () => resultsOf('count_over_time(trestle_agent_ready[5m]) > 2') > 0,
      () => 'three scrapes of the agent',
    )
    const queries = panels.flatMap(({ title, targets }) => targets.map(({ expr }) => [title, expr] as const))
    expect(queries.length).toBeGreaterThan(10)
    expect(queries.filter(([, expr]) => resultsOf(expr) === 0)).toEqual([])
  })
})
