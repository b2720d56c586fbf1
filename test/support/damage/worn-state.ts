// SPDX-License-Identifier: Apache-2.0
// A node whose state directory has every kind of file that trestle writes: live pods with a host port, limits and a
// firewall's accept, a killed call, abandoned locks.

import { execFileSync } from 'node:child_process'
import {
  existsSync,
  lstatSync,
  lutimesSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { dirname } from 'node:path'
import { livingStamp, makePending, startedLongAgo } from '../faults/process-identities.ts'
import { type Host, openHost, snapshot } from '../host.ts'
import { portName, relative, stateOf, temporaryName } from '../state-layout.ts'
import { attach, type Pod } from '../traffic/pods.ts'

const ipam = { type: 'trestle', subnet: '10.94.0.0/26' }
const base = { cniVersion: '1.1.0', name: 'worn', type: 'trestle', ipam, ipMasq: true, isDefaultGateway: true }
export const port = { hostPort: 18081, containerPort: 80, protocol: 'tcp' }
const limits = { ingressRate: 8_000_000, egressRate: 8_000_000 }

/** The network's configuration: with everything for the first pod, without for the others. */
export const plain = { ...base, firewall: {} }
export const whole = { ...plain, bandwidth: limits, runtimeConfig: { portMappings: [port] } }

const worn = relative.network('worn')

/** A file of each kind, by what it is: paths below the state directory. */
export const kinds: Readonly<Record<string, string>> = {
  'a finished record': worn.finished('p'),
  'a killed call': worn.pending('d'),
  'a reserved address': worn.address('10.94.0.2'),
  'the last address': worn.last('10.94.0.0'),
  'the shared part': worn.shared,
  'the accept of the mark': relative.accept,
  'the marker': relative.mark,
  'a reserved port': relative.port(portName('tcp', port.hostPort)),
  "the node's lock": relative.lock,
  "an attachment's lock": worn.lockOf('p'),
  'a temporary file': `${worn.directoryOf('pending')}/${temporaryName(4_194_304)}`,
}

/** For a damage that needs one: what another attachment has of the same kind. */
export const others: Readonly<Record<string, string>> = {
  'a reserved address': worn.address('10.94.0.3'),
  'a finished record': worn.finished('q'),
}

/** The node, its pods, and its state as it was before any damage. */
export interface Worn {
  readonly host: Host
  readonly before: ReturnType<typeof snapshot>
  readonly p: Pod
  readonly q: Pod
  readonly dead: Pod
  /** A namespace for a pod that comes later. */
  readonly fresh: string
  /** Puts the state directory back as it was. */
  readonly reset: () => void
  readonly path: (kind: string) => string
  readonly close: () => void
}

/** Makes the node. Close it in a `finally`. */
export function openWorn(): Worn {
  const host = openHost()
  host.run('nft', [
    'add table ip foreign; add chain ip foreign forwarded { type filter hook forward priority 5; policy drop; }',
  ])
  const before = snapshot(host)
  const p = attach(host, whole, { id: 'p' })
  const q = attach(host, plain, { id: 'q' })
  const dead = attach(host, plain, { id: 'd' })
  // No process has this id: it is above PID_MAX_LIMIT (include/linux/threads.h).
  const ended = { ...livingStamp(), pid: 4_194_304 }
  makePending(stateOf(host, 'worn'), 'd', ended)
  const path = (kind: string) => `${host.stateDir}/${kinds[kind]}`
  for (const kind of Object.keys(kinds).filter((each) => / lock$/.test(each))) {
    mkdirSync(dirname(path(kind)), { recursive: true, mode: 0o700 })
    writeFileSync(path(kind), JSON.stringify({ ...ended, purpose: 'nothing' }), { mode: 0o600 })
  }
  writeFileSync(path('a temporary file'), '{"half":', { mode: 0o600 })
  const saved = `${host.stateDir}.saved`
  execFileSync('cp', ['-a', host.stateDir, saved])
  const reset = (): void => {
    rmSync(host.stateDir, { recursive: true })
    execFileSync('cp', ['-a', saved, host.stateDir])
  }
  const close = (): void => {
    rmSync(saved, { recursive: true, force: true })
    host.close()
  }
  return { host, before, p, q, dead, fresh: host.pod('f'), reset, path, close }
}

/** Makes everything in the state directory look as if it had been written long ago: younger things are not collected. */
export function makeStateOld(directory: string): void {
  for (const entry of readdirSync(directory, { recursive: true, withFileTypes: true })) {
    const file = `${entry.parentPath}/${entry.name}`
    if (!existsSync(file) || !lstatSync(file).isFile() || lstatSync(file).size > 100_000) continue
    const text = readFileSync(file, 'utf8')
    const old = text
      .replace(/"startTime":"\d+"/g, `"startTime":"${startedLongAgo}"`)
      .replace(/"createdAt":"[^"]*"/g, `"createdAt":"2020-01-01T00:00:00Z"`)
    if (old !== text) writeFileSync(file, old)
  }
  for (const entry of readdirSync(directory, { recursive: true, withFileTypes: true }))
    lutimesSync(`${entry.parentPath}/${entry.name}`, 0, 0)
}
