// SPDX-License-Identifier: Apache-2.0
// The pod's own namespace: one process as a rule. Two things found there are no failure: a default
// route that someone else made, and IPv6 switched off where we are to add an address.

import { familyOf } from '../../cni/model/address.ts'
import type { Route } from '../../cni/model/route.ts'
import { CommandError } from '../../compile/command-error.ts'
import { podNetns } from '../../compile/ip.ts'
import { readDocuments, readRoutes } from '../../compile/read-ip.ts'
import type { AttachmentSpec } from '../../plan/model/attachment.ts'
import type { Op } from '../../plan/model/op.ts'
import { mainTable } from '../../plan/model/rtnetlink.ts'
import { podOps, podSysctlOps } from '../../plan/modes/attach.ts'
import { execute } from '../../system/kernel/execute.ts'
import type { CallContext } from '../call/context.ts'
import { dadSysctlOps, waitForDad } from './duplicate-addresses.ts'

type RouteOp = Extract<Op, { kind: 'route.add' }>

/** What to configure. `beside`: called when one of the tools is at work on its input, and awaited with it. */
interface PodSide {
  readonly netnsFd: number
  readonly spec: AttachmentSpec
  readonly beside: (tool: 'ip' | 'sysctl') => Promise<void>
}

/** Makes the pod's side of an attachment. Returns the default routes that are ours afterwards. */
export async function configurePod(
  context: CallContext,
  { netnsFd, spec, beside }: PodSide,
): Promise<readonly Route[]> {
  const place = { run: context.run, netnsFd }
  const detectsDuplicates = spec.dad && spec.ips.some(({ address }) => familyOf(address) === 6)
  if (detectsDuplicates) await execute(place, dadSysctlOps(spec.key.ifName))
  const [ours] = await Promise.all([configureLinks(context, netnsFd, podOps(spec)), beside('ip')])
  await Promise.all([execute(place, podSysctlOps(spec)), beside('sysctl')])
  if (detectsDuplicates) await waitForDad(context, netnsFd, spec.key.ifName)
  return ours
}

async function configureLinks(context: CallContext, netnsFd: number, ops: readonly Op[]): Promise<readonly Route[]> {
  const place = { run: context.run, netnsFd }
  const shown: string[] = []
  const refused = new Set<Op>()
  let rest = ops
  let hasEnabled = false
  while (rest.length > 0) {
    try {
      shown.push(...(await execute(place, rest)).map((each) => each.stdout))
      break
    } catch (error) {
      if (!(error instanceof CommandError) || error.op === undefined) throw error
      shown.push(error.stdout)
      const at = rest.indexOf(error.op)
      if (isDefaultTaken(error)) {
        for (const op of rest.slice(at)) if (isSameDefault(op, error.op)) refused.add(op)
        rest = rest.slice(at + 1).filter((op) => !refused.has(op))
      } else if (isIpv6Off(error) && !hasEnabled) {
        hasEnabled = true
        await enableIpv6(context, netnsFd, error.op)
        rest = rest.slice(at)
      } else throw error
    }
  }
  const ours = ops.filter((op): op is RouteOp => op.kind === 'route.add' && op.onlyIfNone && !refused.has(op))
  return await withoutSecondDefault(context, { netnsFd, ours, before: shown.join('\n') })
}

/** A default route of another metric does not stop ours; it was there first, so ours goes again. */
async function withoutSecondDefault(
  context: CallContext,
  found: { netnsFd: number; ours: readonly RouteOp[]; before: string },
): Promise<readonly Route[]> {
  const there = (readRoutes(readDocuments(found.before)).get(mainTable) ?? []).map((route) => route.dst)
  const second = found.ours.filter((op) => there.includes(op.route.dst))
  if (second.length > 0) {
    const ops = second.map(
      (op): Op => ({
        in: 'pod',
        kind: 'route.del',
        dev: op.dev,
        route: op.route,
        why: `leave the pod's own default route alone`,
      }),
    )
    await execute({ run: context.run, netnsFd: found.netnsFd }, ops)
  }
  return found.ours.filter((op) => !second.includes(op)).map((op) => op.route)
}

function isDefaultTaken(error: CommandError): boolean {
  return error.op?.kind === 'route.add' && error.op.onlyIfNone && error.reason === 'exists'
}

/** The refused default route, and those of ours beside it. */
function isSameDefault(op: Op, taken: Op): boolean {
  return op.kind === 'route.add' && taken.kind === 'route.add' && op.onlyIfNone && op.route.dst === taken.route.dst
}

/** EACCES from an IPv6 address means disable_ipv6 (net/ipv6/addrconf.c, addrconf_add_dev). */
function isIpv6Off(error: CommandError): boolean {
  return error.op?.kind === 'addr.replace' && familyOf(error.op.cidr) === 6 && error.reason === 'denied'
}

async function enableIpv6(context: CallContext, netnsFd: number, op: Op): Promise<void> {
  const links = ['lo', 'dev' in op ? op.dev : 'lo']
  const settings = links.map((link) => `net/ipv6/conf/${link}/disable_ipv6=0`)
  await context.run({ file: 'nsenter', args: [`--net=${podNetns}`, '--', 'sysctl', '-qw', ...settings], netnsFd })
}
