// SPDX-License-Identifier: Apache-2.0
// Of crictl what cures ask for: `crictl pods -q`, `crictl stopp ID`. CONTAINER_RUNTIME_ENDPOINT: the socket.

import { openCri } from '../../../src/cli/cri/client.ts'

const [verb, word = ''] = process.argv.slice(2)
const cri = openCri(process.env['CONTAINER_RUNTIME_ENDPOINT'] ?? '', { timeoutMs: 30_000 })
try {
  if (verb === 'pods' && word === '-q') {
    const { items } = await cri.call('ListPodSandbox', {})
    process.stdout.write(items.map(({ id }) => `${id}\n`).join(''))
  } else if (verb === 'stopp') await cri.call('StopPodSandbox', { podSandboxId: word })
  else throw new Error(`there is no ${verb} here`)
} finally {
  cri.close()
}
