// SPDX-License-Identifier: Apache-2.0
// The configuration files of containerd and CRI-O: the files that a process reads, their settings, and the file to
// edit.

import { basename, dirname, join } from 'node:path'
import { flagOf, type RuntimeProcess } from './processes.ts'
import { type CniSettings, containerdAddress, containerdSettings, crioSettings, hasCri } from './runtime-settings.ts'
import { readWithDropIns, readWithImports, TomlError } from './toml-file.ts'

/** The file to edit, and the command that makes the runtime read it. */
export interface Edit {
  readonly file: string
  readonly restart: string
}

/** Settings from files. `problem`: the reason why a file was unreadable; then the settings are the defaults. */
export interface FileSettings {
  readonly settings: CniSettings
  readonly files: readonly string[]
  readonly edit: Edit
  readonly problem?: TomlError
  /** containerd: its socket, and whether it serves CRI. */
  readonly address: string
  readonly hasCri: boolean
}

type Process = Pick<RuntimeProcess, 'args' | 'root'>

const stopped: Process = { args: [], root: '' }

/** containerd's settings from the files of a process, or without a process from the files of its next start. */
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

/** CRI-O's settings from files, as for containerd. */
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
 * The file to edit. k3s and rke2 write containerd's file at each start from a template, whose name depends on the
 * version (docs.k3s.io/advanced, "Configuring containerd"); so do MicroK8s and k0s (docs.k0sproject.io/stable/runtime).
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

/** A missing file means defaults, for containerd and for CRI-O. */
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
