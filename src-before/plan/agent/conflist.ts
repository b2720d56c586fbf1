// SPDX-License-Identifier: Apache-2.0
// The configuration that the agent writes. It depends on the own node and the operator's template alone: a node that
// joins or leaves changes nothing in it.

import { isPluginType } from '../../cni/config-head.ts'
import { ownType } from '../../cni/invocation.ts'
import { asObject, isObject, parseObject, withKnownKeys } from '../../cni/json.ts'
import { usualMode } from '../../config/bridge.ts'
import { configKeys } from '../../config/schema.ts'
import type { Mode } from '../../model/attachment.ts'

/** `podCidrs`: one range or one of each family, in the order that results are to have. */
interface ConflistFacts {
  readonly name: string
  readonly mode: Mode
  readonly cniVersion: string
  readonly podCidrs: readonly string[]
  /** Absent: the plugin's own choice. */
  readonly bridge?: string | undefined
  readonly template?: Template | undefined
}

/** The configuration: what the template does not say has the agent's own defaults. */
export function conflist({ template = emptyTemplate, ...facts }: ConflistFacts): Readonly<Record<string, unknown>> {
  const { name, mode, cniVersion, podCidrs, bridge } = facts
  const { firewall, capabilities, ...own } = template.own
  const [first] = podCidrs
  const plugin = {
    type: ownType,
    ...(mode === usualMode(false) ? {} : { mode }),
    ...(bridge === undefined ? {} : { bridge }),
    podcidr: podCidrs.length === 1 ? first : podCidrs,
    ...own,
    firewall: { hostAccept: 'auto', ...asObject(firewall) },
    capabilities: { portMappings: true, bandwidth: true, ...asObject(capabilities) },
  }
  return { cniVersion, ...template.list, name, plugins: [plugin, ...template.others] }
}

export function conflistText(facts: ConflistFacts): string {
  return textOf(conflist(facts))
}

function textOf(list: Fields): string {
  return `${JSON.stringify(list, undefined, 2)}\n`
}

/** The ranges of a configuration in a file; none of what others have made of it. */
export function rangesIn(text: string): readonly string[] {
  const { podcidr } = asObject(pluginsIn(parseObject(text))[0])
  return [podcidr].flat().filter((each) => typeof each === 'string')
}

/** The configuration without ranges, of which ADD and STATUS are refused, and DEL is not. */
export function withoutRanges(text: string): string {
  const list = parseObject(text)
  const [first, ...others] = pluginsIn(list)
  return textOf({ ...list, plugins: [{ ...asObject(first), podcidr: [] }, ...others] })
}

function pluginsIn(list: Fields | undefined): readonly unknown[] {
  return Array.isArray(list?.['plugins']) ? list['plugins'] : []
}

// What an operator may say of the configuration that the agent writes: a list of plugins without what the Node says.

type Fields = Readonly<Record<string, unknown>>

/** `own`: keys of trestle; `others`: plugins after it; `list`: keys beside the plugins. */
export interface Template {
  readonly list: Fields
  readonly own: Fields
  readonly others: readonly unknown[]
}

export const emptyTemplate: Template = { list: {}, own: {}, others: [] }

/** A key that the template may not have, and what to do; `steps`: where it is. */
interface Decided {
  readonly steps: readonly (string | number)[]
  readonly message: string
  readonly cure: string
}

const ofNode = "leave it out: ranges and routes come from the Node's podCIDRs"

/** Keys of trestle that are decided elsewhere, in lower case. */
const decidedElsewhere: Readonly<Record<string, string>> = {
  podcidr: ofNode,
  ipam: ofNode,
  bridge: 'leave it out: the agent names the bridge',
  mode: 'use the option --mode of the agent',
}

/** The template that a JSON object is; its keys in their own spelling. */
export function templateOf(root: Fields): Template {
  const { plugins: _plugins, ...list } = root
  const [own, ...others] = pluginsIn(root)
  const { type: _, ...keys } = asObject(withKnownKeys(own, configKeys))
  return { list, own: keys, others }
}

/** What the template says and has no say in. `name`: of the network, which state is kept under. */
export function decidedKeys(root: Fields, name: string): readonly Decided[] {
  const plugins = pluginsIn(root)
  const first = asObject(plugins[0])
  const keys = Object.keys(first).flatMap((key): readonly Decided[] => {
    const cure = decidedElsewhere[key.toLowerCase()]
    return cure === undefined ? [] : [{ steps: ['plugins', 0, key], message: `${key} is not the template's`, cure }]
  })
  const isOwn = !isObject(plugins[0]) || first['type'] === ownType
  const ofType = { steps: ['plugins', 0, 'type'], message: 'the first plugin is another one', cure: `use "${ownType}"` }
  const isNamed = root['name'] === undefined || root['name'] === name
  const ofName = { steps: ['name'], message: `the network is named "${name}"`, cure: 'leave the name out' }
  return [...(isNamed ? [] : [ofName]), ...(isOwn ? [] : [ofType]), ...keys]
}

/** The plugins that follow trestle; none whose name would lead out of a directory of plugins. */
export function otherTypes({ others }: Template): readonly string[] {
  const types = others.flatMap((plugin) => asObject(plugin)['type'] ?? [])
  return types.filter((type) => typeof type === 'string').filter(isPluginType)
}

/** The MTU that the template gives to pods; undefined where they get the uplink's. */
export function templateMtu({ own: { mtu } }: Template): number | undefined {
  return typeof mtu === 'number' && mtu !== 0 ? mtu : undefined
}

/** The template for ranges that live pods on another bridge have: `allowOverlap` is about other programs' subnets. */
export function withoutOverlap(template: Template): Template {
  const { allowOverlap: _, ...own } = template.own
  return { ...template, own }
}

export function allowsOverlap({ own: { allowOverlap } }: Template): boolean {
  return allowOverlap === true
}
