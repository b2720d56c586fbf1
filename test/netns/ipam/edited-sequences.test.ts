// SPDX-License-Identifier: Apache-2.0
// Generated sequences of edits of two configurations under live pods. After each step: no address twice, no gateway twice,
// each live pod reaches its gateway and each other live pod; or the ADD was refused by name and has changed nothing.
// TRESTLE_TEST_EDITS=N runs N sequences of 14 steps, from seed TRESTLE_TEST_SEED (1) on.

import { rmSync } from 'node:fs'
import { afterAll, describe, expect, it } from 'vitest'
import { Editing, type EditKind, neverRefused } from '../../support/edits.ts'
import { type Host, openHost, trestle } from '../../support/host.ts'
import { expectError, expectSilent, runLine } from '../../support/outcome.ts'
import { stateOf, stateWord } from '../../support/state-layout.ts'
import { onHostJson } from '../../support/traffic/pods.ts'

interface LivePod {
  readonly id: string
  readonly netns: string
  /** Which of the configurations it is of, whatever that is by now. */
  readonly of: number
  readonly bridge: string | undefined
  readonly prevResult: object
  readonly addresses: readonly string[]
  readonly gateways: readonly string[]
}

/** Seeds that found a fault, and some for the rest. */
const kept = [1, 3, 117, 121]
const wanted = Number(process.env['TRESTLE_TEST_EDITS'] ?? 0)
const first = Number(process.env['TRESTLE_TEST_SEED'] ?? 1)
const seeds = wanted > 0 ? Array.from({ length: wanted }, (_, at) => first + at) : kept
const steps = 14

const edits = ['edit', 'edit', 'edit', 'edit', 'add', 'del', 'del', 'kill', 'forget'] as const
/** With state that is lost, and bridges that are removed by hand. */
const damages = [...edits, 'lose', 'unbridge'] as const
const keptDamaged = [4, 8]
type Kinds = readonly (typeof damages)[number][]

type Outcome = 'added' | 'refused' | 'refused with 108'
const counts = new Map<string, Record<Outcome, number>>()
const count = (kind: string, outcome: Outcome) => {
  const row = counts.get(kind) ?? { added: 0, refused: 0, 'refused with 108': 0 }
  counts.set(kind, { ...row, [outcome]: row[outcome] + 1 })
}
afterAll(() => console.table(Object.fromEntries([...counts].toSorted())))

describe('edits of configurations under live pods', () => {
  it.each(seeds)('seed %i', (seed) => runSequence(seed, edits))
  it.each(wanted > 0 ? seeds : keptDamaged)('and damages: seed %i', (seed) => runSequence(seed, damages))
})

function runSequence(seed: number, kinds: Kinds): void {
  const host = openHost()
  try {
    new Sequence(host, seed, kinds).run()
  } finally {
    host.close()
  }
}

class Sequence {
  readonly #host: Host
  readonly #kinds: Kinds
  readonly #editing: Editing
  readonly #pods: LivePod[] = []
  readonly #told: string[] = []
  /** Whether the last ADD of each configuration was taken, and nothing was edited since. */
  readonly #accepted = [false, false]
  #made = 0
  /** Bridges of networks whose file was lost. */
  readonly #lost = new Set<string | undefined>()

  constructor(host: Host, seed: number, kinds: Kinds) {
    this.#host = host
    this.#kinds = kinds
    this.#editing = new Editing(seed)
    runLine(host, 'ip link add up9 type veth peer name up9-peer')
    for (const cidr of ['192.0.2.2/24', '2001:db8:5::2/64 nodad']) runLine(host, `ip addr add ${cidr} dev up9`)
    for (const dev of ['up9', 'up9-peer', 'lo']) runLine(host, `ip link set ${dev} up`)
  }

