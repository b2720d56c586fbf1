// SPDX-License-Identifier: Apache-2.0
// A cluster's network behind the file of something else: "pods get addresses of the wrong range" (flannel#1437).

import { lookUp } from '../../../cni/json/json-keys.ts'
import { isObject } from '../../../cni/json/json-object.ts'
import { mainTypes } from '../rules/upstream-keys.ts'
import type { Candidate } from './predict.ts'

/** Plugins whose agents write the file themselves: it is there because the cluster is to use it. */
const clusterTypes: readonly string[] = [
  ...['flannel', 'calico', 'cilium-cni', 'antrea', 'weave-net', 'kube-ovn', 'ovn-k8s-cni-overlay', 'aws-cni'],
  ...['azure-vnet', 'terway'],
]

/** The plugin of a cluster in this file, where a runtime takes one of `used` with nothing but an upstream plugin. */
export function shadowedCluster({ load }: Candidate, used: readonly Candidate[]): string | undefined {
  const first = typeOf(load)
  const isPlain = used.some((each) => mainTypes.includes(typeOf(each.load) ?? ''))
  return first !== undefined && clusterTypes.includes(first) && isPlain ? first : undefined
}

function typeOf(load: Candidate['load']): string | undefined {
  return 'problem' in load ? undefined : load.types[0]
}

/** The bridge that a plugin uses; without a name it is cni0 (bridge.go; flannel delegates to bridge). */
export function bridgeOf(conf: Readonly<Record<string, unknown>>): string | undefined {
  const type = lookUp(conf, 'type')
  if (type === 'flannel') {
    const given = lookUp(conf, 'delegate')
    const delegate = isObject(given) ? given : {}
    return bridgeOf({ ...delegate, type: lookUp(delegate, 'type') ?? 'bridge' })
  }
  const name = lookUp(conf, 'bridge')
  if (typeof name === 'string' && name !== '') return name
  return type === 'bridge' ? 'cni0' : undefined
}
