// SPDX-License-Identifier: Apache-2.0
// A throw-away node with an outside world, and with servers or files that go when the test is over.

import { type Host, openHost } from '../host.ts'
import { addUplink } from './traffic.ts'

/** `internet`: the namespace behind the uplink. `atClose`: what is to be ended or removed before the node is. */
export interface UplinkedHost extends Host {
  readonly internet: string
  readonly atClose: (...stops: (() => void)[]) => void
}

/** Opens a node with an uplink. Close it in `afterEach`. */
export function openUplinkedHost(): UplinkedHost {
  const host = openHost()
  const all: (() => void)[] = []
  const close = (): void => {
    for (const stop of all) stop()
    host.close()
  }
  return { ...host, internet: addUplink(host), atClose: (...stops) => all.push(...stops), close }
}
