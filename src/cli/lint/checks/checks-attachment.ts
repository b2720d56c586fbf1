// SPDX-License-Identifier: Apache-2.0
// What `trestle lint` checks of a NetworkAttachmentDefinition beside what is in it.

import type { CheckTexts } from './check-texts.ts'

export const attachmentChecks = {
  'attachment-unnamed': {
    severity: 'error',
    meaning: 'a NetworkAttachmentDefinition has no name',
    cause: '`metadata` is missing or empty, or `name` stands beside it: "resource name may not be empty"',
    cure: 'write "metadata:", and below it, indented, "name: …"',
  },
} as const satisfies CheckTexts
