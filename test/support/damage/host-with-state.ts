// SPDX-License-Identifier: Apache-2.0
// A throw-away node for tests that look into the state directory, or change what is in it.

import { openHost, snapshot } from '../host.ts'
import { stateOf } from '../state-layout.ts'

/** Opens a node. `before`: everything as it is now; `state`: of its network `net`. Close it in `afterEach`. */
export function openHostWithState() {
  const host = openHost()
  return { ...host, before: snapshot(host), state: stateOf(host, 'net') }
}

export type HostWithState = ReturnType<typeof openHostWithState>
