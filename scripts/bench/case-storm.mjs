// SPDX-License-Identifier: Apache-2.0
// 200 pods at once, 20 at a time, on a node without any: everything shared is made under contention.
import { wholeContenders } from './case-whole.mjs'
import { trestle } from './contenders.mjs'
import { openNode } from './node.mjs'
import { beside, describe } from './statistics.mjs'
import { leftOut, limits, row } from './table.mjs'
import { notInEffect } from './whole-in-effect.mjs'

const count = 200
const atOnce = 20
const longestMs = 5000

/** Rows and notes of the storm. */
export async function storm(bench) {
  const { found } = bench
  const lacks = await notInEffect(bench)
  const [ours, ...others] = wholeContenders(found)
  const own = await oneStorm(lacks ? trestle(found, { ipMasq: true }) : ours, bench)
  const notes = [told('trestle', own), ...(lacks ? [`trestle with masquerade only: ${lacks}`] : [])]
  const what = `${count} ADDs, ${atOnce} at a time`
  const longest = Math.max(0, ...own.calls.map(({ ms }) => ms))
  const rows = [
    row({ what: `${what}: errors`, limit: 0, value: own.errors.length, digits: 0, detail: own.errors[0] }),
    row({ what: `${what}: duplicate addresses`, limit: 0, value: duplicates(own), digits: 0 }),
    row({ what: `${what}: longest call`, limit: longestMs, value: longest, unit: 'ms', digits: 0 }),
  ]
  if (others.length === 0) rows.push(leftOut(`${what}: all done / upstream chain`, found.missing.get('portmap')))
  for (const contender of others) {
    const theirs = await oneStorm(contender, bench)
    const { name } = contender
    const [each, other] = [own, theirs].map(({ calls }) => calls.map(({ ms }) => ms))
    const seconds = [own, theirs].map(({ ms }) => (ms / 1000).toFixed(1)).join(' / ')
    const times = other.length === 0 ? 'none of theirs succeeded' : `each ${beside(each, other)}`
    notes.push(told(name, theirs))
    rows.push(
      row({
        what: `${what}: all done / ${name}`,
        limit: name === 'upstream chain, iptables' ? limits.storm : undefined,
        value: own.ms / theirs.ms,
        detail: `${seconds} s, ${theirs.errors.length} errors of theirs; ${times}`,
      }),
    )
  }
  return { rows, notes }
}

async function oneStorm(contender, { scratch }) {
  const node = openNode(contender, scratch)
  const pods = Array.from({ length: count }, node.pod)
  try {
    return await node.storm(pods, atOnce)
  } finally {
    await node.close()
  }
}

function duplicates({ calls }) {
  const addresses = calls.flatMap(({ result }) => result.ips.map((ip) => ip.address))
  return addresses.length - new Set(addresses).size
}

function told(name, { ms, calls, errors }) {
  const times = calls.map((call) => call.ms)
  const each = times.length > 0 ? `each ${describe(times)}` : 'none succeeded'
  return `${name}: ${(ms / 1000).toFixed(2)} s in all, ${errors.length} errors; ${each}${errors[0] ? `; ${errors[0]}` : ''}`
}
