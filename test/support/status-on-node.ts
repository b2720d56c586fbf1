// SPDX-License-Identifier: Apache-2.0
// STATUS where /sys shows the node's own namespace, as a runtime's does.

import { environment, type Finished, type Host, trestle } from './host.ts'
import { stateEnv } from './state-layout.ts'

/** STATUS of a configuration; `ip netns exec` mounts /sys anew. */
export function statusOnNode(host: Host, conf: unknown): Finished {
  const env = environment('STATUS', { env: stateEnv(host) })
  const words = Object.entries(env).map(([key, value]) => `${key}=${value}`)
  return host.run('ip', ['netns', 'exec', host.name, 'env', ...words, trestle], JSON.stringify(conf))
}
