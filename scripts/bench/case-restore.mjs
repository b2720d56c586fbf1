// SPDX-License-Identifier: Apache-2.0
// `trestle restore` of 200 pods with everything, after the rules were flushed and the bridge was removed.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { trestle, wholeTrestle } from './contenders.mjs'
import { openNode } from './node.mjs'
import { describe, quantile, started } from './statistics.mjs'
import { leftOut, row } from './table.mjs'
import { notInEffect } from './whole-in-effect.mjs'

const count = 200
const longestMs = 1000
const rounds = 5

/** Rows and notes of a restore. */
export async function restore(bench) {
  const { found, scratch } = bench
  const lacks = await notInEffect(bench)
  const node = openNode(lacks ? trestle(found, { ipMasq: true }) : wholeTrestle(found), scratch)
  const notes = lacks ? [`with masquerade only: ${lacks}`] : []
  const command = [`TRESTLE_STATE_DIR=${node.contender.env.TRESTLE_STATE_DIR}`, found.file('trestle'), 'restore']
  const spoil = () => {
    node.exec('nft', ['flush', 'ruleset'])
    node.exec('ip', ['link', 'del', 'bench0'])
  }
  try {
    await node.fill(count)
    const times = { all: [], nothing: [] }
    for (let round = 0; round < rounds; round++) {
      spoil()
      for (const series of [times.all, times.nothing]) {
        const start = performance.now()
        node.exec('env', command)
        series.push(performance.now() - start)
      }
    }
    spoil()
    const what = `restore of ${count} pods, rules flushed, bridge removed`
    return {
      rows: [
        row({ what, limit: longestMs, value: quantile(times.all, 0.5), unit: 'ms', digits: 0 }),
        row({ what: 'the same where nothing is missing', value: quantile(times.nothing, 0.5), unit: 'ms', digits: 0 }),
        processRow({ node, command, log: join(scratch, 'restore-execs') }),
      ],
      notes: [...notes, `restored: ${describe(times.all)}; nothing missing: ${describe(times.nothing)}`],
      series: times,
    }
  } finally {
    await node.close()
  }
}

function processRow({ node, command, log }) {
  const what = 'the same: subprocesses'
  const options = ['-f', '-qq', '-e', 'trace=execve', '-e', 'signal=none', '-o', log]
  try {
    node.exec('strace', [...options, 'env', ...command])
  } catch (error) {
    return leftOut(what, error.message)
  }
  const seen = started(readFileSync(log, 'utf8'))
  return row({ what, value: seen.length, digits: 0, detail: seen.join(', ') })
}
