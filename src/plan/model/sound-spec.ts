// SPDX-License-Identifier: Apache-2.0
// Whether what a record says of an attachment or a network has the shape that we write: another version's, or a
// damaged file's, is not acted on. Text and numbers are what compile/ writes into batches, which checks them there.

import { isObject } from '../../cni/json/json-object.ts'
import type { AttachmentSpec, NetworkSpec } from './attachment.ts'

type Test = (value: unknown) => boolean

const isText: Test = (value) => typeof value === 'string'
const isNumber: Test = (value) => typeof value === 'number' && Number.isFinite(value)
const isFlag: Test = (value) => typeof value === 'boolean'
const isBit: Test = (value) => Number.isInteger(value) && Number(value) >= 0 && Number(value) <= 31
const isFamily: Test = (value) => value === 4 || value === 6
const maybe =
  (test: Test): Test =>
  (value) =>
    value === undefined || test(value)
const listOf =
  (test: Test): Test =>
  (value) =>
    Array.isArray(value) && value.every(test)
const mapOf =
  (test: Test): Test =>
  (value) =>
    isObject(value) && Object.values(value).every(test)

/** An object whose named fields pass; others are not looked at. */
const shape = (fields: Readonly<Record<string, Test>>): Test => {
  const tests = Object.entries(fields)
  return (value) => isObject(value) && tests.every(([name, test]) => test(value[name]))
}

const key = shape({ network: isText, containerId: isText, ifName: isText, role: isText })
const shaper = { rateBits: isNumber, burstBytes: isNumber }
const linkEnd = shape({ name: isText, mac: isText, mtu: maybe(isNumber) })
const route = shape({ dst: isText, gw: maybe(isText), src: maybe(isText), table: maybe(isNumber) })
const vlans = shape({ access: isNumber, trunk: listOf(isNumber), keepDefault: isFlag })
const hostPort = shape({
  family: isFamily,
  protocol: isText,
  hostIp: maybe(isText),
  hostPort: isNumber,
  podIp: isText,
  containerPort: isNumber,
})
const settings = {
  mac: maybe(isText),
  mtu: maybe(isNumber),
  promisc: maybe(isFlag),
  allmulti: maybe(isFlag),
  txQLen: maybe(isNumber),
}
const hostPorts = shape({
  link: isText,
  conditionsV4: maybe(listOf(isText)),
  conditionsV6: maybe(listOf(isText)),
  ports: listOf(hostPort),
})
const bandwidth = shape({
  link: isText,
  mtu: isNumber,
  ingress: maybe(shape(shaper)),
  egress: maybe(shape({ ...shaper, ifb: isText, ifbMac: isText, ifbAlias: maybe(isText) })),
})
const source = shape({ from: isText, table: isNumber, routes: listOf(route) })

const attachment = shape({
  key,
  mode: isText,
  mtu: isNumber,
  host: maybe(linkEnd),
  pod: maybe(linkEnd),
  port: maybe(shape({ bridge: isText, vlans: maybe(vlans), onlyMac: maybe(isText) })),
  ips: listOf(shape({ address: isText, gateway: maybe(isText) })),
  routes: listOf(route),
  defaultRoutes: listOf(route),
  hostPorts: maybe(hostPorts),
  bandwidth: maybe(bandwidth),
  tuning: maybe(shape({ ...settings, sysctl: mapOf(isText), before: maybe(shape(settings)) })),
  sbr: maybe(shape({ sources: listOf(source), moved: listOf(route) })),
  chained: maybe(shape({ dev: isText, hostLink: maybe(isText), fence: maybe(isText) })),
})

const bridge = shape({
  name: isText,
  mac: isText,
  mtu: isNumber,
  addresses: listOf(isText),
  gateway: maybe(shape({ name: isText, mac: isText, peer: isText, vlan: isNumber })),
})

const newConnections = shape({ to: listOf(isText), from: listOf(isText) })

const network = shape({
  name: isText,
  bridge: maybe(bridge),
  forwarding: listOf(isFamily),
  masquerade: maybe(shape({ subnets: listOf(isText), keep: listOf(isText) })),
  hairpin: maybe(listOf(isText)),
  fence: maybe(isText),
  fenceOn: maybe(isText),
  hostAccept: maybe(isText),
  acceptSubnets: maybe(listOf(isText)),
  ranges: maybe(listOf(isText)),
  excluded: maybe(listOf(isText)),
  acceptNew: maybe((value) => value === 'none' || newConnections(value)),
  acceptMarkBit: maybe(isBit),
  firewalldZone: maybe(isText),
})

/** Whether a value is an attachment as we write it. */
export function isSoundAttachment(value: unknown): value is AttachmentSpec {
  return attachment(value)
}

/** Whether a value is what a network's attachments share, as we write it. */
export function isSoundNetwork(value: unknown): value is NetworkSpec {
  return network(value)
}
