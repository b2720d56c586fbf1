// SPDX-License-Identifier: Apache-2.0
// `trestle doctor --pod`: what is known of one pod, its findings and those of the node, and none of other pods.

import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type DoctorNode, openDoctorNode } from '../../support/doctor-node.ts'
import type { Pod } from '../../support/traffic/pods.ts'

const ids = { a: 'a11111111111111111', b: 'b22222222222222222' } as const
const argsOf = (name: string) => `IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=${name}`
const ports = { portMappings: [{ hostPort: 8080, containerPort: 80, protocol: 'tcp' }] }

let node: DoctorNode
let a: Pod
let b: Pod
beforeEach(() => {
  node = openDoctorNode()
  a = node.addPod(ids.a, ports, argsOf('a'))
  b = node.addPod(ids.b, {}, argsOf('b'))
})
afterEach(() => node.close())

function done(line: string): void {
  const { exitCode, stderr } = node.sh(line)
  expect(exitCode, `${line}: ${stderr}`).toBe(0)
}
const textOf = (asked: string) =>
  node.sh(
    `trestle doctor --pod ${asked} --config-dir ${node.configDir} --bin-dir ${node.binDir} --no-runtime --log ${node.log}`,
  )
const failed = (pod: string) =>
  `time="${new Date().toISOString()}" level=error msg="RunPodSandbox for &PodSandboxMetadata{Name:${pod},Uid:u,Namespace:shop,Attempt:0,} failed, error" error="failed to setup network for sandbox: plugin type=\\"flannel\\" failed (add): open /run/flannel/subnet.env: no such file or directory"\n`

describe('a pod that has its network', () => {
  it('is shown with its link, addresses and host ports', () => {
    const { exitCode, stdout } = textOf('shop/a')
    expect(exitCode, stdout).toBe(0)
    expect(stdout).toContain(
      `network    pods: eth0 of container ${ids.a.slice(0, 13)} of shop/a, made by trestle, since`,
    )
    expect(stdout).toContain(`link       ${a.hostLink}, port of cni0\n`)
    expect(stdout).toContain(`addresses  ${a.address} fd00:240::`)
    expect(stdout).toContain('host port  8080/tcp -> 80\n')
    expect(stdout).not.toContain(b.address)
  })

  it('is found by its container id, or the beginning of it', () => {
    const { code, document } = node.doctor('--pod', ids.b.slice(0, 10))
    expect(code).toBe(0)
    expect(document['pod']).toMatchObject({ interfaces: [{ containerId: ids.b, pod: 'shop/b', network: 'pods' }] })
  })
})

describe('findings', () => {
  it('of the node are shown for every pod', () => {
    done(`ip link set ${b.hostLink} down`)
    for (const pod of ['shop/a', 'shop/b']) expect(node.doctor('--pod', pod).ids).toEqual(['network-differs'])
  })

  it('say what differs inside of the pod, and are not shown for another', () => {
    done(`nsenter --net=${a.netns} ip route del default`)
    const { ids: found, findings } = node.doctor('--pod', 'shop/a')
    expect(found).toEqual(['pod-differs'])
    expect(findings[0]?.seen).toContain('route to 0.0.0.0/0')
    expect(node.doctor('--pod', 'shop/b').ids).toEqual([])
  })
})

describe('a pod without a record', () => {
  it('but with one of a container that ended without DEL: that is said', () => {
    done(`umount ${b.netns} && rm ${b.netns}`)
    const { stdout } = textOf(ids.b.slice(0, 10))
    expect(stdout).toContain(
      'network    its network namespace is gone, and no DEL came: `trestle gc` frees what it has',
    )
  })

  it('that failed is known by the errors of the log, and those of others are left out', () => {
    writeFileSync(node.log, failed('c'))
    expect(node.doctor('--pod', 'shop/c').ids).toEqual(['flannel-subnet-env'])
    expect(textOf('shop/c').stdout).toContain('no ADD of it went well here')
    expect(node.doctor('--pod', 'shop/a').ids).toEqual([])
  })

  it('of another plugin is not known to doctor, which names `ps`', () => {
    const { netns } = a
    const interfaces = [{ name: 'br77' }, { name: 'eth0', sandbox: netns }]
    const list = { name: 'other', plugins: [{ type: 'bridge' }] }
    const entry = {
      kind: 'cniCacheV1',
      containerId: 'c44444444444',
      ifName: 'eth0',
      networkName: 'other',
      netns,
      config: Buffer.from(JSON.stringify(list)).toString('base64'),
      cniArgs: [
        ['K8S_POD_NAMESPACE', 'shop'],
        ['K8S_POD_NAME', 'y'],
      ],
      result: { cniVersion: '1.0.0', interfaces, ips: [{ address: '10.9.0.8/24', interface: 1 }] },
    }
    const file = '/var/lib/cni/results/other-c44444444444-eth0'
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, JSON.stringify(entry))
    try {
      expect(textOf('shop/y').stdout.replace(/\s+/g, ' ')).toContain('`trestle ps` lists pods of other plugins')
      expect(node.doctor()).toMatchObject({ code: 0, ids: [] })
    } finally {
      // The next test file has the same directory.
      rmSync(file)
    }
  })

  it('of trestle has an lo by another plugin, as containerd attaches it, and every pod is compared', () => {
    const list = { name: 'cni-loopback', plugins: [{ type: 'loopback' }] }
    const entry = {
      kind: 'cniCacheV1',
      containerId: 'c55555555555',
      ifName: 'lo',
      networkName: 'cni-loopback',
      netns: a.netns,
      config: Buffer.from(JSON.stringify(list)).toString('base64'),
      result: { cniVersion: '1.0.0', interfaces: [{ name: 'lo', sandbox: a.netns }] },
    }
    const file = '/var/lib/cni/results/cni-loopback-c55555555555-lo'
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, JSON.stringify(entry))
    const { code, document } = node.doctor()
    // The next test file has the same directory.
    rmSync(file)
    expect(code).toBe(0)
    expect(document['notLooked']).toEqual([])
  })

  it('that nobody knows: exit code 3, and it is said', () => {
    const { code, document } = node.doctor('--pod', 'shop/nobody')
    expect(code).toBe(3)
    expect(JSON.stringify(document['notLooked'])).toContain('shop/nobody is not known on this node')
  })

  it('whose name is none: exit code 2', () => {
    expect(node.sh("trestle doctor --pod 'a b'").exitCode).toBe(2)
  })
})
