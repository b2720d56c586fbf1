// SPDX-License-Identifier: Apache-2.0
// Rounds of the agent on demand, in the namespace that it is started in: a line of JSON is the cluster as it is now, and
// the line without a time is what the round says. An agent by itself would be waited for after each change.
// usage: node round-driver.mjs CONF_DIR BIN_DIR

import { createInterface } from 'node:readline'
import { openMetrics } from '../../../src/agent/metrics.ts'
import { type ClusterNode, readNode } from '../../../src/agent/nodes.ts'
import { type Known, type RoundResult, runRound } from '../../../src/agent/round.ts'
import { readSettings } from '../../../src/agent/settings.ts'

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
const nothing = (): Known => ({ refused: [], slow: [], fullRanges: [] })
let known = nothing()
let last = ''

for await (const line of createInterface(process.stdin)) {
  const { nodes, options, apiServer = '' } = JSON.parse(line) as RoundOrder
  const places = { 'node-name': 'self', 'conf-dir': confDir, 'bin-dir': binDir, overlay: 'never' }
  const settings = readSettings({ values: { ...places, ...options } })
  if (JSON.stringify(options) !== last) known = nothing()
  last = JSON.stringify(options)
  const all = nodes.map((node) => readNode(node)).filter((node) => node !== undefined)
  const input = {
    settings,
    nodes: new Map(all.map((node: ClusterNode) => [node.name, node])),
    apiServer,
    known,
    metrics,
  }
  const result = await runRound({
    ...input,
    isChanged: true,
    isLook: true,
    isWhole: true,
    nowMs: performance.now(),
  })
  process.stdout.write(`${JSON.stringify(result)}\n`)
}
