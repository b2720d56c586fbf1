// SPDX-License-Identifier: Apache-2.0
// What other firewalls of this node do to the networks of the files: their drops that come before trestle's accept, and
// firewalld's zone. Looked at by root only; nothing is changed, and where nothing can be seen nothing is said.

import { lookUp } from '../../../cni/json/json-keys.ts'
import { isObject } from '../../../cni/json/json-object.ts'
import { openContext } from '../../../commands/call/context.ts'
import { defaultMarkBit } from '../../../plan/rules/accept-mark.ts'
import { trustedZone } from '../../../plan/rules/host-accept.ts'
import { isFirewalldRunning } from '../../../system/firewalls/host-accept.ts'
import { earlierDrops } from '../../../system/firewalls/mark-accept.ts'
import { type Finding, findingIn } from '../checks/finding.ts'
import type { FileLint } from '../rules/file.ts'

type Fields = Readonly<Record<string, unknown>>

/** A firewall key that asks for an accept. */
interface Accepting {
  readonly file: string
  readonly firewall: Fields
}

/** The findings of the node; none where no file asks for an accept. `isOwn`: of a plugin's `type`. */
export async function nodeFindings(
  lints: readonly FileLint[],
  isOwn: (type: string) => boolean,
): Promise<readonly Finding[]> {
  const accepting = lints.flatMap((lint) => acceptingIn(lint, isOwn))
  const [first] = accepting
  if (first === undefined || process.geteuid?.() !== 0) return []
  const { run } = openContext(new AbortController().signal)
  try {
    const isRunning = await isFirewalldRunning(run)
    const ofZone = accepting.filter(({ firewall }) => isRunning && (lookUp(firewall, 'firewalldZone') ?? '') === '')
    const bits = accepting.map(({ firewall }) => lookUp(firewall, 'acceptMarkBit'))
    const bit = Math.min(...bits.filter((each) => typeof each === 'number'))
    const drops = await earlierDrops(run, 2 ** (Number.isFinite(bit) ? bit : defaultMarkBit))
    return [
      ...ofZone.map(({ file }) => {
        const message = `firewalld runs: pods go into its zone ${trustedZone}, and reach every port of the node`
        return findingIn(file, { id: 'zone-opens-node', message })
      }),
      ...drops.map((drop) =>
        findingIn(first.file, { id: 'drop-before-accept', message: `drops before trestle's accept: ${drop}` }),
      ),
    ]
  } catch {
    return []
  }
}

function acceptingIn({ file, list }: FileLint, isOwn: (type: string) => boolean): readonly Accepting[] {
  return (list?.plugins ?? []).flatMap(({ conf }) => {
    const firewall = lookUp(conf, 'firewall')
    const isOn = isObject(firewall) && lookUp(firewall, 'hostAccept') !== 'off'
    return isOn && isOwn(String(lookUp(conf, 'type'))) ? [{ file, firewall }] : []
  })
}
