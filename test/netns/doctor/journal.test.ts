// SPDX-License-Identifier: Apache-2.0
// `trestle doctor` beside a real journal: systemd's own daemon, in namespaces of its own, takes lines of three units.

import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, expect, it } from 'vitest'
import type { Shown } from '../../support/doctor-node.ts'
import { type DoctorNode, openDoctorNode } from '../../support/doctor-node.ts'

const script = fileURLToPath(new URL('journal.sh', import.meta.url))
const programs = ['/lib/systemd/systemd-journald', '/usr/bin/journalctl', '/usr/bin/systemd-cat']
const missing = programs.filter((file) => !existsSync(file))
const title = 'reads the last hour of the units of runtimes and kubelet, and of no other'

let node: DoctorNode
beforeEach(() => {
  node = openDoctorNode()
})
afterEach(() => node.close())

it.skipIf(missing.length > 0)(missing.length > 0 ? `${title}: skipped, no ${missing.join(', ')}` : title, () => {
  const doctor = `trestle doctor --config-dir ${node.configDir} --bin-dir ${node.binDir} --no-runtime -o json --only log`
  const { exitCode, stdout, stderr } = node.sh(
    `timeout -s KILL 150 unshare --mount --pid --fork --kill-child --mount-proc bash ${script} ${doctor}`,
  )
  expect(exitCode, `${stdout}${stderr}`).toBe(1)
  const { findings, notLooked } = JSON.parse(stdout) as { findings: readonly Shown[]; notLooked: readonly unknown[] }
  expect(notLooked).toEqual([])
  expect(findings.map(({ id, on }) => `${id} ${on}`).toSorted()).toEqual([
    'cni-not-initialized kubelet',
    'flannel-subnet-env shop/web',
  ])
  expect(findings.find(({ id }) => id === 'flannel-subnet-env')?.seen).toContain('2 times in the last hour')
})
