// SPDX-License-Identifier: Apache-2.0
// docs/by-hand.md: each command of the page, and what it prints. UPDATE_DOCS=1 writes what was printed into the page.

import { afterAll, beforeAll, describe, it } from 'vitest'
import { type Hands, openHands } from '../../support/by-hand.ts'
import { missingCnitool } from '../../support/cnitool.ts'
import { followPage } from '../../support/pages/transcript.ts'
import { usualStateDir } from '../../support/state-layout.ts'

const hostLocal = { type: 'host-local', subnet: '10.9.0.0/24' }
const lists = {
  '10-pods.conflist': {
    cniVersion: '1.1.0',
    name: 'pods',
    plugins: [{ type: 'trestle', podcidr: '10.240.0.0/24', capabilities: { portMappings: true, bandwidth: true } }],
  },
  '20-storage.conflist': {
    cniVersion: '1.0.0',
    name: 'storage',
    plugins: [
      { type: 'bridge', bridge: 'storage0', isGateway: true, ipam: hostLocal },
      { type: 'tuning', sysctl: { 'net.core.somaxconn': '500' } },
    ],
  },
  '30-myptp.conf': {
    cniVersion: '0.4.0',
    name: 'myptp',
    type: 'ptp',
    ipMasq: true,
    ipam: { type: 'host-local', subnet: '172.16.29.0/24', routes: [{ dst: '0.0.0.0/0' }] },
  },
}

const missing = missingCnitool(['bridge', 'ptp', 'host-local', 'tuning'])
if (missing !== undefined) console.warn(missing)

describe.skipIf(missing !== undefined)('docs/by-hand.md', () => {
  let hands: Hands
  beforeAll(() => {
    hands = openHands(lists)
  })
  afterAll(() => hands?.close())

  it.each(['## A pod, its port, and a second network', '## A plugin fails', '## With cnitool'])(
    '%s',
    async (heading) => {
      await followPage('docs/by-hand.md', heading, async (command) => {
        const { stdout, stderr } = hands.shell(command)
        const text = `${stdout}${stderr}`.replaceAll(hands.directory, '/etc/cni/net.d')
        return text.replaceAll(hands.host.stateDir, usualStateDir)
      })
    },
  )
})
