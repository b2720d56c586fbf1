// SPDX-License-Identifier: Apache-2.0
// Brings a pod back that does not work, and knows no more than its name: runs what `trestle doctor` prints, one cure after
// the other, until it finds nothing and kubelet says that the pod is ready. Prints what it ran.
// usage: cure-pod.mjs POD

import { execFileSync, spawnSync } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'

const [name] = process.argv.slice(2)
const lastMs = Date.now() + 50_000

async function isReady() {
  const { items } = await (await fetch('http://127.0.0.1:10255/pods')).json()
  const pod = items.find(({ metadata }) => metadata.name.startsWith(`${name}-`))
  return pod?.status.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True') ?? false
}

for (;;) {
  const { stdout } = spawnSync('trestle', ['doctor', '-o', 'json'], { encoding: 'utf8' })
  const bad = JSON.parse(stdout).findings.filter(({ severity }) => severity !== 'note')
  if (bad.length === 0 && (await isReady())) break
  if (Date.now() > lastMs) throw new Error(`${name} is not ready: ${JSON.stringify(bad)}`)
  const run = bad.find((finding) => finding.run !== undefined)?.run
  if (run === undefined) await sleep(200)
  else {
    console.log(`${bad[0].id}: ${run}`)
    execFileSync('sh', ['-c', run], { stdio: ['ignore', 'ignore', 'inherit'] })
  }
}
