// SPDX-License-Identifier: Apache-2.0
// A node for faults: shell lines run on it as an operator's do, and doctor, lint and explain say what they see.

import { existsSync, mkdirSync, rmSync } from 'node:fs'
import { dirname } from 'node:path'
import { execaSync } from 'execa'
import type { DoctorNode } from './doctor-node.ts'
import { type Finished, snapshot, trestle } from './host.ts'
import { stateEnv } from './state-layout.ts'
import type { Pod } from './traffic/pods.ts'
import { upstreamPlugins } from './upstream.ts'

const cnitool = `${upstreamPlugins}/../bin/cnitool`

/** What a command said: the ids above a note, and all of it. */
export interface Said {
  readonly code: number
  readonly ids: readonly string[]
  readonly text: string
}

interface Listed {
  readonly id: string
  readonly severity?: string
  readonly role?: string
}

/** The ids of what is above a note, each once, sorted. */
function idsOf(found: readonly Listed[]): readonly string[] {
  return [...new Set(found.filter(({ severity }) => severity !== 'note').map(({ id }) => id))].toSorted()
}

/** Hands over a node with its first pod. Its scratch directory is emptied by `renew`. */
export function openFaultBench(node: DoctorNode, pod: Pod) {
  const scratch = `${node.root}/scratch`
  const tools = `${node.root}/tools`
  const variables = {
    PATH: `${tools}:${dirname(trestle)}:${process.env['PATH']}`,
    ...stateEnv(node),
    CONF: node.configDir,
    BIN: node.binDir,
    SCRATCH: scratch,
    VETH: pod.hostLink,
    POD: pod.netns,
    NS: pod.netns.slice('/run/netns/'.length),
    ID: pod.id,
    NODE: node.name,
    CNI_PATH: node.binDir,
    NETCONFPATH: node.configDir,
  }

  const sh = (line: string) =>
    execaSync('nsenter', [`--net=${node.path}`, '--', 'bash', '-c', line], {
      env: variables,
      reject: false,
      timeout: 60_000,
    })
  const explain = (text: string): Said => {
    const { exitCode = -1, stdout } = execaSync(trestle, ['explain', '-o', 'json', '-'], { input: text, reject: false })
    const { diagnoses = [] } = JSON.parse(stdout) as Readonly<Record<string, readonly Listed[]>>
    const causes = diagnoses.filter(({ role }) => role === undefined || role === 'cause')
    return { code: exitCode, ids: idsOf(causes.filter(({ id }) => !id.startsWith('code-'))), text }
  }
  const lint = (): Said => {
    const { exitCode = -1, stdout } = sh('trestle lint $CONF --bin-dir $BIN -o json')
    const { findings } = JSON.parse(stdout) as { readonly findings: readonly Listed[] }
    return { code: exitCode, ids: idsOf(findings), text: stdout }
  }
  /** ADD of a pod that is made for it, by libcni. Its error; a pod that gets its network loses it again. */
  const add = (): Finished | undefined => {
    if (!existsSync(cnitool)) return undefined
    const { stdout: name } = sh('sed -n \'s/.*"name": *"\\([^"]*\\)".*/\\1/p\' $CONF/* 2>/dev/null | tail -n1')
    const netns = node.pod('new')
    const run = (verb: string) => sh(`${cnitool} ${verb} ${name || 'pods'} ${netns}`)
    const { exitCode = -1, stdout, stderr } = run('add')
    if (exitCode === 0) run('del')
    node.removePod(netns)
    return { code: exitCode, stdout, stderr, json: undefined }
  }
  const renew = () => {
    for (const directory of [scratch, tools]) {
      rmSync(directory, { recursive: true, force: true })
      mkdirSync(directory)
    }
  }
  renew()
  return { node, sh, explain, lint, add, renew, tools, state: () => snapshot(node) }
}

export type FaultBench = ReturnType<typeof openFaultBench>
