// SPDX-License-Identifier: Apache-2.0
// A configuration as a person names it: a file, or `-` for standard input.

import { readFileSync } from 'node:fs'
import { CniCode, CniError } from '../cni/error.ts'

/** The text of a file or of standard input. Throws CniError 5 when it cannot be read. */
export function readInputText(file: string): string {
  try {
    return readFileSync(file === '-' ? 0 : file, 'utf8')
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException
    const why = code === 'ENOENT' ? 'there is no such file' : message
    throw new CniError(CniCode.ioFailure, `cannot read ${file === '-' ? 'standard input' : file}: ${why}`, { cause })
  }
}
