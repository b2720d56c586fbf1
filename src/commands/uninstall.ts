// SPDX-License-Identifier: Apache-2.0
// `trestle uninstall`: lists what trestle made on this machine, and with --apply removes it, once no pod is attached.

import { isDead } from '../state/records.ts'
import { openContext } from '../verbs/context.ts'
import { planUninstall, uninstall } from '../verbs/uninstall.ts'

export async function uninstallCommand(words: readonly string[]): Promise<number> {
  const context = openContext(undefined, true)
  const isApplied = words.includes('--apply')
  const plan = await planUninstall(context)
  const live = plan.pods.filter((pod) => !isDead(pod)).length
  const isBlocked = isApplied && live > 0
  const errors = isApplied && live === 0 ? await uninstall(plan, context) : []
  const isDone = isApplied && !isBlocked && errors.length === 0
  for (const line of plan.lines) process.stdout.write(`  ${isDone ? 'removed ' : 'remove  '}  ${line}\n`)
  for (const { message } of errors) process.stdout.write(`  failed    ${message}\n`)
  const end = isBlocked ? ': nothing is removed while a pod is attached' : isApplied ? '' : ' (--apply does it)'
  const count = plan.lines.length
  process.stdout.write(`${count} ${isDone ? 'removed' : 'to remove'}, ${live} attached${end}\n`)
  return isDone || count === 0 ? 0 : 1
}
