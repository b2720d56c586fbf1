// SPDX-License-Identifier: Apache-2.0
// Runs the operations of a spec. If they fail on a shared part, or show that one is missing, the network is set up from
// its configuration and all live records, and they are run once more.

import { setTimeout as sleep } from 'node:timers/promises'
import { bareAddress, familyOf } from '../cni/addresses.ts'
import { CniError, Code } from '../cni/errors.ts'
import { asObject } from '../cni/json.ts'
import { linkGroup, opsOf, ownElements, ownLinks, undoOf } from '../drivers/attachment.ts'
import { keepNetworkOps, mostBridgePorts } from '../drivers/bridge.ts'
import { driverOfSpec } from '../drivers/drivers.ts'
import { hasIpv6 } from '../drivers/interface.ts'
import type { NetworkSpec, Spec } from '../drivers/spec.ts'
import { hasNetworkRules } from '../features/network-elements.ts'
import { hasRules, readShownTable } from '../kernel/elements.ts'
import { readDocuments, readLinks, readRoutes } from '../kernel/look.ts'
import type { OpenNetns } from '../kernel/netns.ts'
import { type TableFamily, tableName, tableOf } from '../kernel/nft-table.ts'
import type { ObservedLink } from '../kernel/observed.ts'
import { elementOps, type Op, setSysctl } from '../kernel/operation.ts'
import { linkAddresses6, nodeAddresses } from '../kernel/proc.ts'
import type { Machine, Outcome } from '../process/machine.ts'
import { stepsToAdd, stepsToRemove } from '../process/order.ts'
import type { Context } from './context.ts'
import { isSetUp, networkElementsNow, setUpNetwork } from './set-up.ts'

/**
 * Makes the attachment. Returns its spec as it is there: without default routes that the pod had already, and with the
 * bridge of another program as it is. `before`: what was made without a lease, for a delegated plugin: it is not made
 * again, unless a shared part fails. Throws what the kernel or a tool has refused.
 */
export async function attach(spec: Spec, netns: OpenNetns, context: Context, before?: Spec): Promise<Spec> {
  const { network } = spec
  const ops = opsOf(spec).filter(isNewTo(before))
  if (network === undefined) return await finishAttach(spec, await runOps(spec, ops, netns, context), netns, context)
  if (!isSetUp(network)) {
    const now = await withNetworkSetUp(spec, network, context)
    const left = opsOf(now).filter(isNewTo(before))
    return await finishAttach(now, await runOps(now, left, netns, context), netns, context)
  }
  const all = [...ops, ...elementOps(networkElementsNow(network)), ...proofOps(spec, network)]
  const outcome = await runOps(spec, all, netns, context)
  if (outcome.failed === undefined) {
    const isProven = provesSharedParts(outcome, spec, network, context.machine)
    // Where it is not, this pod is complete, and the set-up repairs what it shares: its record is among the live ones.
    const now = isProven ? spec : await withNetworkSetUp(spec, network, context)
    return await finishAttach(now, outcome, netns, context)
  }
  if (!isAboutSharedPart(outcome, network)) throw refusal(spec, outcome)
  await undoAttempt(spec, netns, context)
  const now = await withNetworkSetUp(spec, network, context)
  return await finishAttach(now, await runOps(now, opsOf(now), netns, context), netns, context)
}

async function withNetworkSetUp(spec: Spec, network: NetworkSpec, context: Context): Promise<Spec> {
  return { ...spec, network: await setUpNetwork(network, spec.id, context) }
}

/** Which operations a spec without a lease did not have. */
function isNewTo(before: Spec | undefined): (op: Op) => boolean {
  const done = new Set(before === undefined ? [] : opsOf(before).map((op) => JSON.stringify(op)))
  return (op) => !done.has(JSON.stringify(op))
}

function tablesOf(spec: Spec, network: NetworkSpec): readonly TableFamily[] {
  const families = new Set(ownElements(spec).map(({ set }) => tableOf(set)))
  if (hasNetworkRules(network)) families.add('inet')
  return [...families]
}

/**
 * The last lines of the same inputs: an ADD changes no bridge and no rule, it only looks, at no extra process.
 * A flushed table or a bridge that was made again fails nothing: this alone shows it.
 */
function proofOps(spec: Spec, network: NetworkSpec): readonly Op[] {
  const tables = tablesOf(spec, network).map((table): Op => {
    const why = `see that the rules of table ${table} ${tableName} are there`
    return { place: 'host', kind: 'table.show', table, why }
  })
  const { bridge } = network
  const links = [bridge?.name, bridge?.vlanGateway?.name].filter((name) => name !== undefined)
  return [...links.map((dev): Op => ({ place: 'host', kind: 'link.show', dev, why: `see ${dev}` })), ...tables]
}

