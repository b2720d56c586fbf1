// SPDX-License-Identifier: Apache-2.0
// The inner process of `try`, alone in its namespaces: makes the lab, tries the network step by step,
// reports each step. Nothing is torn down by hand: the namespaces end with the process.

import { readFileSync } from 'node:fs'
import { toCniError } from '../../cni/model/error.ts'
import { nowMs } from '../../system/process/clock.ts'
import { type Run, runnerUntil } from '../../system/process/runner.ts'
import type { NetworkList } from '../node/list.ts'
import { exitCode } from '../shell/command.ts'
import type { Output } from '../shell/output.ts'
import { openReport } from '../shell/report.ts'
import { openLab, uplinkApartFrom } from './lab.ts'
import { orphanSteps } from './orphans.ts'
import { addPods, checkPods, delPods, type Trial } from './pods.ts'
import { linkSteps, reachSteps } from './reach.ts'

/** What the outer process decides. */
export interface InsideInput {
  readonly network: NetworkList
  readonly cniPath: string
  readonly isJson: boolean
  readonly hasColour: boolean
}

/** One command of `try` itself, or one CNI call, may take this long. */
const stepTimeoutMs = 30_000

/** Runs `run` with a fresh deadline for each command. */
const bounded: Run = (command) => runnerUntil({ endsAtMs: nowMs() + stepTimeoutMs })(command)

/** Tries the network that standard input describes. Returns the exit code; 3 when the lab cannot be made. */
export async function runInside(output: Output): Promise<number> {
  const { network, cniPath, isJson, hasColour } = JSON.parse(readFileSync(0, 'utf8')) as InsideInput
  const uplink = uplinkApartFrom(rangesIn(network))
  try {
    await openLab(bounded, uplink)
  } catch (error) {
    const { message, details = '' } = toCniError(error)
    output.err(`${message}\n${details}\n`)
    return exitCode.couldNotLook
  }
  const types = network.plugins.map((plugin) => plugin.type).join(', ')
  const title = `network ${network.name} (${types}; CNI ${network.cniVersion}), in private namespaces`
  const report = openReport({ title, command: 'try', isJson, output: { ...output, hasColour } })
  await tryNetwork({ run: bounded, network, cniPath, uplink, report })
  return report.close()
}

async function tryNetwork(trial: Trial): Promise<void> {
  const pods = await addPods(trial)
  if (pods.length > 0) {
    await linkSteps(trial, pods)
    await reachSteps(trial, pods)
    await checkPods(trial, pods)
  }
  await delPods(trial, pods)
  await orphanSteps(trial, pods)
}

/** Every CIDR in the configuration, whatever its key. */
function rangesIn(network: NetworkList): readonly string[] {
  return [...JSON.stringify(network).matchAll(/"([0-9a-fA-F.:]+\/\d{1,3})"/g)].map((match) => match[1] ?? '')
}
