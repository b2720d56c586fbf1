// SPDX-License-Identifier: Apache-2.0
// doctor looks at the kernel that runs, whichever the executable was built on.

import { execaSync } from 'execa'
import { expect, it } from 'vitest'
import { trestle } from '../support/host.ts'

it('doctor names the running kernel, and finds its modules', () => {
  const doctor = (...words: readonly string[]) => execaSync(trestle, ['doctor', ...words], { reject: false }).stdout
  expect(doctor('--only', 'kernel', '--short')).toContain(`Linux ${execaSync('uname', ['-r']).stdout}`)
  const { findings } = JSON.parse(doctor('--only', 'kernel', '-o', 'json')) as { readonly findings: readonly object[] }
  expect(findings).not.toContainEqual(expect.objectContaining({ id: 'kernel-module' }))
})
