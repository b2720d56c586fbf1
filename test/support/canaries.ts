// SPDX-License-Identifier: Apache-2.0
// Files that tell when they are loaded, and configurations of OpenSSL that break or load: what must steer no call.

import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { execaSync } from 'execa'

export type Canaries = ReturnType<typeof openCanaries>

/** Close them in a `finally` or `afterAll`. `loaded()`: which of them ran since they were asked the last time. */
export function openCanaries() {
  const root = mkdtempSync(`${tmpdir()}/trestle-canaries-`)
  const module = `${root}/canary.js`
  const directory = `${root}/directory`
  const library = `${root}/canary.so`
  const sign = { script: `${root}/script-ran`, library: `${root}/library-ran` }
  mkdirSync(directory)
  for (const file of [module, `${directory}/index.js`])
    writeFileSync(file, `require('node:fs').writeFileSync(${JSON.stringify(sign.script)}, '')`)
  makeLibrary(library, sign.library)
  for (const name of ['legacy.so', 'fips.so', 'canary.so']) execaSync('cp', [library, `${directory}/${name}`])
  const openssl = {
    loading: `[all]\nproviders = list\n[list]\ncanary = one\n[one]\nmodule = ${library}\nactivate = 1\n`,
    broken: '[all\n',
    fips: '[all]\nalg_section = algorithms\n[algorithms]\ndefault_properties = fips=yes\n',
  }
  const files = Object.entries(openssl).map(([name, text]) => {
    const file = `${root}/${name}.cnf`
    writeFileSync(file, `nodejs_conf = all\nopenssl_conf = all\n${text}`)
    return [name, file] as const
  })
  const loaded = (): readonly string[] => {
    const found = Object.entries(sign).filter(([, file]) => existsSync(file))
    for (const [, file] of found) rmSync(file)
    return found.map(([name]) => name)
  }
  const close = () => rmSync(root, { recursive: true, force: true })
  const configuration = Object.fromEntries(files) as Readonly<Record<keyof typeof openssl, string>>
  return { root, module, directory, configuration, loaded, close }
}

/** A shared library that makes a file when it is loaded; by system calls alone, since a compiler may be missing. */
function makeLibrary(path: string, sign: string): void {
  const [openCall, createForWriting] = [2, 0x41]
  const source = [
    `.globl loaded\nloaded: mov $${openCall}, %eax\nlea sign(%rip), %rdi`,
    `mov $${createForWriting}, %esi\nmov $384, %edx\nsyscall\nret`,
    `sign: .asciz ${JSON.stringify(sign)}\n.section .note.GNU-stack\n`,
  ]
  execaSync('as', ['-o', `${path}.o`, '-'], { input: source.join('\n') })
  execaSync('ld', ['-shared', '-init', 'loaded', '-o', path, `${path}.o`])
}

/** Words before a command that give the machine this openssl.cnf for that command alone. */
export function withOpensslConfiguration(file: string): readonly string[] {
  const script = 'text=$(cat "$1"); shift; mount -t tmpfs tmpfs /etc/ssl; printf "%s\\n" "$text" >/etc/ssl/openssl.cnf'
  return ['unshare', '--mount', 'sh', '-ec', `${script}; exec "$@"`, 'sh', file]
}
