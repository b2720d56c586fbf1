// SPDX-License-Identifier: Apache-2.0
// What is written down for an id of an error.

import type { ErrorId } from '../../../cni/model/error-code.ts'

/** Why a call fails so, and what to do. The message says on what; `details` may say more. */
export interface ErrorTexts {
  readonly cause: string
  readonly cure: string
}

/** Some of the ids. */
export type SomeErrorTexts = Readonly<Partial<Record<ErrorId, ErrorTexts>>>
