// SPDX-License-Identifier: Apache-2.0
// What a call meets on a node and not in an empty namespace: a runtime's PATH, connections, and a firewall that tracks them.

import { once } from 'node:events'
import { connect, createServer } from 'node:net'

/** The PATH of a containerd that systemd started (systemd.exec(5), Debian): no long row of folders without the tools. */
export const runtimePath = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

/** A rule that looks at connections, as kube-proxy and every firewall have one: without any the kernel tracks nothing. */
export const trackingRules = `table inet node {
  chain input {
    type filter hook input priority 0
    ct state established,related accept
  }
}
`

const perFamily = 20

/**
 * Opens established TCP connections of this namespace with itself, in both families; they last as long as the process,
 * and do not keep it. Where a table of sockets is empty, whoever reads it to the end has the kernel walk it twice.
 */
export async function openConnections() {
  for (const host of ['127.0.0.1', '::1']) {
    const server = createServer((socket) => socket.unref()).unref()
    server.listen(0, host)
    await once(server, 'listening')
    for (let count = 0; count < perFamily; count++) {
      const socket = connect(server.address().port, host)
      await once(socket, 'connect')
      socket.unref()
    }
  }
}
