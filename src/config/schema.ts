// SPDX-License-Identifier: Apache-2.0
// Every key that trestle reads, and the type of its value: the one place for both. What values mean together is checked
// where they are read (read-config.ts, ipam.ts, the files of features/). docs/configure.md says what each key does.

import type * as z from 'zod/mini'
import {
  absolutePath,
  field,
  flag,
  group,
  integer,
  isMtu,
  isText,
  keyShapeOf,
  largestMtu,
  leastMtu,
  list,
  oneOf,
  optional,
  text,
  textMap,
  texts,
  textsUpTo,
  uint32,
  uint32Max,
} from '../cni/fields.ts'
import { isObject } from '../cni/json.ts'

const range = group({ subnet: text, rangeStart: text, rangeEnd: text, gateway: text })
const rangeSets = optional(list(list(range)))

const route = group({
  dst: text,
  gw: text,
  mtu: uint32,
  advmss: uint32,
  priority: uint32,
  table: integer(0, uint32Max, 'a routing table'),
  scope: integer(0, 255, 'a scope'),
})

const dns = group({ nameservers: texts, domain: text, search: texts, options: texts })

const ipam = group({
  type: text,
  subnet: text,
  rangeStart: text,
  rangeEnd: text,
  gateway: text,
  ranges: rangeSets,
  routes: optional(list(route)),
  dataDir: absolutePath,
  resolvConf: absolutePath,
  exclude: texts,
  addresses: optional(list(group({ address: text, gateway: text }))),
  dns: optional(dns),
})

/** Bits or bits a second, up to Go's uint64. */
const bits = integer(0, 2 ** 64, 'a number of bits')
const rates = group({ ingressRate: bits, ingressBurst: bits, egressRate: bits, egressBurst: bits })

const port = integer(1, 65_535, 'a port')
const portMapping = group({ hostPort: port, containerPort: port, protocol: text, hostIP: text })

const mtuHint = `use a number from ${leastMtu} to ${largestMtu}`
const linkMtu = field<number>('an MTU', mtuHint, (value) => value === 0 || isMtu(value), 'number')

/** Keys of the reference tuning plugin that `args.cni` may give as well. */
const tuningKeys = { sysctl: textMap, mac: text, promisc: flag, mtu: linkMtu, txQLen: uint32, allmulti: flag }

const attachments = optional(list(group({ containerID: text, ifname: text }), 65_536))
/** The second name is that of libcni before 1.2.1. */
const attachmentKeys = { 'cni.dev/valid-attachments': attachments, 'cni.dev/attachments': attachments }

const runtimeConfig = group({
  portMappings: optional(list(portMapping, 65_536)),
  ipRanges: rangeSets,
  bandwidth: optional(rates),
  ips: texts,
  mac: text,
  deviceID: text,
  dns: optional(group({ servers: texts, searches: texts, options: texts })),
})

const vlanId = field<number>(
  'a VLAN ID',
  'use a number from 0 (none) to 4094',
  (value) => Number.isInteger(value) && Number(value) >= 0 && Number(value) <= 4094,
  'number',
)

const wholeNumber = field<number>('a whole number', 'use a number without quotes', Number.isInteger)

const podcidr = field<string | readonly string[]>(
  'a range or a list of two',
  'use "10.240.0.0/24" or ["10.240.0.0/24", "fd00:240::/64"]',
  (value) => isText(value) || (Array.isArray(value) && value.every(isText)),
)

/** A switch, how many calls to keep, or an object of `keep`, `wrap` and `answer` (recording/recorder.ts). */
const record = field<unknown>(
  'a switch, a number of calls, or keep, wrap and answer',
  'use true, false or how many calls to keep',
  (value) => typeof value === 'boolean' || isObject(value) || (Number.isInteger(value) && Number(value) >= 0),
  'number',
)

/** Each destination that keeps a pod's address makes an element with every range of the network. */
const mostDestinations = 256

const configSchema = group({
  type: text,
  mode: oneOf(['bridge', 'ptp', 'macvlan', 'host-device', 'loopback', 'chained']),
  podcidr,
  master: text,
  linkInContainer: flag,
  macvlanMode: oneOf(['bridge', 'private', 'vepa', 'passthru']),
  device: text,
  hwaddr: text,
  kernelpath: text,
  pciBusID: text,
  bridge: text,
  isGateway: flag,
  isDefaultGateway: flag,
  ipMasq: flag,
  ipMasqBackend: text,
  hairpinMode: flag,
  forceAddress: flag,
  promiscMode: flag,
  vlan: vlanId,
  vlanTrunk: optional(list(group({ minID: wholeNumber, maxID: wholeNumber, id: wholeNumber }))),
  preserveDefaultVlan: flag,
  macspoofchk: flag,
  portIsolation: flag,
  enabledad: flag,
  disableContainerInterface: flag,
  nonMasqueradeCIDRs: textsUpTo(mostDestinations),
  mtu: field<'auto' | number>(
    '"auto" or an MTU',
    `use "auto", or a number from ${leastMtu} to ${largestMtu}`,
    (value) => value === 'auto' || value === 0 || isMtu(value),
    'number',
  ),
  removeWhenEmpty: flag,
  allowOverlap: flag,
  ipam: optional(ipam),
  dns: optional(dns),
  args: optional(group({ cni: optional(group({ ...tuningKeys, ips: texts })) })),
  runtimeConfig: optional(runtimeConfig),
  portmap: optional(
    group({
      snat: flag,
      masqAll: flag,
      backend: text,
      conditionsV4: texts,
      conditionsV6: texts,
      markMasqBit: integer(0, 31, 'a bit'),
      externalSetMarkChain: text,
    }),
  ),
  firewall: optional(
    group({
      ingressPolicy: oneOf(['', 'open', 'same-bridge', 'isolated']),
      hostAccept: oneOf(['auto', 'off']),
      backend: text,
      iptablesAdminChainName: text,
      firewalldZone: text,
    }),
  ),
  bandwidth: optional(rates),
  tuning: optional(group({ ...tuningKeys, dataDir: text })),
  sbr: optional(group({ table: integer(1, uint32Max, 'a routing table'), gateways: texts, addSourceHints: flag })),
  record,
  ...attachmentKeys,
})

/** A checked configuration, defaults not filled in. */
export type RawConfig = z.output<typeof configSchema>

/** Of a plugin that delegates to us: its other keys mean what that plugin says. */
const ipamRoleSchema = group({
  type: text,
  ipam: optional(ipam),
  args: optional(group({ cni: optional(group({ ips: texts })) })),
  runtimeConfig: optional(group({ ipRanges: rangeSets, ips: texts })),
  record,
  ...attachmentKeys,
})

export const schemas = {
  own: { schema: configSchema, keys: keyShapeOf(configSchema) },
  ipamRole: { schema: ipamRoleSchema, keys: keyShapeOf(ipamRoleSchema) },
} as const
