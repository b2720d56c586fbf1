// SPDX-License-Identifier: Apache-2.0
// How many processes each verb starts.
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { trestle } from './contenders.mjs'
import { openNode } from './node.mjs'
import { started } from './statistics.mjs'
import { leftOut, row } from './table.mjs'

/** Processes started by each verb of a network with masquerade, without and with the bridge already there. */
export async function processes({ found, scratch }) {
  const what = (verb) => `subprocesses, ${verb}`
  if (spawnSync('strace', ['-V']).status !== 0) return { rows: [leftOut(what('ADD'), 'strace is missing')], notes: [] }
  const log = join(scratch, 'execs')
  const options = ['-f', '-qq', '-e', 'trace=execve', '-e', 'signal=none', '-o', log]
  const node = openNode(wrapped(trestle(found, { ipMasq: true }), 'strace', options), scratch)
  const counts = {}
  const first = node.pod()
  await node.call('ADD', { pod: first })
  const atFirst = started(readFileSync(log, 'utf8'))
  const pod = node.pod()
  const { result } = await node.call('ADD', { pod })
  counts.ADD = started(readFileSync(log, 'utf8'))
  for (const verb of ['CHECK', 'DEL', 'STATUS', 'VERSION']) {
    await node.call(verb, { pod: { ...pod, runtimeConfig: {} }, prevResult: verb === 'CHECK' ? result : undefined })
    counts[verb] = started(readFileSync(log, 'utf8'))
  }
  await node.close()
  const limits = { ADD: 3, DEL: 3, CHECK: 4, STATUS: 0, VERSION: 0 }
  const rows = Object.entries(limits).map(([verb, limit]) =>
    row({ what: what(verb), limit, value: counts[verb].length, digits: 0, detail: counts[verb].join(', ') }),
  )
  return { rows, notes: [`the first ADD of the node: ${atFirst.length} (${atFirst.join(', ')})`] }
}

/** A contender whose executables run under another program. */
function wrapped(contender, wrapper, options) {
  const at = (state) => {
    const { env, plugins } = contender.at(state)
    return { env, plugins: plugins.map((plugin) => ({ ...plugin, file: wrapper, args: [...options, plugin.file] })) }
  }
  return { ...contender, at }
}
