// SPDX-License-Identifier: Apache-2.0
// Pods through a real containerd, one for each contender: what `crictl runp` takes, and of that the network, by
// containerd's own count; `stopp` and `rmp` beside. Runs on the machine itself: each containerd has a machine of its own.
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { wholeContenders } from './case-whole.mjs'
import { openContainerd } from './containerd/lab.mjs'
import { conflistOf, peersCache } from './contenders.mjs'
import { rotate } from './rounds.mjs'
import { beside, describe, ratio, spread } from './statistics.mjs'
import { leftOut, limits, row } from './table.mjs'

const unmeasured = 2
const needed = ['bin/containerd', 'bin/containerd-shim-runc-v2', 'bin/runc', 'images/lab.tar']
const chain = 'upstream chain, iptables'
const figures = {
  up: "runp's CNI share through containerd",
  down: "stopp's CNI share through containerd",
  runp: 'runp through containerd, all of it',
  gone: 'stopp and rmp through containerd, all of it',
}

/** Rows and notes of pods made one at a time. */
export async function containerd({ found, rounds }) {
  const missing = needed.filter((name) => !existsSync(join(peersCache, name)))
  if (missing.length > 0) {
    return { rows: [leftOut(figures.up, `${missing.join(', ')}: scripts/peers.sh containerd`)], notes: [] }
  }
  const contenders = wholeContenders(found).filter(({ name }) => !name.endsWith('nftables'))
  const machines = []
  try {
    for (const contender of contenders) {
      const conflist = conflistOf(contender)
      const machine = await openContainerd({ conflist, peers: peersCache, trestle: found.file('trestle') })
      machines.push({ ...machine, name: contender.name, pods: 0, series: { up: [], down: [], runp: [], gone: [] } })
    }
    for (let round = -unmeasured; round < rounds; round++)
      for (const machine of rotate(machines, round + unmeasured))
        if (machine.failed === undefined) {
          machine.failed = await onePod(machine, round >= 0).then(
            () => undefined,
            ({ message }) => message,
          )
        }
    return told(machines)
  } finally {
    for (const machine of machines) await machine.close()
  }
}

async function onePod(machine, isMeasured) {
  const { cri, networkMs, series } = machine
  machine.pods += 1
  const name = `bench-${machine.pods}`
  const config = {
    metadata: { name, uid: name, namespace: 'bench' },
    hostname: name,
    portMappings: [{ protocol: 0, containerPort: 80, hostPort: 20_000 + machine.pods }],
  }
  const before = networkMs()
  const [{ podSandboxId }, runp] = await timed(() => cri.call('RunPodSandbox', { config }))
  const made = networkMs()
  const [, gone] = await timed(async () => {
    await cri.call('StopPodSandbox', { podSandboxId })
    await cri.call('RemovePodSandbox', { podSandboxId })
  })
  const after = networkMs()
  if (!isMeasured) return
  series.up.push(made.up - before.up)
  series.runp.push(runp)
  series.down.push(after.down - made.down)
  series.gone.push(gone)
}

async function timed(body) {
  const start = performance.now()
  const done = await body()
  return [done, performance.now() - start]
}

function told(machines) {
  const [own, ...others] = machines
  if (own.failed !== undefined) throw new Error(own.failed)
  const rows = Object.entries(figures).flatMap(([figure, what]) =>
    others.map(({ name, series, failed }) => {
      if (failed !== undefined) return leftOut(`${what} / ${name}`, failed)
      const value = ratio(own.series[figure], series[figure])
      const limit = figure === 'up' && name === chain ? limits.containerd : undefined
      const detail = `${beside(own.series[figure], series[figure])}; ${spread(value)}`
      return row({ what: `${what} / ${name}`, limit, value: value.median, detail })
    }),
  )
  const measured = machines.filter(({ failed }) => failed === undefined)
  const notes = measured.flatMap(({ name, series }) =>
    Object.keys(figures).map((figure) => `${name}: ${figures[figure]}: ${describe(series[figure])}`),
  )
  return { rows, notes }
}
