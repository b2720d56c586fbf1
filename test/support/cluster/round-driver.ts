// SPDX-License-Identifier: Apache-2.0
// Rounds of the agent on demand, in the namespace that it is started in: a line of JSON is the cluster as it is now, and
// the answer is what the round says. An agent by itself would be waited for after each change.
// usage: node round-driver.mjs CONF_DIR BIN_DIR

import { createInterface } from 'node:readline'
import { openMetrics } from '../../../src-before/cli/agent/metrics.ts'
import { type Known, type RoundResult, runRound } from '../../../src-before/cli/agent/round.ts'
import { settingsOf } from '../../../src-before/cli/agent/settings.ts'
import { type ClusterNode, clusterNode } from '../../../src-before/plan/agent/cluster-node.ts'

/** The Nodes as the API server has them, and options of the agent; another agent begins where the options change. */
export interface RoundOrder {
  readonly nodes: readonly object[]
  readonly options: Readonly<Record<string, string>>
  readonly apiServer?: string
}

/** `said`: the messages of the round's log. */
export type RoundAnswer = RoundResult & { readonly said: readonly string[] }

const [confDir = '', binDir = ''] = process.argv.slice(2)
const metrics = openMetrics('test')
const { signal } = new AbortController()
let known: Known = {}
let last = ''

for await (const line of createInterface(process.stdin)) {
  const { nodes, options, apiServer = '' } = JSON.parse(line) as RoundOrder
  const settings = settingsOf({ values: { 'node-name': 'self', 'conf-dir': confDir, 'bin-dir': binDir, ...options } })
  if (JSON.stringify(options) !== last) known = {}
  last = JSON.stringify(options)
  const all = nodes.map(clusterNode).filter((node) => node !== undefined)
  const said: string[] = []
  const result = await runRound({
    ...{ settings, nodes: new Map(all.map((node: ClusterNode) => [node.name, node])) },
    ...{ apiServer, isWhole: true, known, signal, metrics, log: (_, message) => said.push(message) },
  })
  process.stdout.write(`${JSON.stringify({ ...result, said })}\n`)
}
