// SPDX-License-Identifier: Apache-2.0
// Whether packets of full length reach a peer from a new pod, and if not, how long they may be: an encapsulation on the
// way that nobody counted cuts connections only when they begin to carry much.

import { familyOf } from '../../cni/addresses.ts'
import { readDocuments } from '../../kernel/look.ts'
import type { Pod, Step, Trial } from './pods.ts'
import { runIn } from './reach.ts'

/** Headers of IP and ICMP, which ping's size does not count (ping(8)). */
const headerBytes = { 4: 28, 6: 48 } as const

/** Pings with the don't-fragment bit, the longest that passes found by halving. */
export async function fullSizeStep(trial: Trial, from: Pod, peer: string): Promise<Step> {
  const { netns, ifName } = from.attachment
  const { stdout } = await runIn(trial, netns, ['ip', '-j', 'link', 'show', 'dev', ifName])
  const mtu = Number(readDocuments(stdout)[0]?.['mtu'])
  const what = `${from.label} to ${peer}, packets of ${mtu} bytes`
  const header = headerBytes[familyOf(peer)]
  // The first may wait for a neighbour.
  const passes = async (bytes: number, seconds = 1) => {
    const words = ['ping', '-n', '-q', '-M', 'do', '-c', '1', '-w', `${seconds}`, '-s', `${bytes - header}`, peer]
    return (await runIn(trial, netns, words)).code === 0
  }
  const step = { what, target: 'peer' } as const
  let least = header + 56
  if (!(await passes(least, 4))) return { ...step, outcome: 'failed', detail: 'no answer, whatever the length' }
  if (await passes(mtu, 2)) return { ...step, outcome: 'ok', detail: `packets of ${mtu} bytes pass` }
  for (let most = mtu; most - least > 1; ) {
    const middle = Math.floor((least + most) / 2)
    if (await passes(middle)) least = middle
    else most = middle
  }
  return { ...step, outcome: 'failed', detail: `the longest that pass have ${least} bytes` }
}
