// SPDX-License-Identifier: Apache-2.0
// A pod of the upstream chain as trestle would have made it, with the names and MACs that it has. Pure.

import { readConfig } from '../../cni/config/config.ts'
import { CniError } from '../../cni/model/error.ts'
import { readInvocation } from '../../cni/model/invocation.ts'
import type { NetConf } from '../../cni/model/net-conf.ts'
import type { AttachmentSpec, BandwidthSpec } from '../../plan/model/attachment.ts'
import type { ObservedLink } from '../../plan/model/observed.ts'
import { buildSpec } from '../../plan/modes/build-spec.ts'
import { gatewayModes, modeOf } from '../../plan/modes/modes.ts'
import { hostPortSpec } from '../../plan/rules/host-ports.ts'
import { podIpsOf } from '../../plan/upstream/libcni-cache.ts'
import { upstreamNames } from '../../plan/upstream/owner-names.ts'
import { requestConf } from '../node/network-list.ts'
import { keyOf, type LivePod } from './look.ts'
import type { Target } from './targets.ts'

/** The configuration a pod is adopted with, as ADD would have read it, and what it comes to. */
export interface Adoption {
  readonly conf: NetConf
  readonly spec: AttachmentSpec
}

/**
 * The attachment of a live pod under the network's configuration. Throws CniError when the configuration
 * is wrong, of another mode, or names another bridge than the pod is on.
 */
export function adoptionOf(target: Target, live: LivePod, links: ReadonlyMap<string, ObservedLink>): Adoption {
  const { cached, host, pod } = live
  const conf = confOf(target, live)
  const ips = podIpsOf(cached).map(({ address, gateway }) =>
    gateway === undefined ? { address } : { address, gateway },
  )
  const { routes, dns } = cached.result
  const key = keyOf(cached)
  const lease = { ips, routes, ...(dns === undefined ? {} : { dns }) }
  const made = buildSpec({ key, conf, lease, mtu: host.mtu })
  requireSameBridge(made, host)
  const { bandwidth: shaped, ...rest } = made
  const link = modeOf(made).isRouted ? host.name : (made.hostPorts?.link ?? '')
  const hostPorts = hostPortSpec(conf, made.ips, link)
  const bandwidth = shaped && bandwidthOf(shaped, { live, links })
  return {
    conf,
    spec: {
      ...rest,
      host: { name: host.name, mac: host.mac },
      pod: { name: pod.name, mac: pod.mac, ...(pod.mtu === host.mtu ? {} : { mtu: pod.mtu }) },
      ...(made.port?.onlyMac === undefined ? {} : { port: { ...made.port, onlyMac: pod.mac } }),
      ...(hostPorts === undefined ? {} : { hostPorts }),
      ...(bandwidth === undefined ? {} : { bandwidth }),
    },
  }
}

/** What ADD would read, with what the runtime gave when the pod was made. */
function confOf({ list, plugin }: Target, { cached }: LivePod): NetConf {
  const stdin = JSON.stringify(requestConf(list, plugin, { capabilityArgs: cached.capabilityArgs }))
  const args = [...cached.args.filter(([key]) => key !== 'IgnoreUnknown'), ['IgnoreUnknown', '1'] as const]
  const conf = readConfig(
    stdin,
    readInvocation({
      CNI_COMMAND: 'ADD',
      CNI_CONTAINERID: cached.containerId,
      CNI_NETNS: cached.netns,
      CNI_IFNAME: cached.ifName,
      CNI_ARGS: args.map(([key, value]) => `${key}=${value}`).join(';'),
    }),
  )
  if (conf.role === 'main' && gatewayModes.includes(conf.mode)) return conf
  throw new CniError('mode-not-adopted', `the mode "${conf.mode}" of the configuration makes no interface`)
}

function requireSameBridge(made: AttachmentSpec, host: ObservedLink): void {
  const wanted = made.port?.bridge
  if (wanted === host.master) return
  const where = host.master === undefined ? 'on no bridge' : `on the bridge ${host.master}`
  const asked = wanted === undefined ? 'no bridge' : wanted
  throw new CniError('bridge-not-configured', `${host.name} is ${where}, and the configuration says ${asked}`)
}

/** Shaped as it is now: what upstream did not set up is not said to be there. */
function bandwidthOf(
  made: BandwidthSpec,
  { live, links }: { live: LivePod; links: ReadonlyMap<string, ObservedLink> },
): BandwidthSpec | undefined {
  const ifb = links.get(upstreamNames(keyOf(live.cached)).ifb)
  const { egress, ...rest } = made
  const shaped = egress === undefined || ifb === undefined ? undefined : { ...egress, ifb: ifb.name, ifbMac: ifb.mac }
  if (rest.ingress === undefined && shaped === undefined) return undefined
  return { ...rest, link: live.host.name, ...(shaped === undefined ? {} : { egress: shaped }) }
}
