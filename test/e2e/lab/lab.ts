// SPDX-License-Identifier: Apache-2.0
// A private machine for one e2e test file: started by enter.sh, reached with nsenter, gone when the test process is.

import { existsSync } from 'node:fs'
import { copyFile, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { execa } from 'execa'
import { expect, vi } from 'vitest'
import { usualStateDir } from '../../support/state-layout.ts'

const here = (name: string) => fileURLToPath(new URL(name, import.meta.url))

/** Where scripts/peers.sh puts what it builds. */
export const peers =
  process.env['TRESTLE_PEERS'] ?? join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'trestle-peers')

/** The plugin under test: trestle's executable, or with E2E_PLUGIN_TYPE=bridge the upstream plugins, which prove the test. */
export const pluginType = process.env['E2E_PLUGIN_TYPE'] ?? 'trestle'
const trestle = process.env['CNI_BIN'] ?? here('../../../dist/trestle')

export interface Ran {
  readonly stdout: string
  readonly stderr: string
  readonly exitCode: number
}

export interface Lab {
  /** Scratch folder; the same path inside and outside. */
  readonly dir: string
  /** Runs a program inside; an exit code other than 0 is returned, not thrown. At most 60 s. */
  run(file: string, args?: readonly string[], options?: RunOptions): Promise<Ran>
  /** Ends every process inside and removes the scratch folder. */
  close(): Promise<void>
}

interface RunOptions {
  readonly input?: string
  readonly env?: Readonly<Record<string, string>>
}

/**
 * What of `names` (paths below the peers folder) and of the plugin under test is not there, each with the command
 * that makes it; empty when all is. Also says when this process may not make namespaces.
 */
export function missingParts(names: readonly string[], group: string): string[] {
  const absent = names.filter((name) => !existsSync(join(peers, name)))
  const missing = absent.length > 0 ? [`${absent.join(', ')} (scripts/peers.sh ${group})`] : []
  if (pluginType === 'trestle' && !existsSync(trestle)) missing.push(`${trestle} (npm run build)`)
  if (pluginType !== 'trestle' && !existsSync(join(peers, 'cni', pluginType)))
    missing.push(`${pluginType} (scripts/peers.sh cni)`)
  if (process.getuid?.() !== 0) missing.push('root (sudo -E npm run test:e2e)')
  for (const part of missing) console.warn(`skipped, missing: ${part}`)
  return missing
}

/** A scratch folder with the plugins in the private machine's /opt/cni/bin and `conflists` (file name to content) in its /etc/cni/net.d. */
export async function prepareLab(conflists: Readonly<Record<string, unknown>>): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), 'trestle-e2e-'))
  const [bin, conf] = [join(dir, 'root/opt/cni/bin'), join(dir, 'root/etc/cni/net.d')]
  await mkdir(bin, { recursive: true })
  await mkdir(conf, { recursive: true })
  for (const plugin of await readdir(join(peers, 'cni'))) await copyFile(join(peers, 'cni', plugin), join(bin, plugin))
  if (pluginType === 'trestle') await copyFile(trestle, join(bin, 'trestle'))
  for (const [name, content] of Object.entries(conflists)) await writeFile(join(conf, name), JSON.stringify(content))
  return dir
}

interface Machine {
  /** Prints `ready` when the machine is up, and stays until its stdin is closed. */
  readonly command: readonly string[]
  readonly ready: string
  /** Folders of unpacked packages, below the peers folder. */
  readonly parts?: readonly string[]
  /** For enter.sh and the command. */
  readonly env?: Readonly<Record<string, string>>
}

/** Starts the private machine in `dir`. Throws when it ends before it is ready, with what it printed, and removes `dir`. */
export async function openLab(dir: string, { command, ready, parts = [], env: more = {} }: Machine): Promise<Lab> {
  const machine = execa('bash', [here('enter.sh'), dir, ...command], {
    stdin: 'pipe',
    reject: false,
    all: true,
    env: { LC_ALL: 'C', LAB_PARTS: parts.map((part) => join(peers, part)).join(' '), ...more },
  })
  await new Promise<void>((resolve, reject) => {
    machine.stdout.on('data', (chunk) => String(chunk).includes(ready) && resolve())
    machine.then(({ all, exitCode }) => reject(new Error(`ended with ${exitCode} before it was ready: ${all}`)))
  }).catch(async (error: unknown) => {
    await rm(dir, { recursive: true, force: true })
    throw error
  })
  const init = await vi.waitFor(
    async () => {
      // enter.sh writes it while the machine comes up.
      const text = (await readFile(join(dir, 'pid'), 'utf8')).trim()
      expect(text).toMatch(/^\d+$/)
      return text
    },
    { timeout: 30_000 },
  )
  const enter = ['--target', init, '--net', '--mount', '--pid', '--uts', '--ipc', '--cgroup', '--wd=/', '--']
  return {
    dir,
    async run(file, args = [], { input = '', env = {} } = {}) {
      const { stdout, stderr, exitCode } = await execa('nsenter', [...enter, file, ...args], {
        input,
        // As crictl has it: where trestle asks the runtime of the machine.
        env: { LC_ALL: 'C', CONTAINER_RUNTIME_ENDPOINT: join(dir, 'containerd.sock'), ...env },
        reject: false,
        timeout: 60_000,
      })
      return { stdout, stderr, exitCode: exitCode ?? -1 }
    },
    async close() {
      machine.stdin.end()
      await machine
      await rm(dir, { recursive: true, force: true })
    },
  }
}

/** A private machine with containerd on `DIR/containerd.sock`, or LAB_SOCKET of `env`. */
export const openContainerdLab = (dir: string, env: Readonly<Record<string, string>> = {}): Promise<Lab> =>
  openLab(dir, { command: ['bash', here('containerd-up.sh'), dir, peers], ready: 'containerd ready', env })

/** A private machine with nothing started in it. `parts`: unpacked packages that it has. */
export const openBareLab = (dir: string, parts: readonly string[] = []): Promise<Lab> =>
  openLab(dir, {
    command: ['bash', '-c', 'echo bare machine ready; cat > /dev/null'],
    ready: 'bare machine ready',
    parts,
  })

/** What of the network is in the private machine: its veths but the uplink, and its nftables rules without counters. */
export async function leftovers(lab: Lab): Promise<{ readonly veths: string[]; readonly rules: string }> {
  const links = JSON.parse((await lab.run('ip', ['-j', 'link', 'show', 'type', 'veth'])).stdout || '[]') as {
    ifname: string
  }[]
  const { stdout } = await lab.run('nft', ['--stateless', 'list', 'ruleset'])
  return { veths: links.map((link) => link.ifname).filter((name) => name !== 'up0'), rules: stdout }
}

/** Files below the state folders of plugins and libcni that name `id`, a container id. */
export async function filesNaming(lab: Lab, id: string): Promise<string[]> {
  const script = 'grep -rlF -- "$1" "$2" /var/lib/cni 2>/dev/null; find "$2" /var/lib/cni -name "*$1*" 2>/dev/null'
  const { stdout } = await lab.run('bash', ['-c', script, 'bash', id, usualStateDir])
  return stdout.split('\n').filter((line) => line !== '')
}
