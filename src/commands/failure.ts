// SPDX-License-Identifier: Apache-2.0
// Why a command could not do its work. The catalogue has the code of each id, and what to do.

import { diagnoses } from '../catalogue/diagnosis.ts'
import { CniError, Code } from '../cni/errors.ts'

/** The error with this id. `message` is one line: what failed, and on what. */
export function failureOf(
  id: string,
  message: string,
  parts: { readonly details?: string | undefined; readonly cause?: unknown } = {},
): CniError {
  return new CniError(diagnoses().get(id)?.code ?? Code.internal, id, message, parts)
}

/** The error that a plugin of type `type` answered: a command then ends with exit code 1. */
export class PluginError extends CniError {
  readonly type: string

  constructor(type: string, { code, id, message, details }: CniError) {
    super(code, id, message, { details })
    this.type = type
  }
}
