// SPDX-License-Identifier: Apache-2.0
// doctor names the kernel that runs, whichever the executable was built on.

import { execaSync } from 'execa'
import { expect, it } from 'vitest'
import { trestle } from '../support/host.ts'

it('doctor names the running kernel', () => {
  const doctor = (...words: readonly string[]) => execaSync(trestle, ['doctor', ...words], { reject: false }).stdout
  expect(doctor('--only', 'kernel', '--short')).toContain(`Linux ${execaSync('uname', ['-r']).stdout}`)
})
