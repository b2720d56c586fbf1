// SPDX-License-Identifier: Apache-2.0
// What the upstream tuning plugin sets on the pod's interface, as operations (docs/design.md, "Upstream tuning").

import type { FeatureConf } from '../config/net-conf.ts'
import type { AttachmentSpec, LinkSettings, TuningSpec } from '../model/attachment.ts'
import type { ObservedLink } from '../model/observed.ts'
import type { Op } from '../model/op.ts'
import { type Feature, podLinkOf } from './feature.ts'

/** The settings that are made after the interface; its MAC is part of its creation. Undefined where there are none. */
export function tuningSpec(conf: FeatureConf): TuningSpec | undefined {
  const { tuning } = conf
  if (tuning === undefined) return undefined
  const { txQLen, allmulti, promisc } = tuning
  return {
    sysctl: tuning.sysctl,
    promisc,
    ...(txQLen === undefined ? {} : { txQLen }),
    ...(allmulti === undefined ? {} : { allmulti }),
  }
}

/** The same for an interface that is not ours (`mac`: wanted), with what is to be put back later. */
export function chainedTuningSpec(
  conf: FeatureConf,
  mac: string | undefined,
  link: ObservedLink,
): TuningSpec | undefined {
  const made = tuningSpec(conf) ?? { sysctl: {}, promisc: false }
  const mtu = conf.tuning?.mtu
  const before: LinkSettings = {
    ...(mac === undefined ? {} : { mac: link.mac }),
    ...(mtu === undefined ? {} : { mtu: link.mtu }),
    ...(made.promisc ? { promisc: link.promisc } : {}),
    ...(made.allmulti === undefined ? {} : { allmulti: link.allmulti }),
    // ip does not print a queue length of 0 (iproute2 ip/ipaddress.c, print_queuelen).
    ...(made.txQLen === undefined ? {} : { txQLen: link.txqlen ?? 0 }),
  }
  const isEmpty = Object.keys(before).length === 0 && Object.keys(made.sysctl).length === 0
  if (isEmpty) return undefined
  return { ...made, ...(mac === undefined ? {} : { mac }), ...(mtu === undefined ? {} : { mtu }), before }
}

/** Puts the link back as it was. Sysctls stay, as with upstream: they may have been the pod's own since. */
export function untunedLinkOps({ before = {} }: TuningSpec, dev: string): readonly Op[] {
  const { promisc, ...rest } = before
  const off: readonly Op[] =
    promisc === false ? [{ in: 'pod', kind: 'link.promisc', dev, on: false, why: `set ${dev} not promiscuous` }] : []
  return [...off, ...tunedLinkOps({ ...rest, promisc: false }, dev)]
}

/** Link settings, in the pod's batch; MAC and MTU of an interface of ours are part of its creation. */
export function tunedLinkOps(spec: LinkSettings, dev: string): readonly Op[] {
  const { txQLen, allmulti, promisc, mac, mtu } = spec
  return [
    ...(mac === undefined ? [] : [{ in: 'pod', kind: 'link.mac', dev, mac, why: `set the MAC of ${dev}` } as const]),
    ...(mtu === undefined ? [] : [{ in: 'pod', kind: 'link.mtu', dev, mtu, why: `set the MTU of ${dev}` } as const]),
    ...(promisc ? [{ in: 'pod', kind: 'link.promisc', dev, why: `set ${dev} promiscuous` } as const] : []),
    ...(allmulti === undefined
      ? []
      : [{ in: 'pod', kind: 'link.allmulti', dev, on: allmulti, why: `set allmulti of ${dev}` } as const]),
    ...(txQLen === undefined
      ? []
      : [{ in: 'pod', kind: 'link.txqlen', dev, length: txQLen, why: `set the queue length of ${dev}` } as const]),
  ]
}

/** Sysctls of the pod's namespace: a process of their own. */
export function tunedSysctlOps(spec: TuningSpec): readonly Op[] {
  return Object.entries(spec.sysctl).map(([key, value]) => ({
    in: 'pod',
    kind: 'sysctl.pod',
    key,
    value,
    why: `set ${key.replaceAll('/', '.')} in the pod`,
  }))
}

export const tuning: Feature = {
  podLinkOps: (spec) => onPodLink(spec, tunedLinkOps),
  podSysctlOps: ({ tuning: settings }) => (settings === undefined ? [] : tunedSysctlOps(settings)),
  podTeardownOps: (spec) => onPodLink(spec, untunedLinkOps),
}

function onPodLink(spec: AttachmentSpec, ops: (settings: TuningSpec, dev: string) => readonly Op[]): readonly Op[] {
  const dev = podLinkOf(spec)
  return spec.tuning === undefined || dev === undefined ? [] : ops(spec.tuning, dev)
}
