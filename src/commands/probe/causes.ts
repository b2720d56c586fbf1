// SPDX-License-Identifier: Apache-2.0
// The cause of a failed probe, from bridge ports, routes, forwarding and the configuration.

import { familyOf } from '../../cni/addresses.ts'
import type { CniError } from '../../cni/errors.ts'
import { isObject } from '../../cni/json.ts'
import { recognise } from '../explain/recognise.ts'
import { textIfThere } from '../if-there.ts'
import type { NetworkList } from '../network-list.ts'
import type { KnownCause, Pod, Target } from './pods.ts'

/** A failed probe and its pods. `to` is absent if the other end is not a pod. */
interface FailedProbe {
  readonly target: Target
  readonly family: 4 | 6
  readonly from: Pod | undefined
  readonly to: Pod | undefined
  readonly network: NetworkList
  /** Addresses of the node, without lengths. */
  readonly nodeAddresses: readonly string[]
}

/** The cause; undefined if nothing explains the failure. */
export function causeOf(probe: FailedProbe): KnownCause | undefined {
  if (probe.target === 'node') return undefined
  const [cause] = [...routes(probe), ...policies(probe), ...ports(probe), ...forwarding(probe)]
  return cause
}

/** Errors of trestle that quote another program. */
const passedOn: readonly string[] = ['plugin-refused', 'plugin-failed', 'command-failed', 'internal-error']

/** The cause of a failed call: the diagnosis of a quoted program's words, else of trestle's own error. */
export function causeOfError(failure: CniError): KnownCause | undefined {
  if (!passedOn.includes(failure.id)) return undefined
  const { errors, own } = recognise([failure.message, failure.details].filter(Boolean).join('\n'))
  const known = errors.find(({ role }) => role === 'cause')
  return known === undefined || own.length > 0 ? undefined : { id: known.id, message: known.meaning }
}

/** Both ends count: the answer takes the other direction. */
function routes({ target, family, from, to, nodeAddresses }: FailedProbe): readonly KnownCause[] {
  if (target === 'gateway' || target === 'pod') return []
  return [from, to].flatMap((pod): readonly KnownCause[] => {
    if (pod === undefined) return []
    const message = `the pod has no IPv${family} default route`
    if (!pod.defaultFamilies.includes(family)) return [{ id: 'no-default-route', message }]
    const gateway = pod.gateways.find((each) => familyOf(each) === family)
    if (gateway === undefined || pod.isBeyondNode || nodeAddresses.includes(gateway)) return []
    return [
      { id: 'gateway-of-nobody', message: `the pod's default route goes to ${gateway}, which the node does not have` },
    ]
  })
}

function ports({ target, from, to }: FailedProbe): readonly KnownCause[] {
  const [port, other] = [from, to].map((pod) => pod?.hostLinks.find((link) => portSetting(link, 'state') !== ''))
  if (port === undefined) return []
  if (target === 'own-port') {
    const isOff = portSetting(port, 'hairpin_mode') === '0'
    return isOff ? [{ id: 'hairpin-off', message: `hairpin_mode of ${port} is 0` }] : []
  }
  const areBoth = [port, other].every((link) => link !== undefined && portSetting(link, 'isolated') === '1')
  return areBoth ? [{ id: 'ports-isolated', message: `isolated of ${port} and ${other} is 1` }] : []
}

/** A setting of a bridge port; empty for any other link. */
function portSetting(link: string, name: string): string {
  return link.includes('/') ? '' : textIfThere(`/sys/class/net/${link}/brport/${name}`).trim()
}

function policies({ target, from, to, network }: FailedProbe): readonly KnownCause[] {
  const areBothPods = from !== undefined && to !== undefined
  if (target === 'gateway' || target === 'outside' || target === 'dns' || !areBothPods) return []
  const policy = network.plugins
    .flatMap((plugin) => [plugin['firewall'], plugin])
    .map((conf) => (isObject(conf) ? conf['ingressPolicy'] : undefined))
    .find((each) => each === 'isolated')
  return policy === undefined ? [] : [{ id: 'policy-isolated', message: `ingressPolicy is "${policy}"` }]
}

function forwarding({ target, family }: FailedProbe): readonly KnownCause[] {
  if (target === 'gateway' || target === 'pod') return []
  const key = family === 4 ? 'net/ipv4/ip_forward' : 'net/ipv6/conf/all/forwarding'
  if (textIfThere(`/proc/sys/${key}`).trim() !== '0') return []
  return [{ id: 'forwarding-off', message: `${key.replaceAll('/', '.')} is 0` }]
}
