// SPDX-License-Identifier: Apache-2.0
// What libcni's cache tells of an attachment whose record was lost: the configuration that its ADD read, and with the
// addresses of its result all that the ADD made of it.

import { orElse } from '../../cni/error.ts'
import { ownType, readInvocation } from '../../cni/invocation.ts'
import { asObject } from '../../cni/json.ts'
import { readConfig } from '../../config/config.ts'
import type { NetConf } from '../../config/net-conf.ts'
import { buildNetworkSpec, buildSpec } from '../../drivers/specs.ts'
import type { AttachmentKey, AttachmentSpec, Lease, NetworkSpec } from '../../model/attachment.ts'
import type { ObservedLink } from '../../model/observed.ts'
import { type CachedAttachment, podIpsOf } from '../upstream/libcni-cache.ts'

/** An attachment as its ADD decided it, and the network around it. */
interface Told {
  readonly spec: AttachmentSpec
  readonly network: NetworkSpec
}

/** `mtu`: of its link; `links`: of the host. */
interface Place {
  readonly key: AttachmentKey
  readonly mtu: number
  readonly links: ReadonlyMap<string, ObservedLink>
  readonly machineId: string
}

/** What the entry tells of a main attachment; undefined where that is not all. */
export function toldOf(cached: CachedAttachment, { key, mtu, links, machineId }: Place): Told | undefined {
  return orElse(() => {
    const { plugins, ...head } = asObject(cached.list)
    const plugin = asObject(Array.isArray(plugins) ? plugins[0] : cached.list)
    const has = asObject(plugin['capabilities'])
    const runtimeConfig = Object.entries(cached.capabilityArgs).filter(([name]) => has[name] === true)
    const { name, cniVersion } = head
    const request = {
      ...plugin,
      name,
      cniVersion,
      runtimeConfig: Object.fromEntries(runtimeConfig),
    }
    const conf = confOfAdd(request, cached)
    // The routing table that sbr has found free is not in the cache.
    if (!('isGateway' in conf) || (conf.sbr !== undefined && conf.sbr.table === undefined)) return undefined
    const spec = buildSpec({ key, conf, lease: leaseOf(cached), mtu })
    const network = buildNetworkSpec(conf, spec.ips, { mtu, machineId })
    // A bridge that is there may be another program's, with a MAC of its own.
    const found = links.get(network.bridge?.name ?? '')
    const asFound = found &&
      network.bridge && {
        bridge: { ...network.bridge, mac: found.mac, mtu: found.mtu },
      }
    return { spec, network: { ...network, ...asFound } }
  }, undefined)
}

/** The configuration that an ADD with this request has read. Throws CniError for one that is invalid. */
export function confOfAdd(
  request: Readonly<Record<string, unknown>>,
  { args, containerId, netns, ifName }: Pick<CachedAttachment, 'args' | 'containerId' | 'netns' | 'ifName'>,
): NetConf {
  const given = [...args.filter(([key]) => key !== 'IgnoreUnknown'), ['IgnoreUnknown', '1'] as const]
  const env = {
    CNI_COMMAND: 'ADD',
    CNI_CONTAINERID: containerId,
    CNI_NETNS: netns,
    CNI_IFNAME: ifName,
    CNI_ARGS: given.map(([key, value]) => `${key}=${value}`).join(';'),
  }
  return readConfig(JSON.stringify(request), readInvocation(env, [ownType, String(request['type'])]))
}

/** The lease of its ADD, by the result. */
export function leaseOf(cached: Pick<CachedAttachment, 'result' | 'ifName'>): Lease {
  const { routes, dns } = cached.result
  const ips = podIpsOf(cached).map(({ address, gateway }) =>
    gateway === undefined ? { address } : { address, gateway },
  )
  return { ips, routes, ...(dns === undefined ? {} : { dns }) }
}
