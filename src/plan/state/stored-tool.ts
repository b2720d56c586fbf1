// SPDX-License-Identifier: Apache-2.0
// nft.json: the version that a tool has told, and the file that told it.

import { number, stored, text } from './stored.ts'
import { decodeFile, encodeFile } from './versioned.ts'

/** A program's file; `inode` and `mtimeMs` tell it from another one under its path. */
export interface ToolFile {
  readonly path: string
  readonly inode: number
  readonly mtimeMs: number
}

/** What is known of it. */
export interface ToolVersion extends ToolFile {
  readonly version: string
}

const toolVersion = stored<ToolVersion>({
  path: ['path', text],
  inode: ['inode', number],
  mtimeMs: ['mtimeMs', number],
  version: ['version', text],
})

/** The version from JSON text; undefined where it is none. */
export function decodeToolVersion(json: string): ToolVersion | undefined {
  return decodeFile(toolVersion, json)
}

/** The version as JSON text. */
export function encodeToolVersion(value: ToolVersion): string {
  return encodeFile(toolVersion, value)
}
