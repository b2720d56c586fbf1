// SPDX-License-Identifier: Apache-2.0
// The executable with 3,000 inputs of changed bytes: one JSON document or nothing, a known code and never 999, no
// crash, and the node as it was: after an ADD that succeeds comes its DEL. FUZZ_SEED repeats a run, FUZZ_INPUTS changes
// its length. What is found goes into test/corpus, which is replayed first.

import { execa } from 'execa'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { knownOf, withoutShared } from '../../support/allowance.ts'
import { foreseenCodes } from '../../support/cni-codes.ts'
import { randomFrom } from '../../support/damage/damage.ts'
import { corpusText, type RawCall, readCorpus } from '../../support/fuzz/corpus.ts'
import { mutatedBytes, rawSeeds } from '../../support/fuzz/mutated-bytes.ts'
import { type Host, openHost, snapshot, trestle } from '../../support/host.ts'
import { stateEnv } from '../../support/state-layout.ts'

const seed = Number(process.env['FUZZ_SEED'] ?? Date.now() % 1_000_000)
const inputs = Number(process.env['FUZZ_INPUTS'] ?? 3000)
const lanes = 2
const roundLength = 25
const longestMs = 30_000
const known: readonly unknown[] = foreseenCodes

let hosts: readonly Host[]
beforeEach(() => {
  hosts = Array.from({ length: lanes }, openHost)
})
afterEach(() => {
  for (const host of hosts) host.close()
})

/** A node of its own with a pod, and what it looked like. */
function openLane(host: Host) {
  const netns = host.pod('a')
  return { host, netns, before: looked(host, netns), calls: [] as RawCall[], codes: [] as unknown[] }
}

type Lane = ReturnType<typeof openLane>

it(`answers the corpus and ${inputs} inputs of changed bytes (FUZZ_SEED=${seed})`, async () => {
  const corpus = readCorpus()
  const seeds = rawSeeds(corpus)
  const opened = hosts.map(openLane)
  await Promise.all(
    opened.map(async (lane, index) => {
      const random = randomFrom(seed + index)
      const own = corpus.filter((_, at) => at % lanes === index)
      for (let at = 0; at < own.length + inputs / lanes; at++) await play(lane, own[at] ?? mutatedBytes(seeds, random))
      clean(lane)
    }),
  )
  const codes = opened.flatMap((lane) => lane.codes)
  const counts = [...new Set(codes)].sort().map((code) => [code, codes.filter((each) => each === code).length])
  console.log(`seed ${seed}:`, Object.fromEntries(counts))
  expect(codes).toEqual(expect.arrayContaining([0, 4, 6, 7]))
}, 1_400_000)

async function play(lane: Lane, given: RawCall): Promise<void> {
  const call = isPod(given) ? { ...given, env: { ...given.env, CNI_NETNS: lane.netns } } : given
  lane.calls.push(call)
  const { problem, code } = await run(lane, call)
  if (problem !== undefined) throw new Error(`${problem}\n${call.name}, base64 for test/corpus:\n${corpusText(given)}`)
  lane.codes.push(code)
  if (code === 0 && call.env['CNI_COMMAND'] === 'ADD') {
    const del = await run(lane, { ...call, env: { ...call.env, CNI_COMMAND: 'DEL' } })
    if (del.code !== 0) throw new Error(`DEL after ADD: ${del.problem ?? del.code}\n${corpusText(given)}`)
  }
  if (lane.calls.length >= roundLength) clean(lane)
}

/** A seed's own namespace stands for the pod. */
function isPod({ env }: RawCall): boolean {
  return /^\/run\/netns\/(?!none|\.\.)/.test(env['CNI_NETNS'] ?? '')
}

async function run({ host }: Lane, { env, stdin }: RawCall): Promise<{ code: unknown; problem?: string }> {
  const { exitCode, stdout, stderr, signal, timedOut } = await execa('nsenter', [`--net=${host.path}`, '--', trestle], {
    env: { PATH: process.env['PATH'], CNI_COMMAND: '', ...env, ...stateEnv(host) },
    input: stdin,
    extendEnv: false,
    reject: false,
    stripFinalNewline: false,
    timeout: longestMs,
  })
  const bad = (what: string) => ({ code: undefined, problem: `${what}\nstdout: ${stdout}\nstderr: ${stderr}` })
  if (timedOut || signal !== undefined) return bad(timedOut ? 'no end' : `ended by ${signal}`)
  const verb = env['CNI_COMMAND'] ?? ''
  const isDocument = /^\{.*\}\n$/.test(stdout)
  if (exitCode === 0) {
    const expected = verb === 'ADD' || verb === 'VERSION' ? isDocument : stdout === ''
    return expected ? { code: 0 } : bad('not what a success prints')
  }
  if (exitCode !== 1 || !isDocument) return bad(`exit code ${exitCode}`)
  const { code, msg, cniVersion } = JSON.parse(stdout)
  const isError = known.includes(code) && typeof msg === 'string' && typeof cniVersion === 'string'
  return isError ? { code } : bad(`code ${code}`)
}

/** What calls left, once the bridges are gone: they and the rules of networks may stay, under whatever name. */
function looked(host: Host, netns: string) {
  for (const { ifname } of JSON.parse(host.run('ip', ['-j', 'link', 'show', 'type', 'bridge']).stdout || '[]'))
    if (typeof ifname === 'string') host.run('ip', ['link', 'del', 'dev', ifname])
  const { links, state } = withoutShared(snapshot(host), knownOf(host))
  const elements = [
    ...host.run('nft', ['list', 'ruleset']).stdout.matchAll(/(?:set|map) (\w+) \{[^}]*?elements = \{[^}]*\}/g),
  ]
  const ofPods = elements.filter(
    ([, name]) =>
      !/^(masq|keep|hairpin|acceptnet|acceptnew)[46]$|^(hairpinlink|acceptlinks|loopback|fenced|fencedpair)$/.test(
        name ?? '',
      ),
  )
  return {
    links,
    state,
    elements: ofPods.map(([text]) => text),
    pod: host.inPod(netns, 'ip', ['-o', 'link']).stdout.replace(/ state .*/gm, ''),
  }
}

function clean(lane: Lane): void {
  const { host, netns, before, calls } = lane
  const found = looked(host, netns)
  // lo is up or down as `mode: loopback` left it.
  const flags = (text: string) => text.replace(/<[^>]*>/g, '')
  const same = { ...found, pod: flags(found.pod) }
  expect(same, calls.map(corpusText).join('\n')).toEqual({ ...before, pod: flags(before.pod) })
  host.run('nft', ['flush', 'ruleset'])
  host.run('find', [host.stateDir, '-mindepth', '1', '-delete'])
  calls.length = 0
}
