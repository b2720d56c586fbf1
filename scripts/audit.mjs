// SPDX-License-Identifier: Apache-2.0
// Known vulnerabilities of the npm packages, those that build and test included. One line. Exit code 1 when there are
// any; where the registry gives no advisories that is said, and nothing is known.
import { spawnSync } from 'node:child_process'

const { stdout } = spawnSync('npm', ['audit', '--json'], { encoding: 'utf8', timeout: 60_000 })
const counts = countsOf(stdout)
if (counts === undefined) {
  console.log('audit: the package registry gives no advisories here: not checked')
} else {
  const found = Object.entries(counts).filter(([level, count]) => level !== 'total' && count > 0)
  console.log(`audit: ${found.map(([level, count]) => `${count} ${level}`).join(', ') || 'no known vulnerability'}`)
  process.exitCode = found.length === 0 ? 0 : 1
}

function countsOf(text) {
  try {
    return JSON.parse(text).metadata?.vulnerabilities
  } catch {
    return undefined
  }
}
