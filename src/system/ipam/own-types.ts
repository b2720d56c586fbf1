// SPDX-License-Identifier: Apache-2.0
// The names under which this executable is a plugin of its own: a runtime finds the file by the configuration's `type`
// (CNI spec 1.1.0, section 1), so the file's name is the type it is meant by.

import { basename } from 'node:path'
import { isSea } from 'node:sea'
import { ownType } from '../../cni/invocation.ts'

/** `trestle`, the name that it was called by, and the name of the file where that is a link to it. */
export function ownTypes(): readonly string[] {
  // A runtime starts the file by its path, which is argv[0]; Node's execPath is what /proc/self/exe says.
  const files = isSea() ? [process.argv0, process.execPath] : [process.argv[1] ?? '']
  return [...new Set([ownType, ...files.map((file) => basename(file))])].filter((name) => name !== '')
}