  run(): void {
    for (let step = 0; step < steps; step++) {
      this.#step()
      this.#holds()
    }
    for (const pod of [...this.#pods]) this.#del(pod)
  }

  #step(): void {
    const { random } = this.#editing
    const what = random.pick(this.#kinds)
    if (what === 'edit') this.#edit(random.pick([0, 1]))
    else if (what === 'add' || this.#pods.length === 0) this.#add(random.pick([0, 1]), 'unchanged')
    else if (what === 'forget') this.#forget()
    else if (what === 'lose') this.#lose()
    else if (what === 'unbridge') this.#removeBridge()
    else {
      const pod = random.pick(this.#pods)
      if (what === 'del') this.#del(pod)
      else this.#kill(pod)
    }
  }

  #edit(of: number): void {
    const before = this.#editing.configuration(of)
    const kind = this.#editing.edit(of)
    const isRefused = !this.#add(of, kind)
    // An operator who is told takes it back, or leaves it as it is.
    if (isRefused && this.#editing.random.pick([true, false])) this.#editing.restore(of, before)
  }

  /** Returns whether the ADD was taken. A full house makes room first. */
  #add(of: number, kind: EditKind | 'unchanged'): boolean {
    const [oldest] = this.#pods
    if (this.#pods.length >= 5 && oldest !== undefined) this.#del(oldest)
    const conf = this.#editing.asJson(of)
    const id = `p${this.#made++}`
    const netns = this.#host.pod(id)
    const added = this.#host.cni('ADD', conf, { id, netns })
    this.#told.push(`${kind} of ${of}: ADD ${id} ${JSON.stringify(conf)}: ${added.code} ${added.json?.msg ?? ''}`)
    const wasAccepted = this.#accepted[of]
    if (added.code !== 0) {
      count(kind, added.json?.code === 108 ? 'refused with 108' : 'refused')
      expectError(added, added.json?.code === 108 ? 108 : 110, /overlaps|already has an IP address/)
      if (wasAccepted && !(added.json?.code === 108 && this.#hasGatewayInUse(of)))
        expect(neverRefused, this.#story()).not.toContain(kind)
      this.#accepted[of] = false
      this.#host.removePod(netns)
      return false
    }
    count(kind, 'added')
    this.#accepted[of] = true
    const { ips = [] } = added.json ?? {}
    this.#pods.push({
      id,
      netns,
      of,
      bridge: this.#bridgeOf(of),
      prevResult: added.json ?? {},
      addresses: ips.map(({ address }) => address.replace(/\/.*/, '')),
      gateways: ips.map(({ gateway }) => gateway),
    })
    return true
  }

  #bridgeOf(of: number): string | undefined {
    const { mode, bridge } = this.#editing.configuration(of)
    return mode === 'bridge' ? bridge : undefined
  }

  /** One bridge has one IPv4 gateway, as long as a live pod has it, or if the record of it was lost. */
  #hasGatewayInUse(of: number): boolean {
    const bridge = this.#bridgeOf(of)
    const here = this.#pods.filter((pod) => pod.bridge === bridge)
    return this.#lost.has(bridge) || here.some(({ gateways }) => gateways.some((gateway) => !gateway.includes(':')))
  }

  /** As containerd sends it: with the configuration of now, twice. */
  #del(pod: LivePod): void {
    const conf = { ...this.#editing.asJson(pod.of), prevResult: pod.prevResult }
    this.#told.push(`DEL ${pod.id}`)
    expectSilent(this.#host.cni('DEL', conf, { id: pod.id, netns: pod.netns }))
    this.#host.removePod(pod.netns)
    expectSilent(this.#host.cni('DEL', conf, { id: pod.id, netns: '' }))
    this.#pods.splice(this.#pods.indexOf(pod), 1)
  }

  /** Its namespace goes, and no DEL comes. */
  #kill(pod: LivePod): void {
    this.#told.push(`${pod.id} dies`)
    this.#host.removePod(pod.netns)
    this.#pods.splice(this.#pods.indexOf(pod), 1)
  }

  #forget(): void {
    this.#lost.add(this.#bridgeOf(0))
    const { name } = this.#editing.configuration(0)
    this.#told.push(`network.json of ${name} is lost`)
    rmSync(stateOf(this.#host, name).shared, { force: true })
  }

  /** All records of the network, and its reservations: an ADD finds them again, and is taken if the one before was. */
  #lose(): void {
    this.#lost.add(this.#bridgeOf(0))
    const { name } = this.#editing.configuration(0)
    this.#told.push(`state of ${name} is lost`)
    rmSync(stateOf(this.#host, name).directory, { recursive: true, force: true })
    if (this.#accepted[0]) expect(this.#add(0, 'unchanged'), this.#story()).toBe(true)
  }

  /** An operator removes a bridge that no pod is on, and has the node restored. */
  #removeBridge(): void {
    const ports = new Set(onHostJson(this.#host, ['link', 'show']).map(({ master }) => master))
    const [bridge] = onHostJson(this.#host, ['link', 'show', 'type', 'bridge']).filter(
      ({ ifname }) => !ports.has(ifname),
    )
    if (bridge === undefined) return
    this.#told.push(`${bridge.ifname} is removed`)
    runLine(this.#host, `ip link del ${bridge.ifname}`)
    const { code, stderr } = this.#host.run('env', [stateWord(this.#host), trestle, 'restore'])
    expect(code, stderr).toBe(0)
  }

  #holds(): void {
    const addresses = this.#pods.flatMap((pod) => pod.addresses)
    expect(twice(addresses), this.#story()).toEqual([])
    const links = onHostJson(this.#host, ['addr', 'show', 'scope', 'global'])
    const shown = links.flatMap(({ ifname, addr_info }) =>
      addr_info.flatMap(({ local }) => (local === undefined ? [] : { ifname, local })),
    )
    const isOfPod = (name: string) => /^veth[0-9a-f]{11}$/.test(name)
    const routed = new Set(shown.filter(({ ifname }) => isOfPod(ifname)).map(({ local }) => local))
    // One bridge may have one gateway with two prefix lengths, of two networks.
    const onLinks = new Set(
      shown.filter(({ ifname }) => !isOfPod(ifname)).map(({ ifname, local }) => `${ifname} ${local}`),
    )
    const others = [...onLinks].map((each) => each.replace(/.* /, ''))
    expect(twice([...others, ...routed]), this.#story()).toEqual([])
    expect(twice([...new Set([...others, ...routed]), ...addresses]), this.#story()).toEqual([])
    for (const pod of this.#pods) {
      const targets = [...pod.gateways, ...addresses]
      const script = 'for a; do ping -nqc1 -w4 $a >/dev/null || echo $a; done'
      const { stdout } = this.#host.inPod(pod.netns, 'sh', ['-c', script, 'sh', ...targets])
      const family = (address: string) => pod.addresses.some((own) => own.includes(':') === address.includes(':'))
      expect(
        stdout
          .trim()
          .split('\n')
          .filter((each) => each !== '' && family(each)),
        `from ${pod.id}: ${this.#story()}`,
      ).toEqual([])
    }
  }

  #story(): string {
    return this.#told.join('\n')
  }
}

function twice(texts: readonly string[]): readonly string[] {
  return texts.filter((text, at) => texts.indexOf(text) !== at)
}
