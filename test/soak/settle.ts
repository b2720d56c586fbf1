// SPDX-License-Identifier: Apache-2.0
// What a node's people do when something went wrong: DEL of the pods that are not whole, a later call for what killed
// ones left, `trestle restore`. Afterwards state and kernel say the same.

import { readFileSync, writeFileSync } from 'node:fs'
import { callFiles, stateOf } from '../support/state-layout.ts'
import { runCommand } from './calls.ts'
import { lookAt, namesIn } from './facts.ts'
import { brokenInvariants } from './invariants.ts'
import { networkNames } from './networks.ts'
import { callNetwork, checkPod, count, type Pod, removePod, type World } from './world.ts'

/** Pods whose ADD or DEL did not end well, and `broken` ones, are deleted; each network has one more call. */
export async function settle(world: World, broken: readonly Pod[]): Promise<void> {
  const failed = [...world.pods.values(), ...world.former].filter(({ state }) => state === 'failed')
  for (const pod of new Set([...failed, ...broken])) await removePod(world, pod)
  // Any call settles what killed calls and failed tools left on its network.
  const isAtWork = callFiles(world.host).length > 0
  for (const network of networkNames.filter((name, at) => hasLeftovers(world, name) || (isAtWork && at === 0))) {
    const { code, stdout } = await callNetwork(world, { verb: 'DEL', network })
    if (code !== 0) world.complaints.push(`DEL of nobody (${network}) ended with ${code}: ${stdout}`)
  }
}

function hasLeftovers({ host }: World, network: string): boolean {
  return namesIn(stateOf(host, network).directoryOf('pending')).length > 0
}

/** `trestle restore`; complains unless it ends well. Pods whose namespace went are reported as lost. */
export async function restore(world: World): Promise<void> {
  count(world, 'restore')
  const { code, stdout, stderr } = await runCommand(world.host, ['restore'])
  if (code !== 0 && code !== 1) world.complaints.push(`restore ended with ${code}: ${stdout}${stderr}`)
}

/** `trestle gc --apply` when more than five minutes have passed for the pods that are dead. */
export async function collectGarbage(world: World): Promise<void> {
  count(world, 'gc --apply')
  const dead = [...world.pods.values(), ...world.former].filter(({ state }) => state === 'dead')
  const files = lookAt(world).records.filter(
    (record) => !record.isPending && dead.some(({ id }) => id === record.id?.containerId),
  )
  for (const { file } of files) makeOlder(`${world.host.stateDir}/${file}`)
  const { code, stdout, stderr } = await runCommand(world.host, ['gc', '--apply', '--no-runtime'])
  if (code !== 0) world.complaints.push(`gc --apply ended with ${code}: ${stdout}${stderr}`)
}

/** Everything that must hold now. `isWhole`: state and kernel have to say the same, nothing being half made or half removed. */
export async function wrongNow(world: World, checked: readonly Pod[], isWhole: boolean): Promise<readonly string[]> {
  const facts = lookAt(world)
  count(world, 'invariant checks')
  const wrong = [...world.complaints, ...brokenInvariants(facts)]
  if (!isWhole) return wrong
  const pending = facts.records.filter(({ isPending }) => isPending)
  wrong.push(...pending.map(({ file }) => `${file} is left of a call that is over`))
  for (const pod of checked) if (pod.state === 'live') wrong.push(...(await checkPod(world, pod)))
  return wrong
}

/** The record as it will be in six minutes. */
function makeOlder(file: string): void {
  const record = JSON.parse(readFileSync(file, 'utf8')) as { readonly createdAt: string }
  const createdAt = new Date(Date.parse(record.createdAt) - 360_000).toISOString()
  writeFileSync(file, JSON.stringify({ ...record, createdAt }))
}
