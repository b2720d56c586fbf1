// SPDX-License-Identifier: Apache-2.0
// Every file of the state directory damaged in every way: no verb crashes, no live pod's address is
// given to another, and DEL still leaves nothing of its pod.

import { rmSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { damages, filesBelow } from '../support/damage.ts'
import { type Finished, type Host, openHost } from '../support/host.ts'
import { addressesOf } from '../support/parallel.ts'

const conf = {
  cniVersion: '1.1.0',
  name: 'worn',
  type: 'trestle',
  podcidr: '10.94.0.0/28',
  runtimeConfig: { portMappings: [{ hostPort: 18081, containerPort: 80, protocol: 'tcp' }] },
}
const plain = { ...conf, runtimeConfig: {} }
const foreseen = (each: Finished) => each.code === 0 || (codeOf(each) !== undefined && codeOf(each) !== 999)

describe('a damaged state directory', () => {
  let host: Host
  beforeEach(() => {
    host = openHost()
  })
  afterEach(() => host.close())

  /** Three pods, one file damaged, every verb; what was wrong in words. */
  const play = (file: string, damage: string): readonly string[] => {
    const pods = ['p', 'q', 'r'].map((id) => ({
      id,
      netns: host.pod(`${id}${Math.random().toString(36).slice(2, 8)}`),
    }))
    const added = pods.map((pod) => host.cni('ADD', pod.id === 'p' ? conf : plain, pod))
    const live = added.flatMap(addressesOf)
    const all = filesBelow(host.stateDir)
    const other = all.find(
      (name) => name !== file && name.slice(0, name.lastIndexOf('/')) === file.slice(0, file.lastIndexOf('/')),
    )
    damages[damage]?.(`${host.stateDir}/${file}`, other && `${host.stateDir}/${other}`)

    const fresh = { id: 's', netns: host.pod(`s${Math.random().toString(36).slice(2, 8)}`) }
    const answers = [
      host.cni('ADD', plain, fresh),
      host.cni('STATUS', plain),
      host.cni('CHECK', { ...plain, prevResult: added[1]?.json }, pods[1]),
      host.cni('GC', {
        ...plain,
        'cni.dev/valid-attachments': [...pods, fresh].map(({ id }) => ({ containerID: id, ifname: 'eth0' })),
      }),
    ]
    const dels = [...pods, fresh].map((pod) => host.cni('DEL', conf, pod))
    // A reservation that names another pod is that pod's, and there is nothing to tell otherwise.
    const reserved = filesBelow(host.stateDir).filter((name) => /\/addresses\/|^ports\//.test(name))
    const withheld = damage === "another attachment's" ? [] : reserved
    const links = host.run('ip', ['-o', 'link', 'show', 'type', 'veth']).stdout
    const wrong = [
      ...answers.filter((each) => !foreseen(each)).map((each) => `not foreseen: ${each.stdout}${each.stderr}`),
      ...(answers[0]?.code === 0 ? [] : [`ADD: ${answers[0]?.stdout}`]),
      ...addressesOf(answers[0] as Finished)
        .filter((address) => live.includes(address))
        .map((address) => `${address} was given out twice`),
      ...dels.filter(({ code }) => code !== 0).map(({ stdout }) => `DEL: ${stdout}`),
      ...withheld.map((name) => `still reserved: ${name}`),
      ...(links === '' ? [] : [`left: ${links}`]),
    ]
    for (const pod of [...pods, fresh]) host.removePod(pod.netns)
    host.run('ip', ['link', 'del', 'cni0'])
    host.run('nft', ['flush', 'ruleset'])
    rmSync(host.stateDir, { recursive: true })
    return wrong.map((each) => `${file} ${damage}: ${each}`)
  }

  it.each(Object.keys(damages))(
    'with any one file %s (pain 2: a damaged reservation is an address lost)',
    (damage) => {
      expect(filesOfThreePods().flatMap((file) => play(file, damage))).toEqual([])
    },
    180_000,
  )

  const filesOfThreePods = (): readonly string[] => [
    'networks/worn/network.json',
    'networks/worn/last.0',
    'networks/worn/attachments/p:eth0',
    'networks/worn/addresses/10.94.0.2',
    'ports/tcp:18081:4:any',
  ]

  it('has the files that are damaged here', () => {
    for (const id of ['p', 'q', 'r']) host.cni('ADD', id === 'p' ? conf : plain, { id, netns: host.pod(id) })
    const kinds = filesBelow(host.stateDir).filter((file) => !/(q|r):eth0$|10\.94\.0\.[34]$/.test(file))
    expect(kinds).toEqual([...filesOfThreePods()].sort())
  })
})

function codeOf({ json }: Finished): unknown {
  return (json as { code?: unknown } | undefined)?.code
}
