// SPDX-License-Identifier: Apache-2.0
// One tool replaced on PATH: by a gate that its first caller waits at, by one that always fails, by one that writes
// down its calls, or by one that behaves like a later version.

import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'

/**
 * Callers of the tool whose input has `text` wait until the gate is opened, then run it; with `thenKilled` its caller
 * gets SIGKILL after that. `env` goes into a call. Close it in a `finally` or `afterEach`: that opens it.
 */
export function gateAt(tool: 'ip' | 'nft' | 'sysctl' | 'conntrack', text = '', thenKilled?: 'thenKilled') {
  const { directory, ...replaced } = replace(
    tool,
    (directory, real) => `input="${directory}/input.$$"
cat > "$input"
exec < "$input"
[ -z '${text}' ] || grep -q '${text}' "$input" || exec ${real} "$@"
touch ${directory}/reached
for i in $(seq 600); do [ -e ${directory}/open ] || [ ! -d ${directory} ] && break; sleep 0.02; done
${thenKilled ? `${real} "$@"; kill -KILL $PPID` : `exec ${real} "$@"`}`,
  )
  return {
    ...replaced,
    isReached: (): boolean => existsSync(`${directory}/reached`),
    open: (): void => writeFileSync(`${directory}/open`, ''),
  }
}

/** The tool fails, whatever it is asked. */
export function failing(tool: 'ip' | 'nft') {
  return replace(tool, () => 'cat > /dev/null\necho "Error: injected by the test" >&2\nexit 3')
}

/** The tool writes down the arguments it is called with, one line a call. */
export function logged(tool: 'conntrack') {
  const { directory, ...replaced } = replace(
    tool,
    (directory, real) => `echo "$*" >> "${directory}/calls"\nexec ${real} "$@"`,
  )
  return { ...replaced, lines: () => readFileSync(`${directory}/calls`, 'utf8').trim().split('\n') }
}

/** tc that knows the links of the moment it starts, as iproute2 7.3 does: what was remade before its input came is gone. */
export function tcOfIproute7() {
  return replace(
    'tc',
    (directory, real) => `links() { ip -o link | cut -d: -f1 | sort; }
links > "${directory}/then.$$"
cat > "${directory}/input.$$"
links > "${directory}/now.$$"
if [ -s "${directory}/input.$$" ] && [ -n "$(comm -23 "${directory}/then.$$" "${directory}/now.$$")" ]; then
  printf 'RTNETLINK answers: No such device\\nCommand failed -:1\\n' >&2
  exit 1
fi
exec ${real} "$@" < "${directory}/input.$$"`,
  )
}

/** Puts a script before the tool on PATH. `scriptOf` gets a directory for its files and the path of the real tool. */
function replace(tool: string, scriptOf: (directory: string, real: string) => string) {
  const directory = mkdtempSync(`${tmpdir()}/trestle-${tool}-`)
  const real = execFileSync('sh', ['-c', `command -v ${tool}`], { encoding: 'utf8' }).trim()
  writeFileSync(`${directory}/${tool}`, `#!/bin/sh\n${scriptOf(directory, real)}\n`, { mode: 0o755 })
  const close = (): void => rmSync(directory, { recursive: true, force: true })
  return { directory, env: { PATH: `${directory}:${process.env['PATH']}` }, close }
}
