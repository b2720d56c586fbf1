// SPDX-License-Identifier: Apache-2.0
// A plan as text for comparing with a file in test/cases: every process with its place and its input. After a
// change that is meant, `vitest -u` writes the files anew; the difference is then read like code.

import { assumedAdd, assumedDel, type Finds, type ShownPlan } from '../../src-before/cli/plan/assume.ts'
import type { NetConf } from '../../src-before/config/net-conf.ts'
import { interfaceConf } from '../../src-before/drivers/drivers.ts'
import { buildNetworkSpec, buildSpec } from '../../src-before/drivers/specs.ts'
import type { AttachmentSpec, Lease, NetworkSpec } from '../../src-before/model/attachment.ts'
import type { Op } from '../../src-before/model/op.ts'
import { type Batch, toLanes } from '../../src-before/tools/batches.ts'
import { type ShownStage, stageLine } from './stories.ts'

/** The attachment that golden cases are about. */
export const goldenKey = { network: 'net', containerId: 'c1', ifName: 'eth0', role: 'main' } as const

/** The link of the host that modes need: a macvlan's master. */
export const madeUpDevice = {
  name: 'up0',
  link: {
    name: 'up0',
    index: 2,
    mac: '0a:00:00:00:00:01',
    mtu: 1500,
    up: true,
    promisc: false,
    allmulti: false,
    addresses: [],
  },
  isWireless: false,
}

/** What is to be made of a configuration and a lease, on a machine with the usual MTU. */
export function specsOf(read: NetConf, lease: Lease): { spec: AttachmentSpec; network: NetworkSpec } {
  const conf = interfaceConf(read)
  const spec = buildSpec({ key: goldenKey, conf, lease, mtu: 1500, device: madeUpDevice })
  return { spec, network: buildNetworkSpec(conf, spec.ips, { mtu: 1500, machineId: 'machine' }) }
}

/** What happens to the attachment of a configuration: an ADD by what it finds, or the DEL after it. */
export type Called = Finds | 'DEL'

/** The plans of one call, as its order has them on assumed answers (src/cli/plan/assume.ts). */
export async function plansOf(conf: NetConf, called: Called): Promise<readonly ShownPlan[]> {
  const key = { ...goldenKey, role: conf.role }
  const begun = { key, conf, netns: '/run/netns/a', mtu: 1500, machineId: 'machine' }
  const add = await assumedAdd(begun, called === 'DEL' ? 'later' : called)
  return called === 'DEL' ? await assumedDel(begun, add, 77) : add.plans
}

/** Plans as text: a heading for each stage with what it waits for, then what each of its processes gets. */
export function plansText(title: string, plans: readonly ShownPlan[]): string {
  return plans.map((plan) => `# ${title}: ${plan.id}\n${plan.stages.map(stageText).join('')}`).join('\n')
}

function stageText({ run, ...stage }: ShownStage): string {
  const heading = `## ${stageLine({ run: 'ops' in run ? { ...run, ops: [] } : run, ...stage }).trim()}\n`
  return 'ops' in run ? `${heading}${opsText(run.ops)}` : heading
}

/** Operations as text: what each process gets, the lane of links before that of rules. */
export function opsText(ops: readonly Op[]): string {
  const { links, rules } = toLanes(ops)
  return [...links, ...rules].map(batchText).join('')
}

function batchText(batch: Batch): string {
  const lines = batch.tool === 'file' ? batch.ops.map(fileText) : batch.stdin.trimEnd().split('\n')
  return `${batch.tool} in ${batch.in}\n${lines.map((line) => `  ${line}\n`).join('')}`
}

function fileText(op: Extract<Batch, { tool: 'file' }>['ops'][number]): string {
  return op.kind === 'forwarding.on' ? `forwarding of IPv${op.family}` : `${op.key}=${op.value}`
}
