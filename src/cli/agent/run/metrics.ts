// SPDX-License-Identifier: Apache-2.0
// The agent's metrics (prometheus.io/docs/concepts/metric_types). Names of nodes are no labels: there are thousands.

import { Counter, Gauge, Registry } from 'prom-client'
import type { Problem } from '../../../plan/agent/problem.ts'
import { problemIds } from '../../../plan/agent/problem.ts'

/** The metrics and where they are read. */
export function openMetrics(version: string) {
  const registry = new Registry()
  const registers = [registry]
  const gauge = (name: string, help: string) => new Gauge({ name: `trestle_agent_${name}`, help, registers })
  const counter = (name: string, help: string) => new Counter({ name: `trestle_agent_${name}_total`, help, registers })
  const build = new Gauge({ name: 'trestle_agent_build_info', help: 'Always 1.', labelNames: ['version'], registers })
  build.set({ version }, 1)
  const problems = new Gauge({
    name: 'trestle_agent_problems',
    help: 'What a person has to do something about, by its id.',
    labelNames: ['id'],
    registers,
  })
  const memory = gauge('resident_memory_bytes', 'Memory of the agent that is resident.')
  const cpu = gauge('cpu_seconds', 'CPU time that the agent itself has used, tools that it starts apart.')
  return {
    nodes: gauge('nodes', 'Nodes that the API server lists.'),
    routes: gauge('routes', 'Routes to other nodes, and unreachable ones for the own range, that are wanted.'),
    routeChanges: counter('route_changes', 'Routes that were added, replaced or removed.'),
    repairs: counter('repairs', 'Things that were missing on the node and were made again.'),
    collected: counter('collected', 'Attachments and reservations that garbage collection removed.'),
    orphans: gauge('orphans', 'What garbage collection found and did not remove: a person has to look.'),
    apiFailures: counter('api_failures', 'Requests that the API server refused or did not answer.'),
    rounds: counter('rounds', 'How often state and node were compared.'),
    failedRounds: counter('failed_rounds', 'Rounds that ended with an error.'),
    roundSeconds: gauge('last_round_seconds', 'How long the last round took.'),
    ready: gauge('ready', '1 when configuration, rules and routes stand.'),
    setProblems: (now: readonly Problem[]) => {
      for (const id of problemIds) problems.set({ id }, now.filter((problem) => problem.id === id).length)
    },
    text: async () => {
      memory.set(process.memoryUsage.rss())
      const { user, system } = process.cpuUsage()
      cpu.set((user + system) / 1e6)
      return await registry.metrics()
    },
    contentType: registry.contentType,
  }
}

export type Metrics = ReturnType<typeof openMetrics>