function provesSharedParts({ printed }: Outcome, spec: Spec, network: NetworkSpec, machine: Machine): boolean {
  const shown = { links: readLinks(readDocuments(printed.get('links') ?? '')), addresses: gatewayAddresses(network) }
  const hasAccept = network.accept !== undefined
  return (
    keepNetworkOps(network).every((op) => isProven(op, shown, machine)) &&
    tablesOf(spec, network).every((table) =>
      hasRules(table, hasAccept, readShownTable(printed.get(table === 'inet' ? 'rules' : 'bridge rules') ?? '')),
    )
  )
}

interface Shown {
  readonly links: ReadonlyMap<string, ObservedLink>
  /** Without their lengths. */
  readonly addresses: ReadonlySet<string>
}

/** Whether what a network keeps is there: settings of the host, its bridge, and the gateway's addresses. */
function isProven(op: Op, { links, addresses }: Shown, machine: Machine): boolean {
  if (op.kind === 'sysctl.set') return (machine.readSysctl(op.key) ?? '0') === op.value
  const link = 'dev' in op ? links.get(op.dev) : undefined
  if (op.kind === 'link.set')
    return link?.up === true && (op.set.mac ?? link.mac) === link.mac && (!op.set.promisc || link.promisc)
  return op.kind !== 'address.add' || addresses.has(bareAddress(op.cidr))
}

/** The gateway's addresses that are there: IPv4 ones on any link of the node, since the kernel lists them without it. */
function gatewayAddresses({ bridge }: NetworkSpec): ReadonlySet<string> {
  if (bridge === undefined) return new Set()
  const isIpv6 = bridge.addresses.some((cidr) => familyOf(cidr) === 6)
  return new Set([...nodeAddresses(4), ...(isIpv6 ? linkAddresses6(bridge.vlanGateway?.name ?? bridge.name) : [])])
}

/** The bridge, or our tables. Where a tool does not say what it refused, it may be one of these. */
function isAboutSharedPart({ failed }: Outcome, { bridge }: NetworkSpec): boolean {
  if (failed === undefined) return false
  const { op, reason } = failed
  if (op === undefined) return reason === 'absent'
  // A host port that leads to another pod is that pod's: a set-up would only take it away.
  if (op.kind === 'element.add' && op.element.value !== undefined && reason === 'exists') return false
  if ('element' in op || 'table' in op) return true
  if ('dev' in op && (op.dev === bridge?.name || op.dev === bridge?.vlanGateway?.name)) return true
  return op.kind === 'veth.add' && reason === 'absent'
}

/** Runs the operations, once more where the pod has IPv6 switched off. */
async function runOps(spec: Spec, ops: readonly Op[], netns: OpenNetns, { machine }: Context): Promise<Outcome> {
  const outcome = await machine.run(stepsToAdd(ops), { netns })
  if (!isIpv6Off(outcome)) return outcome
  const enable = ['lo', spec.pod?.name ?? spec.id.ifName].map((name) => {
    return setSysctl('pod', `net/ipv6/conf/${name}/disable_ipv6`, '0', 'first', 'switch IPv6 on in the pod')
  })
  const again = await machine.run(stepsToAdd([...enable, ...outcome.undone]), { netns })
  const printed = new Map(outcome.printed)
  for (const [name, text] of again.printed) printed.set(name, `${printed.get(name) ?? ''}${text}`)
  return { ...again, printed, skipped: [...outcome.skipped, ...again.skipped] }
}

/** disable_ipv6 in the pod: runtimes may set it (net/ipv6/addrconf.c, addrconf_add_dev). */
function isIpv6Off({ failed }: Outcome): boolean {
  if (failed?.op?.kind !== 'address.add' || failed.op.place !== 'pod' || familyOf(failed.op.cidr) !== 6) return false
  return failed.reason === 'ipv6-off' || failed.reason === 'denied'
}

/** Takes back what a failed attempt made, before the network is set up: also what outlives the links. */
async function undoAttempt(spec: Spec, netns: OpenNetns, { machine }: Context): Promise<void> {
  const links = ownLinks(spec).filter(machine.linkExists)
  await machine.run(stepsToRemove(undoOf(spec, links, linkGroup())), { netns, goesOn: true })
}

