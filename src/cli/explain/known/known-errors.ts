// SPDX-License-Identifier: Apache-2.0
// Every error of others that is known, the telling ones first: of two whose words overlap the first one counts.

import { addressErrors } from './addresses.ts'
import { agentErrors } from './agents.ts'
import { apiServerErrors } from './api-server.ts'
import { calicoErrors } from './calico.ts'
import { cloudErrors } from './clouds.ts'
import { configurationErrors } from './configuration.ts'
import { deviceErrors } from './devices.ts'
import { flannelErrors } from './flannel.ts'
import { iptablesErrors } from './iptables.ts'
import { kernelErrors } from './kernel.ts'
import type { KnownError } from './known-error.ts'
import { linkErrors } from './links.ts'
import { programErrors } from './programs.ts'
import { reachErrors } from './reach.ts'
import { runtimeErrors } from './runtime.ts'
import { secondNetworkErrors } from './second-networks.ts'
import { valueErrors } from './values.ts'

/** An error of trestle without an id, as releases before ids print it: what to make of it. Looked for last. */
export const unknownOwnError: KnownError = {
  id: 'trestle-failed',
  pattern: /type="trestle[^"]*"(?: name=\S+)? failed \(\w+\): \S/,
  who: 'trestle',
  meaning: 'trestle refused the call, or something that it runs failed',
  causes: [
    'the words behind "failed (…): " name what failed and on what; those behind the first semicolon are its details',
  ],
  look: ['trestle explain'],
  cure: 'do what the details say; `trestle explain` without words lists all codes',
}

/** All families. */
export const knownErrors: readonly KnownError[] = [
  ...flannelErrors,
  ...calicoErrors,
  ...agentErrors,
  ...cloudErrors,
  ...secondNetworkErrors,
  ...deviceErrors,
  ...linkErrors,
  ...valueErrors,
  ...configurationErrors,
  ...programErrors,
  ...iptablesErrors,
  ...addressErrors,
  ...kernelErrors,
  ...apiServerErrors,
  ...runtimeErrors,
  ...reachErrors,
]
