// SPDX-License-Identifier: Apache-2.0
// `trestle doctor`: configurations, addresses, host ports, MTU, logs; what --fix --apply mends, and what it leaves alone.

import { readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type DoctorNode, openDoctorNode, podArgs } from '../../support/doctor-node.ts'
import { startedLongAgo } from '../../support/faults/process-identities.ts'
import { trestle } from '../../support/host.ts'
import { stateOf } from '../../support/state-layout.ts'
import { serve } from '../../support/traffic/traffic.ts'

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

describe('the configuration', () => {
  it('a second one that sorts first is named, and the printed cure takes it away (kubernetes/kubernetes#100309)', () => {
    node.addPod('a', {}, podArgs('a'))
    const ipam = { type: 'host-local', subnet: '10.9.0.0/24' }
    node.write('05-old.conflist', {
      cniVersion: '1.0.0',
      name: 'old',
      plugins: [{ type: 'trestle', bridge: 'br9', ipam }],
    })
    const { ids, findings } = node.doctor()
    expect(ids).toEqual(['config-shadowed'])
    expect(findings[0]?.seen).toContain('1 of the pods here live in network pods')
    done(findings[0]?.run ?? 'exit 9')
    expect(node.doctor().ids).toEqual([])
  })

  it('a file that is no JSON is one finding, and so is a plugin that is not there (containerd/cri#889)', () => {
    node.write('05-old.conflist', '{ "name": "x",')
    expect(node.doctor().ids).toEqual(['json-syntax'])
    rmSync(`${node.configDir}/05-old.conflist`)
    rmSync(`${node.binDir}/trestle`)
    expect(node.doctor().ids).toEqual(['plugin-missing'])
    symlinkSync(trestle, `${node.binDir}/trestle`)
    expect(node.doctor()).toMatchObject({ code: 0, ids: [] })
  })

  it('a second file of the network in use is named, as lint does', () => {
    done(`cp ${node.configDir}/10-pods.conflist ${node.configDir}/20-pods.conflist`)
    const { code, findings } = node.doctor()
    expect(findings).toMatchObject([{ id: 'same-network', on: `${node.configDir}/20-pods.conflist` }])
    expect(code).toBe(1)
  })

  it('an empty directory is one finding', () => {
    rmSync(`${node.configDir}/10-pods.conflist`)
    expect(node.doctor().ids).toEqual(['dir-empty'])
  })
})

describe('addresses and ports', () => {
  it('a full range is named', () => {
    node.close()
    node = openDoctorNode({ podcidr: '10.240.0.0/30' })
    node.addPod('a')
    expect(node.doctor().ids).toEqual(['not-ready-pool'])
  })

  it('what a dead pod left is named, and collected by the printed cure (containernetworking/plugins#1047)', () => {
    const { netns } = node.addPod('a')
    node.addPod('b')
    const file = stateOf(node, 'pods').finished('a')
    const record = JSON.parse(readFileSync(file, 'utf8')) as { writer: object }
    const old = {
      ...record,
      writer: { ...record.writer, startTime: startedLongAgo },
      createdAt: '2020-01-01T00:00:00.000Z',
    }
    writeFileSync(file, JSON.stringify(old))
    node.removePod(netns)
    const { ids, findings } = node.doctor()
    expect(ids).toEqual(['dead-attachments'])
    done(`${findings[0]?.run} --no-runtime`)
    expect(node.doctor()).toMatchObject({ code: 0, ids: [] })
  })

  it('a process of the node on the host port of a pod is named once', async () => {
    node.addPod('a', { portMappings: [{ hostPort: 8080, containerPort: 80, protocol: 'tcp' }] })
    node.atClose(await serve(node.path))
    const { ids, findings } = node.doctor()
    expect(ids).toEqual(['port-taken'])
    expect(findings[0]?.on).toBe('host port 8080/tcp')
  })

  it('an uplink with a smaller MTU than the pods is named (kubernetes-sigs/kind#1690)', () => {
    node.addPod('a')
    const uplink = /dev (\S+)/.exec(done('ip route show default'))?.[1]
    done(`ip link set ${uplink} mtu 1400`)
    expect(node.doctor().ids).toEqual(['mtu-larger'])
  })
})

