// SPDX-License-Identifier: Apache-2.0
// The executable of release 0.1, built from the history of the repository: what it wrote has to be read, and what is
// written now it has to read.

import { execFileSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'

/** The last commit of release 0.1 whose state files had no format of their own. */
export const earlierCommit = '0b458ae'

/** Why it cannot be built here; undefined where it can. */
export function lackOfHistory(): string | undefined {
  try {
    execFileSync('git', ['cat-file', '-e', `${earlierCommit}^{commit}`], { stdio: 'pipe' })
    return undefined
  } catch {
    return `no commit ${earlierCommit} here: a clone without history, or an unpacked archive`
  }
}

/**
 * Builds it in a temporary directory; `remove` takes that away. The packages are today's, mounted where the build looks for
 * them (it follows no links): only in a mount namespace of the tests' own.
 */
export function buildEarlier(): { readonly file: string; readonly remove: () => void } {
  if (process.env['TRESTLE_TEST_NETNS'] === undefined) throw new Error('run this through scripts/in-netns.sh')
  const directory = mkdtempSync(join(tmpdir(), 'trestle-earlier-'))
  const packages = join(directory, 'node_modules')
  const remove = (): void => {
    if (existsSync(join(packages, 'zod'))) execFileSync('umount', [packages])
    rmSync(directory, { recursive: true, force: true })
  }
  try {
    const archive = execFileSync('git', ['archive', earlierCommit], { maxBuffer: 2 ** 28 })
    execFileSync('tar', ['-x', '-C', directory], { input: archive })
    mkdirSync(packages)
    execFileSync('mount', ['--bind', resolve('node_modules'), packages])
    execFileSync(process.execPath, ['build.mjs'], { cwd: directory, stdio: 'pipe' })
    const file = join(directory, 'trestle')
    cpSync(join(directory, 'dist/trestle'), file)
    return { file, remove }
  } catch (error) {
    remove()
    throw error
  }
}
