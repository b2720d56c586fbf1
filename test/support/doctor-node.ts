// SPDX-License-Identifier: Apache-2.0
// A node with two pods and an outside world, and `trestle doctor` on it.

import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname } from 'node:path'
import { execaSync } from 'execa'
import { trestle } from './host.ts'
import { asPublished } from './published.ts'
import { stateEnv } from './state-layout.ts'
import { attach, type Pod } from './traffic/pods.ts'
import { outside, pings } from './traffic/traffic.ts'
import { openUplinkedHost } from './traffic/uplinked-host.ts'

/** A finding as `-o json` has it. */
export interface Shown {
  readonly id: string
  readonly group: string
  readonly severity: 'error' | 'warning' | 'note'
  readonly on: string
  readonly seen: string
  readonly run?: string
}

/** What doctor said: above a note, and all. */
export interface Examined {
  readonly code: number
  readonly ids: readonly string[]
  readonly findings: readonly Shown[]
  readonly document: Readonly<Record<string, unknown>>
}

const plugin = { type: 'trestle', podcidr: ['10.240.0.0/24', 'fd00:240::/64'], capabilities: { portMappings: true } }

/** The variables by which kubelet's runtime names a pod. */
export const podArgs = (name: string) => `IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=${name}`

/** Opens the node. `more`: keys of the plugin. Close it in `afterEach`. */
export function openDoctorNode(more: Readonly<Record<string, unknown>> = {}) {
  const host = openUplinkedHost()
  const root = mkdtempSync(`${tmpdir()}/trestle-doctor-`)
  const [configDir, binDir, log] = [`${root}/net.d`, `${root}/bin`, `${root}/log`]
  for (const directory of [configDir, binDir]) mkdirSync(directory)
  symlinkSync(trestle, `${binDir}/trestle`)
  writeFileSync(log, '')
  const conf = { cniVersion: '1.1.0', name: 'pods', ...plugin, ...more }
  const write = (name: string, content: unknown) =>
    writeFileSync(`${configDir}/${name}`, typeof content === 'string' ? content : JSON.stringify(content))
  write('10-pods.conflist', { cniVersion: '1.1.0', name: 'pods', plugins: [{ ...plugin, ...more }] })

  /** Runs a command line in a shell of the node, as an operator does. */
  const sh = (line: string) => {
    const env = { ...stateEnv(host), PATH: `${dirname(trestle)}:${process.env['PATH']}` }
    return execaSync('nsenter', [`--net=${host.path}`, '--', 'sh', '-c', line], { env, reject: false })
  }
  const doctor = (...words: readonly string[]): Examined => {
    const options = `--config-dir ${configDir} --bin-dir ${binDir} --no-runtime --log ${log}`
    const { exitCode = -1, stdout, stderr } = sh(`trestle doctor ${options} -o json ${words.join(' ')}`)
    const document: { findings?: readonly Shown[] } = asPublished(JSON.parse(stdout || '{}'), exitCode)
    if (document.findings === undefined) throw new Error(`doctor: ${exitCode}: ${stdout}${stderr}`)
    const bad = document.findings.filter(({ severity }) => severity !== 'note').map(({ id }) => id)
    return { code: exitCode, ids: bad, findings: document.findings, document: { ...document } }
  }
  const addPod = (id: string, runtimeConfig: unknown = {}, args?: string): Pod =>
    attach(host, { ...conf, runtimeConfig }, { id, ...(args === undefined ? {} : { args }) })
  /** What does not work of the pods' traffic: empty when all does. */
  const broken = (a: Pod, b: Pod): readonly string[] => [
    ...(pings(host, a.netns, b.address) ? [] : ['pod to pod']),
    ...(pings(host, a.netns, outside.far4) ? [] : ['pod to outside']),
  ]
  const close = () => {
    host.close()
    rmSync(root, { recursive: true, force: true })
  }
  return { ...host, root, conf, configDir, binDir, log, write, sh, doctor, addPod, broken, close }
}

export type DoctorNode = ReturnType<typeof openDoctorNode>