/** What a failure means. */
function refusal(spec: Spec, { failed }: Outcome): CniError {
  if (failed === undefined) return new CniError(Code.internal, 'internal-error', 'internal error: nothing has failed')
  const { op, reason, error } = failed
  const own = op && driverOfSpec(spec)?.refusalOf?.(spec, { op, reason, error })
  if (own !== undefined) return own
  if (op?.kind === 'element.add' && op.element.value !== undefined && reason === 'exists') {
    const message = `host port ${op.element.key.toReversed().slice(0, 2).join('/')} is taken`
    const details = 'its reservation is lost, but another pod has it in the rules: nft list table inet trestle'
    return new CniError(Code.hostPortTaken, 'port-reserved', message, { details, cause: error })
  }
  if (reason === 'bridge-full') {
    const message = `bridge ${spec.port?.bridge} is full: it has ${mostBridgePorts} ports`
    const details = 'Linux allows no more on one bridge; use a second network with another "bridge"'
    return new CniError(Code.bridgeConflict, 'bridge-ports-full', message, { details, cause: error })
  }
  const isName = op?.kind === 'veth.add' || (op?.kind === 'link.set' && op.place === 'pod' && op.set.name !== undefined)
  if (reason === 'exists' && isName) {
    const message = `CNI_IFNAME ${spec.id.ifName}: an interface of that name is already in the pod`
    const details = 'use another name, or remove the interface that is there; every pod has one called lo'
    return new CniError(Code.invalidEnvironment, 'interface-name-taken', message, { details, cause: error })
  }
  return error
}

/** Default routes of the pod stay: ours are taken back, and the addresses are waited for. */
async function finishAttach(spec: Spec, outcome: Outcome, netns: OpenNetns, context: Context): Promise<Spec> {
  if (outcome.failed !== undefined) throw refusal(spec, outcome)
  const settled = await settleDefaultRoutes(spec, outcome, netns, context)
  if (spec.hasDad && hasIpv6(spec) && !spec.isLeftDown) await waitForAddresses(spec, netns, context)
  return settled
}

/** One with the same metric stopped ours; one with another metric was listed before ours was there. */
async function settleDefaultRoutes(
  spec: Spec,
  { printed, skipped }: Outcome,
  netns: OpenNetns,
  { machine }: Context,
): Promise<Spec> {
  if (spec.defaultRoutes.length === 0) return spec
  const refused = new Set(skipped.flatMap(({ op }) => (op.kind === 'route.add' ? [op.route] : [])))
  const listed = readRoutes(readDocuments(printed.get('pod') ?? ''))
  const owned = new Set([...refused, ...listed].map(({ dst }) => dst))
  const removals = spec.defaultRoutes
    .filter((route) => owned.has(route.dst) && !refused.has(route))
    .map((route): Op => {
      const about = { place: 'pod', dev: spec.pod?.name ?? spec.id.ifName, tolerate: 'absent' } as const
      return { ...about, kind: 'route.delete', route, why: "leave the pod's own default route" }
    })
  await machine.run(stepsToRemove(removals), { netns, goesOn: true })
  return owned.size === 0 ? spec : { ...spec, defaultRoutes: spec.defaultRoutes.filter(({ dst }) => !owned.has(dst)) }
}

/** As the reference: 5 s, looked at every 50 ms (pkg/ipam/ipam_linux.go). */
const detectionMs = 5000

async function waitForAddresses(spec: Spec, netns: OpenNetns, { machine }: Context): Promise<void> {
  const dev = spec.pod?.name ?? spec.id.ifName
  const args = ['--net=/proc/self/fd/3', '--', 'ip', '-6', '-j', 'addr', 'show', 'dev', dev]
  const untilMs = Date.now() + detectionMs
  for (;;) {
    const { stdout } = await machine.ask({ file: 'nsenter', args, netnsFd: netns.fd })
    const entries = readDocuments(stdout).flatMap(({ addr_info: list }) =>
      Array.isArray(list) ? list.map(asObject) : [],
    )
    const duplicate = entries.find((entry) => entry['dadfailed'] === true)
    if (duplicate !== undefined) {
      const message = `${bareAddress(String(duplicate['local']))} on ${dev} is in use by another machine`
      const details =
        'duplicate address detection (enabledad) found it; a duplicate link-local address means a duplicate MAC'
      throw new CniError(Code.commandFailed, 'duplicate-address', message, { details })
    }
    if (!entries.some((entry) => entry['tentative'] === true)) return
    if (Date.now() > untilMs) {
      const message = `addresses of ${dev} are still tentative after ${detectionMs} ms`
      const details = 'duplicate address detection (enabledad) has not ended'
      throw new CniError(Code.commandFailed, 'address-tentative', message, { details })
    }
    await sleep(50)
  }
}
