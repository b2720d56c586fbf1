// SPDX-License-Identifier: Apache-2.0
// DEL answers when links and elements are gone, while ip and nft still wait for the kernel: the next call of the same
// names must find nothing of it. 200 pairs with TRESTLE_TEST_FULL=1, else a few.

import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { execaSync } from 'execa'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { expectNothingLeft } from '../../support/allowance.ts'
import { holdTools, missingForStuck } from '../../support/faults/held-tools.ts'
import { haveStrace } from '../../support/faults/strace.ts'
import { type Finished, type Host, openHost, snapshot } from '../../support/host.ts'
import { expectSilent, runLine } from '../../support/outcome.ts'
import { callFiles } from '../../support/state-layout.ts'
import { attach, interfacesOf, netConf, onHostJson } from '../../support/traffic/pods.ts'

const pairs = process.env['TRESTLE_TEST_FULL'] === '1' ? 200 : 20
const notStuck = missingForStuck()
if (notStuck !== undefined) console.warn(notStuck)

/** Two links on the host, host ports and isolation: `ip` and `nft` both have something to remove. */
const conf = netConf({
  firewall: { ingressPolicy: 'same-bridge' },
  runtimeConfig: {
    portMappings: [{ hostPort: 8080, containerPort: 80, protocol: 'tcp' }],
    bandwidth: { ingressRate: 1e6, ingressBurst: 1e5, egressRate: 1e6, egressBurst: 1e5 },
  },
})

let host: Host
beforeEach(() => {
  host = openHost()
})
afterEach(() => {
  host.close()
})

/** Nothing is printed and nothing is pending: a tool that is ended with the call's time would be. */
function expectWhole(finished: Finished): void {
  expectSilent(finished)
  expect(finished.stderr).toBe('')
}

const podLinks = () => onHostJson(host, ['link', 'show']).filter(({ ifname }) => /^(?:veth|ifb)/.test(ifname))

it(`${pairs} ADDs and DELs of the same names without a pause leave nothing, and harm no later one`, {
  timeout: 300_000,
}, () => {
  attach(host, netConf(), { id: 'other' })
  const before = snapshot(host)
  const netns = host.pod('same')
  for (let pair = 0; pair < pairs; pair++) {
    const { code, stdout } = host.cni('ADD', conf, { id: 'same', netns })
    expect(code, stdout).toBe(0)
    const prevResult = JSON.parse(stdout) as object
    expectSilent(host.cni('CHECK', { ...conf, prevResult }, { id: 'same', netns }))
    expectSilent(host.cni('DEL', conf, { id: 'same', netns }))
    expect(callFiles(host), 'nobody has to end what still runs').toEqual([])
  }
  expectNothingLeft(host, before)
})

it('removes links and rules before it answers, also where the tools are slow to begin', () => {
  const before = snapshot(host)
  const pod = attach(host, conf)
  const held = holdTools(['ip', 'nft'], { seconds: 1 })
  try {
    expect(podLinks()).toHaveLength(2)
    expectWhole(host.cni('DEL', conf, { ...pod.call, env: { PATH: held.path } }))
    expect(podLinks()).toEqual([])
    expect(interfacesOf(host, pod.netns)).toEqual([])
    expectNothingLeft(host, before)
  } finally {
    held.close()
  }
})

it.skipIf(notStuck !== undefined)(
  'waits for nothing that ends for no signal and has its descriptors, nor does the next call',
  async () => {
    const before = snapshot(host)
    const pod = attach(host, conf)
    const held = holdTools(['ip', 'nft'], 'beside')
    try {
      await held.lock()
      // Whoever has the call's own stdout or stderr keeps the test waiting here.
      expectWhole(host.cni('DEL', conf, { ...pod.call, env: { PATH: held.path } }))
      expect(held.atWork(), 'one for each tool').toHaveLength(2)
      expect(callFiles(host)).toEqual([])
      expect(podLinks()).toEqual([])
      const again = attach(host, conf, pod.call)
      expect(again.address).not.toBe('')
      expectSilent(host.cni('DEL', conf, again.call))
      expect(held.atWork(), 'nobody waited for them').toHaveLength(2)
      expectNothingLeft(host, before)
      held.release()
      await held.ended()
    } finally {
      held.close()
    }
  },
)

it.runIf(haveStrace())('does not make nft read the rules of others', () => {
  const few = bytesRead('few')
  const rules = Array.from({ length: 2000 }, (_, at) => `ip saddr 192.0.2.1 tcp dport ${at + 1} counter accept`)
  const others = `table ip others {\n chain c {\n${rules.join('\n')}\n }\n}\n`
  runLine(host, 'nft -f -', others)
  expect(bytesRead('many'), 'a rule is some hundred bytes').toBeLessThan(few + 2000)
})

/** How much nft reads from the kernel in a DEL. */
function bytesRead(id: string): number {
  const directory = mkdtempSync(`${tmpdir()}/trestle-traced-`)
  try {
    const real = execaSync('sh', ['-c', 'command -v nft']).stdout
    const trace = `strace -f -qq -o ${directory}/trace -e trace=recvmsg,recvfrom`
    writeFileSync(`${directory}/nft`, `#!/bin/sh\nexec ${trace} ${real} "$@"\n`)
    chmodSync(`${directory}/nft`, 0o755)
    const pod = attach(host, conf, { id })
    expectSilent(host.cni('DEL', conf, { ...pod.call, env: { PATH: `${directory}:${process.env['PATH']}` } }))
    const sizes = readFileSync(`${directory}/trace`, 'utf8').match(/(?<= = )\d+$/gm) ?? []
    expect(sizes).not.toEqual([])
    return sizes.reduce((sum, size) => sum + Number(size), 0)
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
}
