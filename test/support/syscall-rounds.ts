// SPDX-License-Identifier: Apache-2.0
// Rounds of a call that is ended, or refused something, at one of its own system calls.

import { differences, noErrorObject, onStage, removed, retried, richConf } from './fault-rounds.ts'
import type { Verb } from './host.ts'
import { type Injection, tracedCni } from './strace.ts'

/** What a round saw: `hit` false when the call has fewer such system calls. */
export interface SyscallRound {
  readonly hit: boolean
  readonly wrong: readonly string[]
}

/** The calls that change what is on disk; everything else of ours only reads. */
export const changingCalls = 'link,linkat,rename,renameat,renameat2,unlink,unlinkat'

/** ADD (first or steady), DEL or GC meets the injection at `when`; then what a runtime does next. */
export function syscallRound(verb: 'first ADD' | 'steady ADD' | 'DEL' | 'GC', at: Injection): SyscallRound {
  return onStage(verb === 'first ADD' ? 'first' : 'steady', (stage) => {
    const pod = { id: 'a', netns: stage.pods['a'] ?? '' }
    const isAdd = verb.endsWith('ADD')
    if (!isAdd) stage.host.cni('ADD', richConf, pod)
    const listed = [{ containerID: 'z', ifname: 'eth0' }]
    const conf = verb === 'GC' ? { ...richConf, 'cni.dev/valid-attachments': listed } : richConf
    const traced = tracedCni(stage.host, { verb: isAdd ? 'ADD' : (verb as Verb), conf, ...pod }, at)
    const failed =
      isAdd && traced.code > 0 ? [...differences(stage, 'after the failed ADD'), ...noErrorObject(traced)] : []
    const refused =
      verb === 'DEL' && traced.code > 0 && codeOf(traced.json) !== 11 ? [`DEL ended with ${traced.stdout}`] : []
    const wrong = [...failed, ...refused, ...retried(stage), ...removed(stage, ['a', 'b'])]
    return { hit: traced.hit, wrong: wrong.map((each) => `${verb}, ${at.calls} ${at.what} at ${at.when}: ${each}`) }
  })
}

/** Every round of an injection, until the call has no such system call any more. */
export function allRounds(verb: Parameters<typeof syscallRound>[0], of: Omit<Injection, 'when'>): readonly string[] {
  const wrong: string[] = []
  for (let when = 1; ; when++) {
    const round = syscallRound(verb, { ...of, when })
    wrong.push(...round.wrong)
    if (!round.hit) return when === 1 ? [`${verb} has no system call of ${of.calls}`] : wrong
    if (when > 200) return [...wrong, 'more than 200 such calls']
  }
}

function codeOf(json: unknown): unknown {
  return (json as { code?: unknown } | undefined)?.code
}
