// SPDX-License-Identifier: Apache-2.0
// Takes one attachment down: DEL, the undo of a failed ADD, GC, and the rests of a killed call. A failure in the kernel
// does not stop it: it is written into the record, and the attachment's addresses and ports stay reserved.

import type { AttachmentSpec, HostPort } from '../../model/attachment.ts'
import type { Element, Op } from '../../model/op.ts'
import { errorsIn, opsOf } from '../../plan/order/stage.ts'
import {
  chainsPlan,
  hasRules,
  linksIn,
  type Present,
  type Removal,
  rulesLeft,
  type TornDown,
  teardownPlan,
} from '../../plan/order/teardown.ts'
import type { RunPort } from '../call/beside.ts'

/** The effects of a teardown. State that cannot be written throws, and ends the teardown. */
export interface TeardownPort extends RunPort {
  readonly markLeaving: () => void
  readonly waitForRebuilds: () => Promise<void>
  /** Looks where the link of the host is. Throws CniError 109 for one that is to come home, and has not yet. */
  readonly lookForDevice: (moved: AttachmentSpec) => Promise<readonly Op[]>
  readonly lookAtPresent: (links: readonly string[], chains: readonly string[]) => Present
  /** The elements of an attachment without a record. */
  readonly lookAtElements: () => Promise<readonly Element[]>
  /** Removes everything that the upstream plugins keep of a pod that was taken over. Returns the failures. */
  readonly removeUpstream: (upstream: NonNullable<Removal['upstream']>) => Promise<readonly Error[]>
  readonly withdraw: () => void
  /** Frees these ports; undefined: every port whose reservation names the attachment. The same of addresses. */
  readonly freePorts: (ports: readonly HostPort[] | undefined) => Promise<void>
  readonly freeAddresses: (addresses: readonly string[] | undefined, cooldownS: number) => Promise<void>
  readonly forget: () => void
  readonly writePending: (texts: readonly string[]) => void
}

/**
 * Removes an attachment. `hasPod`: its sandbox is there, and has something of it. Throws where state cannot be written,
 * or a call that rebuilds rules keeps it waiting too long.
 */
export async function removeAttachment(port: TeardownPort, removal: Removal, hasPod: boolean): Promise<TornDown> {
  const { key, host, moved, chains, reserved, upstream, hasRecord } = removal
  // Calls that rebuild the rules of all pods read the records under the machine's lock. From the mark on they leave
  // this attachment out; a call that read before is waited for, so that no removed element is written once more.
  if (!removal.isLeftOut) port.markLeaving()
  if (hasRules(removal)) await port.waitForRebuilds()
  const present = port.lookAtPresent(linksIn(host), chains)
  const failures: Error[] = []
  const isInTables = reserved === undefined && key.role !== 'ipam'
  const elements = isInTables
    ? await port.lookAtElements().catch((error: Error) => failed(failures, rulesLeft(key, error)))
    : []
  const home =
    moved === undefined ? [] : await port.lookForDevice(moved).catch((error: Error) => failed(failures, error))
  const shared = chains.filter((chain) => !present.unused.includes(chain))
  const isWhole = shared.length === 0 && failures.length === 0
  const run = await port.run(teardownPlan({ removal, hasPod, home, present, elements, isWhole }))
  failures.push(...errorsIn(run))
  if (shared.length > 0) {
    // When two pods leave at once, the last of them must see no other user of a chain: look again.
    const isGone = (chain: string) => opsOf(run.plan).some((op) => op.kind === 'nft.chain.del' && op.chain === chain)
    const unused = port.lookAtPresent([], chains).unused.filter((chain) => !isGone(chain))
    failures.push(...errorsIn(await port.run(chainsPlan(removal, unused, failures.length === 0))))
  }
  const refused = run.outcomes.flatMap((outcome) => outcome.refused ?? [])
  if (failures.length === 0 && upstream) failures.push(...(await port.removeUpstream(upstream)))
  if (failures.length > 0) {
    if (hasRecord) port.writePending(failures.map(({ message }) => message))
    return { failures, refused }
  }
  // From here on others may take its addresses and ports: a record that is left must not claim them.
  const { ports, addresses, cooldownS = 0 } = reserved ?? {}
  if (hasRecord) port.withdraw()
  if (ports?.length !== 0) await port.freePorts(ports)
  if (addresses?.length !== 0) await port.freeAddresses(addresses, cooldownS)
  if (hasRecord) port.forget()
  return { failures, refused }
}

/** Keeps the failure of a look, which saw nothing then. */
function failed(failures: Error[], error: Error): readonly never[] {
  failures.push(error)
  return []
}
