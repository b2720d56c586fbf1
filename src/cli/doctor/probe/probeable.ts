// SPDX-License-Identifier: Apache-2.0
// Which lists may be tried with throw-away pods: those whose plugins need nothing but their own configuration. Others
// ask the API server for the pod, take a link of the node, or an address that one pod alone can have.

/** Of containernetworking/plugins: what makes a link for each pod, and what is chained behind it. */
const mainTypes = ['bridge', 'ptp', 'macvlan', 'ipvlan']
const upstreamTypes = [...mainTypes, 'portmap', 'firewall', 'bandwidth', 'tuning', 'sbr', 'loopback']

/** A plugin of the list in use. */
export interface ProbedPlugin {
  readonly type: string
  readonly ipamType?: string
  readonly isOwn: boolean
}

/** Why no throw-away pod may be made of this list; undefined where one may. */
export function whyNotProbeable(network: string, plugins: readonly ProbedPlugin[]): string | undefined {
  const strange = plugins.find(({ type, isOwn }) => !isOwn && !upstreamTypes.includes(type))
  if (strange !== undefined) {
    const needs = `the plugin ${strange.type} needs more than its configuration (a pod of the API server, a link)`
    return `network ${network}: ${needs}: only lists of trestle and of ${mainTypes.join(', ')} are probed`
  }
  const ipam = plugins.find(({ ipamType, isOwn }) => ipamType !== undefined && !isKnownIpam(ipamType, isOwn))
  if (ipam === undefined) return undefined
  const why = `a throw-away pod could not give back what the plugin ${ipam.ipamType} hands out`
  return `network ${network}: ${why}: only trestle and host-local are probed`
}

function isKnownIpam(type: string, isOwn: boolean): boolean {
  return type === 'host-local' || (isOwn && type === 'trestle')
}
