// SPDX-License-Identifier: Apache-2.0
// One tool replaced on PATH: by a gate that its first caller waits at, or by one that always fails.

import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'

/**
 * Callers of the tool whose input has `text` wait until the gate is opened, then run it; with `thenKilled` its caller
 * gets SIGKILL after that. `env` goes into a call. Close it in a `finally` or `afterEach`: that opens it.
 */
export function gateAt(tool: 'ip' | 'nft' | 'conntrack', text = '', thenKilled?: 'thenKilled') {
  const directory = mkdtempSync(`${tmpdir()}/trestle-gate-`)
  const real = execFileSync('sh', ['-c', `command -v ${tool}`], { encoding: 'utf8' }).trim()
  install(
    directory,
    tool,
    `input="${directory}/input.$$"
cat > "$input"
exec < "$input"
[ -z '${text}' ] || grep -q '${text}' "$input" || exec ${real} "$@"
touch ${directory}/reached
for i in $(seq 600); do [ -e ${directory}/open ] || [ ! -d ${directory} ] && break; sleep 0.02; done
${thenKilled ? `${real} "$@"; kill -KILL $PPID` : `exec ${real} "$@"`}`,
  )
  const close = (): void => rmSync(directory, { recursive: true, force: true })
  return {
    env: { PATH: `${directory}:${process.env['PATH']}` },
    isReached: (): boolean => existsSync(`${directory}/reached`),
    open: (): void => writeFileSync(`${directory}/open`, ''),
    close,
  }
}

/** The tool fails, whatever it is asked. */
export function failing(tool: 'ip' | 'nft') {
  const directory = mkdtempSync(`${tmpdir()}/trestle-failing-`)
  install(directory, tool, 'cat > /dev/null\necho "Error: injected by the test" >&2\nexit 3')
  const close = (): void => rmSync(directory, { recursive: true, force: true })
  return { env: { PATH: `${directory}:${process.env['PATH']}` }, close }
}

function install(directory: string, tool: string, script: string): void {
  writeFileSync(`${directory}/${tool}`, `#!/bin/sh\n${script}\n`, { mode: 0o755 })
}
