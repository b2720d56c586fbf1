// SPDX-License-Identifier: Apache-2.0
// Lists through libcni: cnitool on a throw-away node, with the upstream plugins and trestle in its CNI_PATH.

import { existsSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Finished, type Host, trestle } from './host.ts'
import { stateEnv } from './state-layout.ts'
import { missingPlugins, upstreamPlugins } from './upstream.ts'

const cnitool = join(upstreamPlugins, '../bin/cnitool')

/** Why tests with cnitool and these plugins cannot run, or undefined. */
export function missingCnitool(plugins: readonly string[]): string | undefined {
  return existsSync(cnitool) ? missingPlugins(plugins) : 'skipped: no cnitool; scripts/peers.sh cni builds it'
}

/** A node with one list. Close it before the host. */
export function openRuntime(host: Host, name: string) {
  const directory = mkdtempSync(`${tmpdir()}/trestle-lists-`)
  const file = join(directory, `10-${name}.conflist`)
  const path = mkdtempSync(`${tmpdir()}/trestle-bin-`)
  for (const plugin of readdirSync(upstreamPlugins)) symlinkSync(join(upstreamPlugins, plugin), join(path, plugin))
  symlinkSync(trestle, join(path, 'trestle'))

  const words = (env: Readonly<Record<string, string>>) => Object.entries(env).map(([key, value]) => `${key}=${value}`)
  const usual = { ...stateEnv(host), CNI_PATH: path, NETCONFPATH: directory }

  /** Writes the list in place of the one before. */
  const write = (list: unknown): void => writeFileSync(file, JSON.stringify(list))
  /** Runs a verb for a pod's namespace, with capabilities as a runtime gives them. */
  const tool = (verb: 'add' | 'del' | 'check', netns: string, capabilities: object = {}): Finished =>
    host.run('env', [...words({ ...usual, CAP_ARGS: JSON.stringify(capabilities) }), cnitool, verb, name, netns])
  /** Runs a command of trestle for people. */
  const command = (...args: readonly string[]): Finished => host.run('env', [...words(usual), trestle, ...args])
  /** The same with tools of `directory` before the others. */
  const commandWith = (directory: string, ...args: readonly string[]): Finished =>
    host.run('env', [...words({ ...usual, PATH: `${directory}:${process.env['PATH']}` }), trestle, ...args])
  const close = (): void => {
    for (const each of [directory, path]) rmSync(each, { recursive: true, force: true })
    host.run('rm', ['-rf', '/run/cni', '/var/lib/cni/results', `/var/lib/cni/networks/${name}`])
  }
  return { file, directory, write, tool, command, commandWith, close }
}

export type Runtime = ReturnType<typeof openRuntime>
