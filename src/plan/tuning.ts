// SPDX-License-Identifier: Apache-2.0
// What the reference tuning plugin sets on the pod's interface, as operations (reference-plugins.md §1.10).

import type { NetConf } from '../cni/net-conf.ts'
import type { TuningSpec } from './attachment.ts'
import type { Op } from './op.ts'

/** The settings that are made after the interface; its MAC is part of its creation. Undefined where there are none. */
export function tuningSpec(conf: NetConf): TuningSpec | undefined {
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

/** Link settings, in the pod's batch; MAC and MTU are part of the link's creation. */
export function tunedLinkOps(spec: TuningSpec, dev: string): readonly Op[] {
  const { txQLen, allmulti, promisc } = spec
  return [
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
