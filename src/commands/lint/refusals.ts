// SPDX-License-Identifier: Apache-2.0
// Values that are each right by themselves and that an upstream plugin refuses all the same (plugins 1.9.1): two keys
// that exclude or need each other, and texts that it reads further.

import { posix } from 'node:path'
import { macProblem, parseCidr } from '../../cni/addresses.ts'
import { withKnownKeys } from '../../cni/fields.ts'
import { isObject, lookUp } from '../../cni/json.ts'
import { type Found, keyPathOf, type Step, shown } from './finding.ts'
import type { PluginEntry } from './list.ts'
import { placesIn } from './semantics.ts'
import { upstreamShape } from './upstream.ts'

type Fields = Readonly<Record<string, unknown>>

/** `says`: the words of the plugin. */
interface Refusal {
  readonly steps: readonly Step[]
  readonly why: string
  readonly says: string
  readonly cure: string
}

/** Findings about values for which the plugin refuses each ADD. */
export function refusedValues({ conf, steps }: PluginEntry, type: string): readonly Found[] {
  const ipam = lookUp(conf, 'ipam')
  const ipamType = isObject(ipam) ? lookUp(ipam, 'type') : undefined
  // Go matches keys without case, and takes null as absent.
  const fields = withKnownKeys(conf, upstreamShape(type, ipamType)) as Fields
  const refusals = (byType[type] ?? []).flatMap((refusalsOf) => refusalsOf(fields))
  return refusals.map(({ steps: inside, why, says, cure }): Found => {
    const at = [...steps, ...inside]
    const message = `${keyPathOf(at)}: ${why}`
    return { id: 'invalid-value', message, cause: `${type} refuses each ADD: "${says}"`, cure, steps: at }
  })
}

const byType: Readonly<Record<string, readonly ((conf: Fields) => readonly Refusal[])[]>> = {
  bridge: [hairpinAndPromisc, shortMtu],
  ptp: [shortMtu],
  macvlan: [shortMtu, mac],
  ipvlan: [shortMtu],
  vlan: [shortMtu],
  tap: [shortMtu, mac],
  portmap: [markAndChain],
  bandwidth: [rateAndBurst],
  tuning: [sysctls, mac],
}

function hairpinAndPromisc(conf: Fields): readonly Refusal[] {
  if (conf['hairpinMode'] !== true || conf['promiscMode'] !== true) return []
  const says = 'cannot set hairpin mode and promiscuous mode at the same time'
  return [{ steps: ['promiscMode'], why: 'excludes hairpinMode', says, cure: 'leave one of them out' }]
}

/** IPV6_MIN_MTU: the kernel switches IPv6 off on a link below it (net/ipv6/addrconf.c). */
const leastMtuOfIpv6 = 1280

function shortMtu({ mtu, ipam }: Fields): readonly Refusal[] {
  if (typeof mtu !== 'number' || mtu < 68 || mtu >= leastMtuOfIpv6 || !isObject(ipam)) return []
  if (!placesIn(ipam).some(({ network }) => parseCidr(network)?.family === 6)) return []
  const why = `${mtu} is too short for the IPv6 addresses of ipam: the kernel wants ${leastMtuOfIpv6} bytes`
  const says = 'keep_addr_on_down: no such file or directory'
  return [{ steps: ['mtu'], why, says, cure: `use ${leastMtuOfIpv6} or more, or only IPv4` }]
}

function mac({ mac: text }: Fields): readonly Refusal[] {
  const problem = typeof text === 'string' && text !== '' ? macProblem(text) : undefined
  if (problem === undefined) return []
  const says = problem.what === 'a MAC address' ? 'invalid MAC address' : 'cannot assign requested address'
  return [{ steps: ['mac'], why: `${shown(text)} is not ${problem.what}`, says, cure: problem.hint }]
}

function markAndChain(conf: Fields): readonly Refusal[] {
  if (conf['markMasqBit'] === undefined || conf['externalSetMarkChain'] === undefined) return []
  const says = 'Cannot specify externalSetMarkChain and markMasqBit'
  const why = 'excludes externalSetMarkChain'
  return [{ steps: ['markMasqBit'], why, says, cure: 'leave one of them out' }]
}

function rateAndBurst(conf: Fields): readonly Refusal[] {
  return ['ingress', 'egress'].flatMap((way): readonly Refusal[] => {
    const [rate, burst] = [`${way}Rate`, `${way}Burst`]
    const [hasRate, hasBurst] = [rate, burst].map((key) => Number(conf[key] ?? 0) !== 0)
    if (hasRate === hasBurst) return []
    const [given, missing] = hasRate ? [rate, burst] : [burst, rate]
    const says = hasRate ? 'if rate is set, burst must also be set' : 'if burst is set, rate must also be set'
    return [{ steps: [given], why: `needs ${missing}`, says, cure: `add "${missing}", or leave both out` }]
  })
}

/** A sysctl of the node is none of a pod's network; IFNAME is the pod's interface. */
function sysctls({ sysctl }: Fields): readonly Refusal[] {
  if (!isObject(sysctl)) return []
  const outside = Object.keys(sysctl).filter((key) => {
    return !posix.join('/proc/sys', key.replaceAll('.', '/')).startsWith('/proc/sys/net/')
  })
  return outside.map((key): Refusal => {
    const cure = "leave it out: the pod's securityContext.sysctls or the node has settings of other kinds"
    return { steps: ['sysctl', key], why: 'is no setting of the network', says: 'invalid net sysctl key', cure }
  })
}
