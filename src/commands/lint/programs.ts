// SPDX-License-Identifier: Apache-2.0
// The programs of `type` and `ipam.type`: whether they exist, can be started, and speak the cniVersion. They are
// started for VERSION only, which changes nothing (CNI spec 1.1.0, section 2).

import { spawnSync } from 'node:child_process'
import { existsSync, realpathSync, statSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { isSea } from 'node:sea'
import { isPluginType } from '../../cni/config-head.ts'
import { parseObject } from '../../cni/json.ts'
import { isExecutable } from '../../process/runner.ts'
import { namesIfThere } from '../if-there.ts'
import { shown } from '../json-text.ts'
import { nearestWord } from '../nearest-word.ts'
import { isOwnType } from '../own-type.ts'
import type { Found } from './finding.ts'

const versionTimeoutMs = 5000

type Problem = Pick<Found, 'id' | 'message' | 'cure'>

/** Plugins below the directories of CNI_PATH; each program is examined once. */
export interface Programs {
  /** If no directory exists: a sentence about it. */
  readonly absence?: string
  /** The problem of a program with a configuration of this version. */
  readonly problemOf: (type: string, version: string | undefined) => Problem | undefined
  /** Whether a plugin of this type is trestle: by its name, or because the file is this executable or a link to it. */
  readonly isOwn: (type: string) => boolean
}

/** Plugin directories of packages (Debian, Fedora and Arch, k3s), which a runtime does not search. */
const packaged = ['/opt/cni/bin', '/usr/lib/cni', '/usr/libexec/cni', '/var/lib/rancher/k3s/data/cni']

/** `isThere`: whether a directory exists, or will. */
export function openPrograms(
  directories: readonly string[],
  isThere = directories.some((each) => existsSync(each)),
): Programs {
  const others = packaged.filter((directory) => !directories.includes(directory))
  const known = new Map<string, Program>()
  const programOf = (type: string): Program => {
    const program = known.get(type) ?? lookAt(type, directories, others)
    known.set(type, program)
    return program
  }
  return {
    ...(isThere ? {} : { absence: absenceOf(directories, others) }),
    isOwn: (type) => isOwnType(type) || isCopy(fileOf(type, directories)),
    problemOf: (type, version) => {
      if (!isPluginType(type)) {
        const message = `${shown(type)} is no name of a plugin: it has a path`
        return {
          id: 'plugin-missing',
          message,
          cure: `write "${basename(type)}", and put the file into ${directories[0]}`,
        }
      }
      if (!isThere) return undefined
      const { problem, versions } = programOf(type)
      if (problem !== undefined || version === undefined || versions.includes(version)) return problem
      const message = `the plugin ${shown(type)} does not support cniVersion ${version}`
      return { id: 'plugin-version', message, cure: `use one that it supports: ${versions.map(shown).join(', ')}` }
    },
  }
}

interface Program {
  readonly problem?: Problem
  readonly versions: readonly string[]
}

function lookAt(type: string, directories: readonly string[], others: readonly string[]): Program {
  const file = fileOf(type, directories)
  if (file === undefined) return { problem: missing(type, directories, others), versions: [] }
  if (isExecutable(file)) return askVersions(file)
  const message = `${file} cannot be started: it is no regular file, has no x in its mode, or its file system is noexec`
  return { problem: { id: 'plugin-not-executable', message, cure: `chmod 755 ${file}` }, versions: [] }
}

function fileOf(type: string, directories: readonly string[]): string | undefined {
  return isPluginType(type) ? directories.map((directory) => join(directory, type)).find(existsSync) : undefined
}

function absenceOf(directories: readonly string[], others: readonly string[]): string {
  const message = `${directories.join(', ')} ${directories.length === 1 ? 'is' : 'are'} not there`
  const other = others.find((each) => namesIfThere(each).length > 0)
  return other === undefined ? message : `${message}; there are plugins in ${other}`
}

function missing(type: string, directories: readonly string[], others: readonly string[]): Problem {
  const message = `there is no plugin ${shown(type)} in ${directories.join(', ')}`
  const elsewhere = fileOf(type, others)
  if (elsewhere !== undefined) {
    const cure = `ln -s ${elsewhere} ${directories[0]}/, or let the runtime look in ${dirname(elsewhere)}`
    return { id: 'plugin-missing', message: `${message}; it is in ${dirname(elsewhere)}`, cure }
  }
  const meant = nearestWord(
    type,
    directories.flatMap(namesIfThere).filter((name) => name !== type),
  )
  if (meant === undefined) return { id: 'plugin-missing', message, cure: undefined }
  return { id: 'plugin-missing', message: `${message}; did you mean "${meant}"?`, cure: `write "type": "${meant}"` }
}

/** This executable, or a link to it. */
function isCopy(file: string | undefined): boolean {
  if (file === undefined) return false
  return isOwnType(basename(realpathSync(file))) || (isSea() && statSync(file).size === statSync(process.execPath).size)
}

function askVersions(file: string): Program {
  const { status, stdout, error } = spawnSync(file, [], {
    env: { CNI_COMMAND: 'VERSION', CNI_PATH: '', PATH: process.env['PATH'] ?? '', LC_ALL: 'C' },
    input: '{"cniVersion":"1.1.0"}',
    encoding: 'utf8',
    timeout: versionTimeoutMs,
    maxBuffer: 1024 * 1024,
    killSignal: 'SIGKILL',
  })
  const versions = status === 0 ? parseObject(stdout)?.['supportedVersions'] : undefined
  if (Array.isArray(versions)) return { versions: versions.filter((each) => typeof each === 'string') }
  // Of another machine, or a script without its interpreter: the kernel's ENOEXEC or ENOENT.
  const why = status === null ? (error?.message ?? 'it was killed') : `status ${status}, no list of versions`
  return {
    problem: { id: 'plugin-version', message: `${file} does not answer VERSION: ${why}`, cure: undefined },
    versions: [],
  }
}
