// SPDX-License-Identifier: Apache-2.0
// One thing broken by hand: what CHECK must say of it and of nothing else, and how it is mended.

import { expect, it } from 'vitest'
import { type Answer, type Host, openHost, trestle } from '../host.ts'
import { expectError, expectSilent } from '../outcome.ts'
import { stateWord } from '../state-layout.ts'
import { attach, later, type Pod } from '../traffic/pods.ts'

/**
 * `lines`: command lines on the host, or in the pod after the word `pod`; VETH, IFB and STATE stand for
 * the pod's links and the network's state. `said`: what CHECK says, one line each, in any order.
 * `mend`: command lines, or `restore` for `trestle restore`.
 */
export interface Breakage {
  readonly what: string
  readonly lines: readonly string[]
  readonly said: readonly RegExp[]
  readonly mend: 'restore' | readonly string[]
}

/** A pod with its host and the configuration it was made with. */
export interface Subject {
  readonly host: Host
  readonly conf: object
  readonly pod: Pod
}

/** An element of one of our sets that is taken out and comes back with `trestle restore`. `key`: where it is a map's. */
export function lostElement(set: string, element: string, key = element): Breakage {
  const table = set.startsWith('guarded') ? 'bridge' : 'inet'
  const fields = element
    .replaceAll('"', '')
    .replaceAll(' . ', ' ')
    .replace(/ : (goto )?/, ' -> ')
  const said = `element ${fields} is missing from nft set ${set}`
  return {
    what: `the element ${element} of ${set} is gone`,
    lines: [`nft delete element ${table} trestle ${set} { ${key} }`],
    said: [new RegExp(`^${escaped(said).replaceAll('VETH', 'veth\\w+')}$`)],
    mend: 'restore',
  }
}

/** A test for each breakage of a pod with this configuration, on a node of its own. */
export function eachBreakage(conf: object, breakages: readonly Breakage[]): void {
  it.each(breakages.map((breakage) => [breakage.what, breakage] as const))('%s', (_, breakage) => {
    const host = openHost()
    try {
      expectNamedAlone({ host, conf, pod: attach(host, conf) }, breakage)
    } finally {
      host.close()
    }
  })
}

/** Fails unless CHECK is silent, names the breakage alone, and is silent again when it is mended. */
function expectNamedAlone(subject: Subject, { lines, said, mend }: Breakage): void {
  expectSilent(later(subject.host, 'CHECK', subject))
  for (const line of lines) run(subject, line)
  const found = differencesOf(subject)
  const lacking = said.filter((pattern) => !found.some((line) => pattern.test(line)))
  expect(lacking, found.join('\n')).toEqual([])
  expect(found.filter((line) => !said.some((pattern) => pattern.test(line)))).toEqual([])
  expect(found).toHaveLength(said.length)
  if (mend === 'restore') restore(subject.host)
  else for (const line of mend) run(subject, line)
  expectSilent(later(subject.host, 'CHECK', subject))
}

/** Runs `trestle restore` on the host; fails unless it ends well. */
export function restore(host: Host): void {
  const done = host.run('env', [stateWord(host), trestle, 'restore'])
  expect(done.code, `restore: ${done.stdout}${done.stderr}`).toBe(0)
}

function differencesOf({ host, conf, pod }: Subject): readonly string[] {
  const answer = later(host, 'CHECK', { conf, pod })
  expectError(answer, 107)
  return (answer.json as Answer).details.split('\n')
}

function run({ host, pod }: Subject, line: string): void {
  const links = host.run('ip', ['-o', 'link', 'show', 'type', 'ifb']).stdout
  const text = line
    .replaceAll('VETH', pod.hostLink)
    .replaceAll('IFB', /^\d+: (\S+):/.exec(links)?.[1] ?? 'IFB')
    .replaceAll('STATE', host.stateDir)
  const [first = '', ...rest] = text.split(' ')
  const done = first === 'pod' ? host.inPod(pod.netns, rest[0] ?? '', rest.slice(1)) : host.run(first, rest)
  expect(done.code, `${text}: ${done.stderr}`).toBe(0)
}

function escaped(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\/]/g, '\\$&')
}
