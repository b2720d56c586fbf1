// SPDX-License-Identifier: Apache-2.0
// Runtimes, the configuration that each uses, STATUS of it, and what trestle's agent reported.

import { statfsSync, statSync } from 'node:fs'
import { basename, join } from 'node:path'
import { readCall } from '../../cni/call.ts'
import { toCniError } from '../../cni/errors.ts'
import { readConfig } from '../../config/read-config.ts'
import { readableText } from '../../state/files.ts'
import { stateRoot } from '../../state/layout.ts'
import { openContext } from '../../verbs/context.ts'
import { status } from '../../verbs/status.ts'
import { cachedAttachments } from '../by-hand/libcni-cache.ts'
import { type Finding, findingOf } from '../findings.ts'
import { linkIfThere, namesIfThere, orElse, textIfThere } from '../if-there.ts'
import { asOwn } from '../own-type.ts'
import { type Configuration, type Group, type Node, shellWord } from './observed-node.ts'

export function checkRuntimes({ configurations, sandboxes }: Node): readonly Finding[] {
  const found: Finding[] = []
  for (const { who, runtime, confDir, files } of configurations) {
    if (runtime === undefined) continue
    const { silent, notReady } = runtime
    if (silent !== undefined && process.geteuid?.() === 0) {
      found.push(findingOf({ id: 'runtime-silent', on: who, message: silent }))
    }
    if (notReady !== undefined) {
      // Docker's containerd beside that of k3s has neither pods nor a configuration.
      const isIdle = configurations.length > 1 && sandboxes.length === 0 && files.length === 0
      const severity = isIdle ? 'note' : undefined
      found.push(findingOf({ id: 'runtime-not-ready', on: who, message: notReady, severity }))
    }
    if (runtime.runtime !== 'containerd') continue
    for (const pid of notWatching(confDir)) {
      const message = `containerd (process ${pid}) does not watch it`
      found.push(findingOf({ id: 'dir-not-watched', on: confDir, message }))
    }
  }
  return found
}

/** statfs(2): on an overlay the inode of a watch differs from the inode of stat(2). */
const OVERLAYFS_MAGIC = 0x794c7630

/** containerd watches only the directory that existed at its start (cni_conf_syncer.go). */
function notWatching(directory: string): readonly string[] {
  return orElse(() => {
    if (statfsSync(directory).type === OVERLAYFS_MAGIC) return []
    const inode = `ino:${statSync(directory).ino.toString(16)} `
    const mounts = linkIfThere('/proc/self/ns/mnt')
    const pids = namesIfThere('/proc').filter((pid) => textIfThere(`/proc/${pid}/comm`) === 'containerd\n')
    const here = pids.filter((pid) => linkIfThere(`/proc/${pid}/ns/mnt`) === mounts)
    const watches = (pid: string) => {
      const files = namesIfThere(`/proc/${pid}/fdinfo`).map((fd) => textIfThere(`/proc/${pid}/fdinfo/${fd}`))
      return files.filter((text) => text.includes('\ninotify '))
    }
    const isWatched = here.some((pid) => watches(pid).some((text) => text.includes(inode)))
    return isWatched ? [] : here.filter((pid) => watches(pid).length > 0)
  }, [])
}

/** Findings of lint about the directory and the file in use. */
export function checkConfiguration(node: Node): readonly Finding[] {
  return node.configurations.flatMap((configuration) => {
    const { runtime, confDir, file, stoppedBy, files, network } = configuration
    // Where no runtime was found and nobody named a directory, an empty one is normal.
    const isExpected = runtime !== undefined || node.options.confDir !== undefined
    if (!isExpected && files.length === 0 && node.records.length === 0) return []
    const inUse = [confDir, ...[file, stoppedBy].flatMap((name) => (name === undefined ? [] : [join(confDir, name)]))]
    const shadow = shadowed(configuration, node)
    const found = configuration.findings.filter(({ id, on, severity }) => {
      const isSecond = id === 'same-network' && files.some((each) => each.file === on && each.network === network)
      const isEcho = shadow !== undefined && id === 'plugin-missing'
      return severity !== 'note' && (inUse.includes(on) || isSecond) && !isEcho
    })
    const own = found.map((finding) => ofLint(finding, configuration))
    return shadow === undefined ? own : [...own, shadow]
  })
}

