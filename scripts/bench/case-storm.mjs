// SPDX-License-Identifier: Apache-2.0
// 200 pods at once, 20 at a time, on a node without any: everything shared is made under contention.

import { trestle, wholeReference, wholeTrestle } from './contenders.mjs'
import { openNode } from './node.mjs'
import { describe, quantile } from './statistics.mjs'
import { leftOut, row } from './table.mjs'
import { notInEffect } from './whole-in-effect.mjs'

const count = 200
const atOnce = 20
const longestMs = 5000

/** Rows and notes of the storm. */
export async function storm(bench) {
  const { found } = bench
  const lacks = await notInEffect(bench)
  const own = await oneStorm(lacks ? trestle(found, { ipMasq: true }) : wholeTrestle(found), bench)
  const notes = [told('trestle', own), ...(lacks ? [`trestle with masquerade only: ${lacks}`] : [])]
  const rows = [
    row({
      what: `${count} ADD, ${atOnce} at a time: errors`,
      limit: 0,
      value: own.errors.length,
      digits: 0,
      detail: own.errors[0],
    }),
    row({ what: 'the same: duplicate addresses', limit: 0, value: duplicates(own), digits: 0 }),
    row({
      what: 'the same: longest call',
      limit: longestMs,
      value: Math.max(0, ...own.calls.map(({ ms }) => ms)),
      unit: 'ms',
      digits: 0,
    }),
  ]
  const what = 'the same: all done / upstream chain'
  if (!found.has('portmap')) return { rows: [...rows, leftOut(what, found.missing.get('portmap'))], notes }
  const theirs = await oneStorm(wholeReference(found, 'iptables'), bench)
  notes.push(told('upstream chain, iptables', theirs))
  return { rows: [...rows, row({ what, limit: 0.3, value: own.ms / theirs.ms })], notes }
}

async function oneStorm(contender, { scratch }) {
  const node = openNode(contender, scratch)
  const pods = Array.from({ length: count }, node.pod)
  try {
    return await node.storm(pods, atOnce)
  } finally {
    node.close()
  }
}

function duplicates({ calls }) {
  const addresses = calls.flatMap(({ result }) => result.ips.map((ip) => ip.address))
  return addresses.length - new Set(addresses).size
}

function told(name, { ms, calls, errors }) {
  const times = calls.map((call) => call.ms)
  const each = times.length > 0 ? `each ${describe(times)}, p99 ${quantile(times, 0.99).toFixed(0)}` : 'none succeeded'
  return `${name}: ${(ms / 1000).toFixed(2)} s in all, ${errors.length} errors; ${each}${errors[0] ? `; ${errors[0]}` : ''}`
}
