// SPDX-License-Identifier: Apache-2.0
// The files of containerd and CRI-O: which ones a process reads, what they say, and which one a person has to edit.

import { basename, dirname, join } from 'node:path'
import { flagOf, type RuntimeProcess } from './processes.ts'
import {
  type CniSettings,
  containerdAddress,
  containerdSettings,
  crioSettings,
  hasCri,
  readWithDropIns,
  readWithImports,
  TomlError,
} from './runtime-settings.ts'

/** The file to change and what makes the runtime read it again. */
export interface Edit {
  readonly file: string
  readonly restart: string
}

/** What files say. `problem`: why they could not be read whole; the defaults stand then. */
export interface FileSettings {
  readonly settings: CniSettings
  readonly files: readonly string[]
  readonly edit: Edit
  readonly problem?: TomlError
  /** containerd: where it listens, and whether it serves CRI. */
  readonly address: string
  readonly hasCri: boolean
}

type Process = Pick<RuntimeProcess, 'args' | 'root'>

const stopped: Process = { args: [], root: '' }

/** What the files of containerd say: those of a process, or where none runs those that it would read. */
export function containerdFiles({ args, root }: Process = stopped): FileSettings {
  const file = flagOf(args, ['c', 'config']) ?? '/etc/containerd/config.toml'
  const { table, files, problem } = attempt(() => readWithImports(file, root))
  const version = Number(table['version'] ?? 1)
  return {
    settings: containerdSettings(table),
    files,
    edit: editOf(file, version),
    ...(problem === undefined ? {} : { problem }),
    address: flagOf(args, ['a', 'address']) ?? containerdAddress(table) ?? '/run/containerd/containerd.sock',
    hasCri: hasCri(table),
  }
}

/** What the files of CRI-O say, as above. */
export function crioFiles({ args, root }: Process = stopped): FileSettings {
  const file = flagOf(args, ['c', 'config']) ?? '/etc/crio/crio.conf'
  const directory = flagOf(args, ['d', 'config-dir']) ?? '/etc/crio/crio.conf.d'
  const { table, files, problem } = attempt(() => readWithDropIns(file, directory, root))
  return {
    settings: crioSettings(table, (name) => flagOf(args, [name])),
    files,
    edit: { file: join(directory, '99-cni.conf'), restart: 'systemctl restart crio' },
    ...(problem === undefined ? {} : { problem }),
    address: flagOf(args, ['listen']) ?? '/run/crio/crio.sock',
    hasCri: true,
  }
}

/** cri-dockerd has flags only. */
export function criDockerdFiles({ args }: Process = stopped): FileSettings {
  const binDirs = (flagOf(args, ['cni-bin-dir']) ?? '/opt/cni/bin').split(',')
  return {
    settings: { confDir: flagOf(args, ['cni-conf-dir']) ?? '/etc/cni/net.d', binDirs },
    files: [],
    edit: { file: 'the flags of cri-dockerd', restart: 'systemctl restart cri-docker' },
    address: (flagOf(args, ['container-runtime-endpoint']) ?? '/run/cri-dockerd.sock').replace(/^unix:\/\//, ''),
    hasCri: true,
  }
}

/**
 * k3s and rke2 write containerd's file anew at each start, from a template beside it, which for containerd 2 (version
 * 3) has another name (docs.k3s.io/advanced, "Configuring containerd"); so do MicroK8s and k0s
 * (docs.k0sproject.io/stable/runtime).
 */
export function editOf(file: string, version: number): Edit {
  const owner =
    /\/rancher\/(k3s|rke2)\//.exec(file)?.[1] ?? (/\/agent\/etc\/containerd\//.test(file) ? 'k3s' : undefined)
  if (owner !== undefined) {
    const template = version >= 3 ? 'config-v3.toml.tmpl' : 'config.toml.tmpl'
    return {
      file: join(dirname(file), template),
      restart: `systemctl try-restart ${owner === 'k3s' ? 'k3s k3s-agent' : 'rke2-server rke2-agent'}`,
    }
  }
  if (file.includes('/microk8s/') && basename(file) === 'containerd.toml') {
    return { file: join(dirname(file), 'containerd-template.toml'), restart: 'microk8s stop && microk8s start' }
  }
  if (file === '/etc/k0s/containerd.toml') {
    return { file: '/etc/k0s/containerd.d/cni.toml', restart: 'systemctl try-restart k0sworker k0scontroller' }
  }
  return { file, restart: 'systemctl restart containerd' }
}

/** containerd does without a file, and CRI-O, too. */
function attempt(read: () => ReturnType<typeof readWithImports>): ReturnType<typeof readWithImports> & {
  readonly problem?: TomlError
} {
  try {
    return read()
  } catch (error) {
    if (!(error instanceof TomlError)) throw error
    return error.isMissing ? { table: {}, files: [] } : { table: {}, files: [], problem: error }
  }
}
