// SPDX-License-Identifier: Apache-2.0
// A throw-away node with networks for `trestle add` and cnitool: configurations, the upstream plugins and trestle.

import { mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Finished, openHost, trestle } from './host.ts'
import { handsBeside, stateEnv } from './state-layout.ts'
import { upstreamPlugins } from './upstream.ts'

/** Where `ip netns`, libcni and trestle keep things by name, private to the run (scripts/in-netns.sh). */
const kept = ['/var/lib/cni/results', '/var/lib/cni/networks', '/run/cni']

/** A node whose configuration directory has `lists`, a file name each. Close it when done. */
export function openHands(lists: Readonly<Record<string, unknown>>) {
  const host = openHost()
  const directory = mkdtempSync(`${tmpdir()}/trestle-net.d-`)
  const path = mkdtempSync(`${tmpdir()}/trestle-bin-`)
  for (const plugin of readdirSync(upstreamPlugins)) symlinkSync(join(upstreamPlugins, plugin), join(path, plugin))
  symlinkSync(trestle, join(path, 'trestle'))
  symlinkSync(join(upstreamPlugins, '../bin/cnitool'), join(path, 'cnitool'))
  for (const [name, list] of Object.entries(lists)) {
    writeFileSync(join(directory, name), typeof list === 'string' ? list : JSON.stringify(list))
  }
  const env = {
    ...stateEnv(host),
    CNI_PATH: path,
    NETCONFPATH: directory,
    PATH: `${path}:${process.env['PATH']}`,
  }
  const words = (more: Readonly<Record<string, string>>) =>
    Object.entries({ ...env, ...more }).map(([key, value]) => `${key}=${value}`)

  /** A line of shell on the node: `trestle` and `cnitool` are on its PATH. */
  const shell = (line: string, more: Readonly<Record<string, string>> = {}): Finished =>
    host.run('env', [...words(more), 'bash', '-c', line])
  /** The networks of libcni's cache, `NETWORK INTERFACE` each. */
  const entries = (): readonly string[] =>
    host
      .run('ls', ['/var/lib/cni/results'])
      .stdout.split('\n')
      .filter((name) => name !== '')
  const names = (): readonly string[] => readdirSync('/run/netns').filter((name) => !name.startsWith(host.name))
  const close = (): void => {
    for (const name of names()) host.run('ip', ['netns', 'del', name])
    host.close()
    for (const each of [directory, path, handsBeside(host), ...kept]) rmSync(each, { recursive: true, force: true })
  }
  return { host, directory, shell, entries, names, close }
}

export type Hands = ReturnType<typeof openHands>
