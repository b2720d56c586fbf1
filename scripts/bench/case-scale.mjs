// SPDX-License-Identifier: Apache-2.0
// What an ADD costs on a node that is not empty: many pods, or many rules of others.
import { trestle } from './contenders.mjs'
import { attachRounds } from './rounds.mjs'
import { beside, describe, ratio, spread } from './statistics.mjs'
import { limits, row } from './table.mjs'

/** ADD with 1000 pods present against 10 (a bridge has 1023 ports at most). */
export async function pods(bench) {
  const [few, many] = [10, bench.full ? 1000 : 300]
  const contenders = [few, many].map((count) => named(trestle(bench.found, { ipMasq: true }), `${count} pods`))
  const counts = new Map([few, many].map((count) => [`${count} pods`, count]))
  const prepare = async (node) => await node.fill(counts.get(node.contender.name))
  const { series, failed } = await attachRounds(contenders, { ...bench, prepare })
  return compared({ series, failed, what: `ADD with ${many} pods / with ${few}`, limit: limits.manyPods })
}

/** ADD with foreign rules in nftables and in iptables against an empty rule set. */
export async function rules(bench) {
  const count = bench.full ? 50_000 : 10_000
  const fills = new Map([
    ['no foreign rules', () => {}],
    [`${count} nft rules`, (node) => node.exec('nft', ['-f', '-'], nftRules(count))],
    [`${count} iptables rules`, (node) => node.exec('iptables-restore', [], iptablesRules(count))],
  ])
  const contenders = [...fills.keys()].map((name) => named(trestle(bench.found, { ipMasq: true }), name))
  const prepare = (node) => fills.get(node.contender.name)(node)
  const { series, failed } = await attachRounds(contenders, { ...bench, prepare })
  const [base, ...others] = [...fills.keys()]
  const parts = others.map((name) =>
    compared({ series, failed, pair: [base, name], what: `ADD with ${name} / without`, limit: limits.foreignRules }),
  )
  return {
    rows: parts.flatMap((part) => part.rows),
    notes: parts.flatMap((part) => part.notes),
    series: Object.fromEntries(series),
  }
}

function compared({ series, failed, what, limit, pair = [...series.keys()] }) {
  const broken = [...failed].map(([name, reason]) => `${name}: ${reason}`)
  if (broken.length > 0) throw new Error(broken.join('; '))
  const [base, other] = pair.map((name) => series.get(name))
  const found = ratio(other.add, base.add)
  return {
    rows: [row({ what, limit, value: found.median, detail: `${beside(other.add, base.add)}; ${spread(found)}` })],
    notes: pair.map((name) => `${name}: ADD ${describe(series.get(name).add)}, DEL ${describe(series.get(name).del)}`),
    series: Object.fromEntries(series),
  }
}

function named(contender, name) {
  return { ...contender, name }
}

function nftRules(count) {
  const rules = Array.from({ length: count }, (_, at) => `add rule ip foreign rules ip daddr ${address(at)} accept`)
  return ['add table ip foreign', 'add chain ip foreign rules', ...rules, ''].join('\n')
}

function iptablesRules(count) {
  const rules = Array.from({ length: count }, (_, at) => `-A FOREIGN -d ${address(at)}/32 -j ACCEPT`)
  return ['*filter', ':FOREIGN - [0:0]', ...rules, 'COMMIT', ''].join('\n')
}

function address(at) {
  return `203.${(at >> 16) & 255}.${(at >> 8) & 255}.${at & 255}`
}
