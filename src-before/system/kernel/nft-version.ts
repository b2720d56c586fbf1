// SPDX-License-Identifier: Apache-2.0
// The version of nft: asked when a network is set up, kept with what tells the file from another one. STATUS starts no
// process, and knows it from there; of a file that has changed since it knows nothing until the next setup.

import { statSync } from 'node:fs'
import { decodeFile, encodeFile, number, type Of, object, text } from '../../model/kinds.ts'
import { readableText, replaceText } from '../files/files.ts'
import { stateRoot } from '../files/state.ts'
import { fileOf } from '../process/programs.ts'
import type { Run } from '../process/runner.ts'

/** The oldest one that takes our rules: those before open /dev/stdin by name, which open(2) refuses for a socket. */
const oldest = [1, 0, 2] as const

/** nft's file, and what tells it from another one under its path. */
const toolFile = { path: text, inode: number, mtimeMs: number }
type ToolFile = Omit<Of<typeof toolVersion>, 'version'>
const toolVersion = object({ ...toolFile, version: text })

/** Asks nft for its version where that is not known of this file. Never throws: rules tell more of what is wrong. */
export async function learnNftVersion(run: Run): Promise<void> {
  try {
    const file = nftNow()
    if (file === undefined || knownOf(file) !== undefined) return
    const { stdout } = await run({ file: 'nft', args: ['--version'] })
    const version = /\bv(\d+\.\d+(?:\.\d+)?)/.exec(stdout)?.[1]
    if (version !== undefined) replaceText(nftVersionFile(), encodeFile({ ...file, version }))
  } catch {
    // A version that is not known is no reason to fail.
  }
}

/** The version of the nft that is installed, where it is known to be too old for our rules. */
export function tooOldNft(): { readonly path: string; readonly version: string; readonly needed: string } | undefined {
  const file = nftNow()
  const version = file && knownOf(file)
  if (file === undefined || version === undefined || !isOlder(version)) return undefined
  return { path: file.path, version, needed: oldest.join('.') }
}

function nftVersionFile(): string {
  return `${stateRoot()}/nft.json`
}

function nftNow(): ToolFile | undefined {
  const path = fileOf('nft')
  const stat = path === undefined ? undefined : statSync(path, { throwIfNoEntry: false })
  return path === undefined || stat === undefined ? undefined : { path, inode: stat.ino, mtimeMs: stat.mtimeMs }
}

function knownOf({ path, inode, mtimeMs }: ToolFile): string | undefined {
  const known = decodeFile(toolVersion, readableText(nftVersionFile()) ?? '')
  const isIts = known?.path === path && known.inode === inode && known.mtimeMs === mtimeMs
  return isIts ? known.version : undefined
}

function isOlder(version: string): boolean {
  const parts = version.split('.').map(Number)
  const at = oldest.findIndex((part, index) => part !== (parts[index] ?? 0))
  return at >= 0 && (parts[at] ?? 0) < (oldest[at] ?? 0)
}
