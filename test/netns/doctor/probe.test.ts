// SPDX-License-Identifier: Apache-2.0
// `trestle doctor --probe`: what temporary pods reach is told, and nothing of them stays.

import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { execa } from 'execa'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { type DoctorNode, openDoctorNode } from '../../support/doctor-node.ts'
import { startedLongAgo } from '../../support/faults/process-identities.ts'
import { snapshot, trestle } from '../../support/host.ts'
import { stateEnv, stateOf } from '../../support/state-layout.ts'

interface Step {
  readonly what: string
  readonly target: string
  readonly outcome: 'ok' | 'failed' | 'skipped'
  readonly detail?: string
}

let node: DoctorNode
beforeEach(() => {
  node = openDoctorNode()
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
const patient = { timeout: 30_000, interval: 50 }
const addresses = () => namesIn(stateOf(node, 'pods').directoryOf('addresses')).toSorted()
const attachments = () => namesIn(stateOf(node, 'pods').directoryOf('attachments'))

function probe(...words: readonly string[]) {
  const examined = node.doctor('--probe', ...words)
  const { steps = [] } = (examined.document['probe'] ?? {}) as { readonly steps?: readonly Step[] }
  return { ...examined, steps, of: (target: string) => steps.filter((step) => step.target === target) }
}

describe('pods that are tried', () => {
  it('reach each other, the node, what is behind it and a host port; nothing of them stays', () => {
    node.addPod('a', { portMappings: [{ hostPort: 8080, containerPort: 80, protocol: 'tcp' }] })
    const before = [addresses(), snapshot(node).links, done('nft -s list ruleset')]
    const { code, ids, steps } = probe()
    expect({ code, ids }, JSON.stringify(steps, undefined, 1)).toEqual({ code: 0, ids: [] })
    expect(new Set(steps.map(({ target }) => target))).toEqual(
      new Set(['add', 'node', 'gateway', 'pod', 'outside', 'host-port', 'own-port']),
    )
    expect(steps.filter(({ outcome }) => outcome !== 'ok')).toEqual([])
    expect([addresses(), snapshot(node).links, done('nft -s list ruleset')]).toEqual(before)
  })

  it('name what they do not reach, where nothing else is found above a note', () => {
    // A condition that doctor does not follow.
    done('iptables-nft -I FORWARD -s 10.240.0.0/24 -o up+ -m addrtype --dst-type UNICAST -j DROP')
    const { code, ids, findings } = probe()
    expect({ code, ids }, JSON.stringify(findings, undefined, 1)).toEqual({ code: 1, ids: ['probe-outside'] })
    expect(findings.find(({ id }) => id === 'probe-outside')?.seen).toMatch(
      /pod a to outside: 192\.0\.2\.2: .*100% packet loss/,
    )
  })

  it('take no refusal by a rule of the node for an answer', () => {
    const outsideOf = () =>
      probe('--only', 'probe')
        .of('outside')
        .filter(({ what }) => what.includes('.'))
    done('iptables-nft -I FORWARD -s 10.240.0.0/24 -o up+ -j REJECT')
    expect(outsideOf()).toMatchObject([{ outcome: 'failed' }])
    done('iptables-nft -R FORWARD 1 -s 10.240.0.0/24 -o up+ -p tcp -j REJECT --reject-with tcp-reset')
    expect(outsideOf()).toMatchObject([{ outcome: 'ok' }])
  })

  it('are a note where another finding says why', () => {
    node.addPod('a')
    done('iptables-nft -I FORWARD -s 10.240.0.0/24 -j DROP')
    const { code, ids, findings } = probe()
    expect({ code, ids }).toEqual({ code: 1, ids: ['firewall-drops'] })
    expect(findings.find(({ id }) => id === 'probe-outside')).toMatchObject({ severity: 'note' })
  })

  it('cannot be had of a full range: the errors of STATUS and ADD are explained', () => {
    node.close()
    node = openDoctorNode({ podcidr: '10.240.0.0/30' })
    node.addPod('a')
    const { findings, of } = probe('--only', 'probe')
    expect(findings.map(({ id }) => id)).toEqual(['not-ready-pool', 'pool-exhausted'])
    expect(of('add').map(({ outcome }) => outcome)).toEqual(['failed'])
    expect(addresses().filter((name) => name.startsWith('10.'))).toEqual(['10.240.0.2'])
  })
})

describe('no pods are made', () => {
  const refused = (...plugins: readonly object[]) => {
    node.write('10-pods.conflist', { cniVersion: '1.0.0', name: 'pods', plugins })
    const { code, findings, document } = probe('--only', 'probe')
    expect({ code, findings }).toEqual({ code: 3, findings: [] })
    return JSON.stringify(document['notLooked'])
  }

  it('of a list whose plugin asks others: exit code 3, with the reason', () => {
    expect(refused({ type: 'calico' }, { type: 'portmap' })).toContain('the plugin calico may need more than')
    expect(refused({ type: 'trestle', ipam: { type: 'dhcp' } })).toContain('could not give back what the plugin dhcp')
    expect(refused({ type: 'trestle', ipam: { type: 'static' } })).toContain('the plugin static')
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

describe('doctor that is ended while the pods are tried', () => {
  /** A probe that waits for answers, both pods being there: nobody answers them. */
  async function started() {
    done('iptables-nft -I FORWARD -s 10.240.0.0/24 -o up+ -j DROP')
    const options = ['--config-dir', node.configDir, '--bin-dir', node.binDir, '--no-runtime', '--log', node.log]
    const env = { ...stateEnv(node), PATH: `${dirname(trestle)}:${process.env['PATH']}` }
    const words = [`--net=${node.path}`, '--', 'trestle', 'doctor', '--probe', ...options]
    const child = execa('nsenter', words, { env, reject: false, detached: true })
    await vi.waitFor(() => expect(attachments()).toHaveLength(2), patient)
    expect(addresses()).toHaveLength(4)
    expect(podLinks()).toHaveLength(2)
    return { child }
  }
  const podLinks = () =>
    done('ip -br link show type veth')
      .split('\n')
      .filter((line) => /^veth[0-9a-f]{11}\b/.test(line))
  const isFreed = () => expect([addresses(), attachments(), podLinks()]).toEqual([[], [], []])
  const gc = () => node.sh('trestle gc --no-runtime --apply')

  it.each(['SIGINT', 'SIGTERM'] as const)('removes them first: %s', async (signal) => {
    const { child } = await started()
    // Ctrl-C goes to every process of the terminal's group.
    process.kill(-(child.pid ?? 0), signal)
    const { exitCode, stderr } = await child
    expect(exitCode, stderr).toBe(3)
    expect(stderr).toContain(`ended by ${signal}`)
    expect(stderr).toContain('the temporary pods are gone')
    isFreed()
  })

  it('by SIGKILL leaves dead attachments: their links go at once, and gc collects them when they are old', async () => {
    const { child } = await started()
    child.kill('SIGKILL')
    await child
    await vi.waitFor(() => expect(podLinks()).toEqual([]), patient)
    done('iptables-nft -F FORWARD')
    expect(gc().exitCode, 'attachments younger than five minutes are kept').toBe(0)
    expect([addresses().length, attachments().length]).toEqual([4, 2])
    for (const name of attachments()) {
      const file = `${stateOf(node, 'pods').directoryOf('attachments')}/${name}`
      const record = JSON.parse(readFileSync(file, 'utf8')) as { writer: object }
      const writer = { ...record.writer, startTime: startedLongAgo }
      writeFileSync(file, JSON.stringify({ ...record, writer, createdAt: '2020-01-01T00:00:00.000Z' }))
    }
    expect(node.doctor().ids).toEqual(['dead-attachments'])
    expect(gc()).toMatchObject({ exitCode: 0, stdout: expect.stringContaining('network namespace is gone') })
    isFreed()
    expect(node.doctor().ids).toEqual([])
  })
})