function ofLint(
  { excerpt: _, file, line, column, ...finding }: Finding,
  { confDir, stoppedBy, files }: Configuration,
): Finding {
  const on = line === undefined ? finding.on : `${file}:${line}:${column}`
  const found = { ...finding, group: 'configuration', on, consequence: finding.message }
  if (stoppedBy === undefined || finding.on !== join(confDir, stoppedBy)) return found
  const stopped = { ...found, consequence: 'no network is loaded: no new pod starts' }
  // A valid file behind it is used once it is moved away.
  const hasAnother = files.some((each) => each.isOwn && basename(each.file) !== stoppedBy)
  if (!hasAnother) return stopped
  return { ...stopped, cure: `${finding.cure}; or, if the file is not meant, move it away`, run: aside(finding.on) }
}

/** Renames a file so that no runtime reads it. */
function aside(path: string): string {
  return `mv ${shellWord(path)} ${shellWord(`${path}.disabled`)}`
}

/** The used file hides the one whose network kubelet's pods live in. */
function shadowed({ file, network, files, confDir, plugins }: Configuration, { records }: Node): Finding | undefined {
  const podsOf = (name: string) => records.filter(({ id, pod }) => id.network === name && pod !== undefined).length
  if (file === undefined || network === undefined || plugins.some(({ type }) => /^multus/.test(type))) return undefined
  const isMeant =
    records.some(({ id }) => id.network === network) || orElse(() => cachedAttachments(network).length > 0, false)
  if (isMeant) return undefined
  const others = files.filter((other) => other.network !== network && other.isOwn)
  const hasOwn = plugins.some(({ isOwn }) => isOwn)
  const meant = others.find((other) => podsOf(other.network) > 0) ?? (hasOwn ? undefined : others[0])
  if (meant === undefined) return undefined
  const count = podsOf(meant.network)
  const pods = count === 0 ? '' : `, and ${count} of the pods here live in network ${meant.network} of ${meant.file}`
  const message = `the runtime uses it instead of ${meant.file}: new pods get network ${network}${pods}`
  const path = join(confDir, file)
  // Without pods nobody knows which network is meant.
  return findingOf({ id: 'config-shadowed', on: path, message, run: count === 0 ? undefined : aside(path) })
}

/** STATUS of trestle's plugins in use, asked in this process. */
export async function checkReadiness({ configurations }: Node): Promise<readonly Finding[]> {
  const found: Finding[] = []
  for (const { network = '', plugins, binDirs } of configurations) {
    for (const { conf: written } of plugins.filter(({ isOwn }) => isOwn)) {
      const stdin = JSON.stringify({ ...asOwn({ ...written, type: 'trestle' }), name: network, cniVersion: '1.1.0' })
      const call = readCall({ CNI_COMMAND: 'STATUS', CNI_PATH: binDirs.join(':') })
      const conf = orElse(() => readConfig(stdin, call), undefined)
      if (conf === undefined) continue
      try {
        await status(call, conf, openContext({ path: binDirs, stdin }))
      } catch (error) {
        const { id, message, details = '' } = toCniError(error)
        const group: Group = id === 'not-ready-pool' ? 'addresses' : 'host'
        const consequence = 'no further pod starts: the next ADD fails'
        const text = `${message.replace('not ready: ', '')}; ${details}`
        found.push(findingOf({ id, group, on: `network ${network}`, message: text, consequence }))
      }
    }
  }
  return found
}

/** What trestle's agent keeps of its last report (agent/report.ts). */
export function checkAgent(): readonly Finding[] {
  const text = readableText(`${stateRoot()}/agent-problems.json`)
  const problems: unknown = text === undefined ? [] : JSON.parse(text)
  return (problems as readonly { id: string; node: string; text: string }[]).map(({ id, node, text: message }) => {
    const name = id.replace(/(?<=[a-z])(?=[A-Z])/g, '-').toLowerCase()
    return findingOf({ id: `agent-${name}`, on: `node ${node}`, message })
  })
}
