// SPDX-License-Identifier: Apache-2.0
// `trestle doctor --probe`: what throw-away pods reach is told, and nothing of them stays, whoever is killed meanwhile.

import { readdirSync, readFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { execa } from 'execa'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { type DoctorNode, openDoctorNode } from '../../support/doctor-node.ts'
import { snapshot, trestle } from '../../support/host.ts'
import { probesBeside, stateEnv, stateOf } from '../../support/state-layout.ts'
import { outside } from '../../support/traffic/traffic.ts'
import { missingPlugins, upstreamPlugins } from '../../support/upstream.ts'

interface Step {
  readonly what: string
  readonly target: string
  readonly outcome: 'ok' | 'failed' | 'skipped'
  readonly detail?: string
}

/** Answers everything with the same; ended by the function that is returned, which waits for it. */
function startEcho(netns: string, address: string): () => Promise<void> {
  const child = execa('nsenter', [`--net=${netns}`, '--', 'socat', `${address},fork`, 'PIPE'], {
    reject: false,
    detached: true,
    cleanup: true,
  })
  return async () => {
    child.kill()
    await child
  }
}

let node: DoctorNode
beforeEach(() => {
  node = openDoctorNode({ dns: { nameservers: [outside.far4] } })
})
afterEach(() => node.close())

function done(line: string): string {
  const { exitCode, stdout, stderr } = node.sh(line)
  expect(exitCode, `${line}: ${stderr}`).toBe(0)
  return stdout
}

const namesIn = (directory: string): readonly string[] => {
  try {
    return readdirSync(directory)
  } catch {
    return []
  }
}
const upstreamMissing = missingPlugins(['bridge', 'host-local', 'portmap'])
const patient = { timeout: 30_000, interval: 50 }
const addresses = () => namesIn(stateOf(node, 'pods').directoryOf('addresses')).toSorted()
const intents = () => namesIn(probesBeside(node))

function probe(...words: readonly string[]) {
  const examined = node.doctor('--probe', ...words)
  const { steps = [] } = (examined.document['probe'] ?? {}) as { readonly steps?: readonly Step[] }
  return { ...examined, steps, of: (target: string) => steps.filter((step) => step.target === target) }
}

describe('pods that are tried', () => {
  it('reach each other, the node, what is behind it, a resolver and a host port; nothing of them stays', async () => {
    node.addPod('a', { portMappings: [{ hostPort: 8080, containerPort: 80, protocol: 'tcp' }] })
    const before = [addresses(), snapshot(node).links, done('nft -s list ruleset')]
    const stop = startEcho(node.internet, `UDP4-RECVFROM:53,bind=${outside.far4}`)
    try {
      const { code, ids, steps } = probe()
      expect({ code, ids }, JSON.stringify(steps, undefined, 1)).toEqual({ code: 0, ids: [] })
      expect(new Set(steps.map(({ target }) => target))).toEqual(
        new Set(['add', 'node', 'gateway', 'pod', 'outside', 'dns', 'host-port']),
      )
      expect(steps.filter(({ outcome }) => outcome !== 'ok')).toEqual([])
      expect([addresses(), snapshot(node).links, done('nft -s list ruleset')]).toEqual(before)
      expect(intents()).toEqual([])
    } finally {
      await stop()
    }
  })

  it('of upstream plugins leave no file of host-local', { skip: upstreamMissing !== undefined }, () => {
    const ipam = { type: 'host-local', ranges: [[{ subnet: '10.83.0.0/24' }]], routes: [{ dst: '0.0.0.0/0' }] }
    const bridge = { type: 'bridge', bridge: 'cni9', isGateway: true, ipMasq: true, hairpinMode: true, ipam }
    const portmap = { type: 'portmap', capabilities: { portMappings: true } }
    node.write('10-pods.conflist', { cniVersion: '1.0.0', name: 'pods', plugins: [bridge, portmap] })
    done(`cp ${upstreamPlugins}/bridge ${upstreamPlugins}/host-local ${upstreamPlugins}/portmap ${node.binDir}`)
    const { code, ids, steps } = probe()
    expect({ code, ids }, JSON.stringify(steps, undefined, 1)).toEqual({ code: 0, ids: [] })
    expect(steps.filter(({ target }) => target === 'host-port').map(({ outcome }) => outcome)).toEqual(['ok', 'ok'])
    expect(namesIn('/var/lib/cni/networks/pods').filter((name) => name.startsWith('10.'))).toEqual([])
    expect(intents()).toEqual([])
  })

  it('name what they do not reach, where nothing else is found above a note', () => {
    done('iptables-nft -I FORWARD -s 10.240.0.0/24 -o up+ -p tcp -j DROP')
    const { code, ids, findings } = probe()
    expect({ code, ids }, JSON.stringify(findings, undefined, 1)).toEqual({ code: 1, ids: ['probe-outside'] })
    expect(findings.find(({ id }) => id === 'probe-outside')?.seen).toMatch(/pod a to outside: .* no answer within/)
  })

  it('take no refusal by a rule of the node for an answer', async () => {
    const outsideOf = () =>
      probe('--only', 'probe')
        .of('outside')
        .filter(({ what }) => what.includes('.'))
    done('iptables-nft -I FORWARD -s 10.240.0.0/24 -o up+ -j REJECT')
    expect(outsideOf()).toMatchObject([
      { what: expect.stringContaining(', closed port 53'), outcome: 'ok' },
      { what: expect.stringContaining(', ping'), outcome: 'failed' },
    ])
    done('iptables-nft -R FORWARD 1 -s 10.240.0.0/24 -o up+ -p tcp -j REJECT --reject-with tcp-reset')
    const stop = startEcho(node.internet, 'TCP4-LISTEN:80,reuseaddr')
    try {
      await vi.waitFor(() => done('socat -u OPEN:/dev/null TCP4:192.0.2.2:80'), patient)
      expect(outsideOf()).toMatchObject([{ what: expect.stringContaining(', port 80'), outcome: 'failed' }])
    } finally {
      await stop()
    }
  })

  it('skip a resolver that the node has no route to', () => {
    done('ip route del default')
    const { steps, of } = probe('--only', 'probe')
    expect(
      of('dns').map(({ outcome }) => outcome),
      JSON.stringify(steps),
    ).toEqual(['skipped'])
    expect(of('add').map(({ outcome }) => outcome)).toEqual(['ok', 'ok'])
  })

  it('are a note where another finding says why', () => {
    node.addPod('a')
    done('iptables-nft -I FORWARD -s 10.240.0.0/24 -j DROP')
    const { code, ids, findings } = probe()
    expect({ code, ids }).toEqual({ code: 1, ids: ['firewall-drops'] })
    expect(findings.find(({ id }) => id === 'probe-outside')).toMatchObject({ severity: 'note' })
  })

  it('cannot be had of a full range: the error of ADD is explained', () => {
    node.close()
    node = openDoctorNode({ podcidr: '10.240.0.0/30' })
    node.addPod('a')
    const { findings, of } = probe('--only', 'probe')
    expect(findings.map(({ id }) => id)).toEqual(['pool-exhausted'])
    expect(of('add').map(({ outcome }) => outcome)).toEqual(['failed'])
    expect(addresses().filter((name) => name.startsWith('10.'))).toEqual(['10.240.0.2'])
  })
})

describe('no pods are made', () => {
  const refused = (...plugins: readonly object[]) => {
    node.write('10-pods.conflist', { cniVersion: '1.0.0', name: 'pods', plugins })
    const { code, findings, document } = probe('--only', 'probe')
    expect({ code, findings }).toEqual({ code: 3, findings: [] })
    expect(intents()).toEqual([])
    return JSON.stringify(document['notLooked'])
  }

  it('of a list whose plugin asks others: exit code 3, with the reason', () => {
    expect(refused({ type: 'calico' }, { type: 'portmap' })).toContain('the plugin calico needs more than')
    expect(refused({ type: 'bridge', ipam: { type: 'dhcp' } })).toContain('could not give back what the plugin dhcp')
    expect(refused({ type: 'bridge', ipam: { type: 'static' } })).toContain('the plugin static')
  })

  it('where no configuration is in use: exit code 3', () => {
    done(`rm ${node.configDir}/*`)
    const { code, document } = probe('--only', 'probe')
    expect(code).toBe(3)
    expect(JSON.stringify(document['notLooked'])).toContain('no runtime of this node uses a configuration')
  })

  it('without --probe, and it is no group then', () => {
    expect(node.doctor().document['probe']).toBeUndefined()
    expect(node.sh('trestle doctor --only probe').exitCode).toBe(2)
  })
})

describe('what is killed while the pods are tried frees their addresses:', () => {
  /** A probe that waits for answers, both pods being there: nobody answers them. */
  async function started() {
    done('iptables-nft -I FORWARD -s 10.240.0.0/24 -o up+ -j DROP')
    const options = ['--config-dir', node.configDir, '--bin-dir', node.binDir, '--no-runtime', '--log', node.log]
    const env = { ...stateEnv(node), PATH: `${dirname(trestle)}:${process.env['PATH']}` }
    const words = [`--net=${node.path}`, '--', 'trestle', 'doctor', '--probe', ...options]
    const child = execa('nsenter', words, { env, reject: false, detached: true })
    await vi.waitFor(() => expect(namesIn(stateOf(node, 'pods').directoryOf('attachments'))).toHaveLength(2), patient)
    expect(addresses()).toHaveLength(4)
    const [id = ''] = intents()
    const { prober } = JSON.parse(readFileSync(`${probesBeside(node)}/${id}`, 'utf8')) as { prober: { pid: number } }
    return { child, prober: prober.pid }
  }
  const isFreed = () => expect([addresses(), intents(), podLinks()]).toEqual([[], [], []])
  const podLinks = () =>
    done('ip -br link show type veth')
      .split('\n')
      .filter((line) => /^t[0-9a-z]/.test(line))

  it('doctor itself', async () => {
    const { child } = await started()
    child.kill('SIGKILL')
    await child
    await vi.waitFor(isFreed, patient)
  })

  it('doctor, by Ctrl-C: it waits until they are gone', async () => {
    const { child } = await started()
    child.kill('SIGINT')
    const { exitCode, stderr } = await child
    expect(exitCode).toBe(3)
    expect(stderr).toContain('the throw-away pods are gone')
    isFreed()
  })

  it('the process that makes them', async () => {
    const { child, prober } = await started()
    process.kill(prober, 'SIGKILL')
    const { exitCode, stdout } = await child
    // 1: doctor names the drop that keeps the probe waiting.
    expect(exitCode, stdout).toBe(1)
    expect(stdout.replace(/\s+/g, ' ')).toContain('was ended by somebody; its pods and their addresses are gone')
    expect([addresses(), intents()]).toEqual([[], []])
    await vi.waitFor(isFreed, patient)
  })

  it('both: the next probe does it', async () => {
    const { child, prober } = await started()
    child.kill('SIGSTOP')
    process.kill(prober, 'SIGKILL')
    child.kill('SIGKILL')
    await child
    expect(intents()).toHaveLength(1)
    done('iptables-nft -F FORWARD')
    expect(probe('--only', 'probe')).toMatchObject({ code: 0, findings: [] })
    await vi.waitFor(isFreed, patient)
  })
})
