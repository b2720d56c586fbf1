// SPDX-License-Identifier: Apache-2.0
// What `trestle explain ID` tells about an error.

import { execaSync } from 'execa'
import { trestle } from './host.ts'

/** The command line that it prints for a cure; '' where it has none. */
export function explainedCure(id: string): string {
  const { stdout } = execaSync(trestle, ['explain', id, '-o', 'json'], { reject: false, stdin: 'ignore' })
  const { errors } = JSON.parse(stdout) as {
    readonly errors: readonly { readonly id: string; readonly run?: string }[]
  }
  return errors.find((error) => error.id === id)?.run ?? ''
}