describe('the log', () => {
  it('an error that goes on is a warning with its pod, once', () => {
    const now = new Date().toISOString()
    const line = `time="${now}" level=error msg="RunPodSandbox for &PodSandboxMetadata{Name:web,Uid:u,Namespace:shop,Attempt:0,} failed, error" error="failed to setup network for sandbox: plugin type=\\"flannel\\" failed (add): open /run/flannel/subnet.env: no such file or directory"\n`
    writeFileSync(node.log, line.repeat(3))
    const { ids, findings } = node.doctor()
    expect(ids).toEqual(['flannel-subnet-env'])
    expect(findings[0]).toMatchObject({ group: 'log', on: 'shop/web' })
    expect(findings[0]?.seen).toContain('3 times in the last hour')
  })

  it('without a line of a runtime or kubelet in the journal is not looked at, which is no fault', () => {
    const ask = `trestle doctor --config-dir ${node.configDir} --bin-dir ${node.binDir} --no-runtime --only log`
    const said = done(`unshare --mount sh -c 'mount -t tmpfs tmpfs /var/log; ${ask}'`)
    expect(said).toContain('not looked at: the journal has no line of a runtime or kubelet')
    expect(done(`${ask} --log ${node.log}`)).toMatch(/^log +ok$/m)
  })
})

describe('--fix', () => {
  const damage = 'sysctl -qw net.ipv4.ip_forward=0 && nft flush ruleset && ip link set cni0 down'

  it('says what it would mend, and mends nothing without --apply', () => {
    node.addPod('a')
    done(damage)
    const { code, document } = node.doctor('--fix')
    expect(code).toBe(1)
    expect(JSON.stringify(document['done'])).toContain('--apply repairs network-differs: this node')
    expect(node.doctor().ids.toSorted()).toEqual(['forwarding-off', 'network-differs'])
  })

  it('mends what is ours with --apply, and leaves rules and settings of others alone', () => {
    const [a, b] = [node.addPod('a'), node.addPod('b')]
    done(damage)
    expect(node.doctor('--fix', '--apply')).toMatchObject({ code: 0, ids: [] })
    expect(node.broken(a, b)).toEqual([])
    done('iptables-nft -I FORWARD -s 10.240.0.0/24 -j DROP')
    const before = done('iptables-nft -S')
    expect(node.doctor('--fix', '--apply')).toMatchObject({ code: 1, ids: ['firewall-drops'] })
    expect(done('iptables-nft -S')).toBe(before)
  })

  it('--only chooses groups and ids', () => {
    node.addPod('a')
    done(damage)
    expect(node.doctor('--only', 'kernel').ids).toEqual(['forwarding-off'])
    expect(node.doctor('--only', 'network-differs').ids).toEqual(['network-differs'])
  })
})

it('without root nothing is found and not all was looked at: exit code 3', () => {
  node.addPod('a')
  const options = `--config-dir ${node.configDir} --bin-dir ${node.binDir} --no-runtime --log ${node.log}`
  done(`chmod 755 $(dirname ${node.configDir})`)
  // libcni keeps its cache for root: to list it is refused.
  done('mkdir -p /var/lib/cni/results && touch /var/lib/cni/results/pods-x-eth0 && chmod 700 /var/lib/cni/results')
  const { exitCode, stdout } = node.sh(`setpriv --reuid 65534 --clear-groups trestle doctor ${options}`)
  expect(exitCode, stdout).toBe(3)
  expect(stdout).toContain('not looked at: it needs root')
  done('rm /var/lib/cni/results/pods-x-eth0')
})
