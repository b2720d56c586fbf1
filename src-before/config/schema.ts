// SPDX-License-Identifier: Apache-2.0
// Every key that trestle reads and the type of its value (docs/configure.md, "Configure"). What values mean together is
// checked in config-*.ts. Schemas are made once, when the module is loaded.

import type * as z from 'zod/mini'
import {
  absolutePath,
  field,
  flag,
  group,
  integer,
  isMtu,
  isText,
  list,
  MAX_MTU,
  MIN_MTU,
  oneOf,
  optional,
  text,
  texts,
  textsUpTo,
  typedField,
  UINT32_MAX,
  uint32,
} from '../cni/fields.ts'
import { isObject, keyShapeOf } from '../cni/json.ts'
import { rates } from '../features/bandwidth.ts'
import { firewallKeys } from '../features/firewall.ts'
import { portMapping, portmapKeys } from '../features/host-ports.ts'
import { MOST_DESTINATIONS } from '../features/masquerade.ts'
import { sbrKeys } from '../features/sbr.ts'
import { argsTuningKeys, tuningKeys } from '../features/tuning.ts'

const mtu = typedField<'auto' | number>(
  'number',
  { what: '"auto" or an MTU', hint: `use "auto", or a number from ${MIN_MTU} to ${MAX_MTU}` },
  (value) => {
    return value === 'auto' || value === 0 || isMtu(value)
  },
)

const range = group({ subnet: text, rangeStart: text, rangeEnd: text, gateway: text })

const rangeSets = optional(list(list(range)))

/** The attachments of a node: what JSON of the longest standard input can hold. */
const MOST_ATTACHMENTS = 65_536

const route = group({
  dst: text,
  gw: text,
  mtu: uint32,
  advmss: uint32,
  priority: uint32,
  table: integer(0, UINT32_MAX, 'a routing table'),
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
  cooldown: integer(0, 0x7fff_ffff, 'a number of seconds'),
  addresses: optional(list(group({ address: text, gateway: text }))),
  dns: optional(dns),
})

const argsCni = group({ ...argsTuningKeys, ips: texts })

const attachment = group({ containerID: text, ifname: text })

/** Under its name of the specification, and the one that libcni misspelt before 1.2.1. */
const attachmentKeys = {
  'cni.dev/valid-attachments': optional(list(attachment, MOST_ATTACHMENTS)),
  'cni.dev/attachments': optional(list(attachment, MOST_ATTACHMENTS)),
}

const runtimeConfig = group({
  // One entry a port of the pod: reading them is linear, and stdin has its own bound.
  portMappings: optional(list(portMapping, Number.POSITIVE_INFINITY)),
  ipRanges: rangeSets,
  bandwidth: optional(rates),
  ips: texts,
  mac: text,
  deviceID: text,
  dns: optional(group({ servers: texts, searches: texts, options: texts })),
})

const vlanId = typedField<number>(
  'number',
  { what: 'a VLAN ID', hint: 'use a number from 0 (none) to 4094' },
  (value) => {
    return Number.isInteger(value) && Number(value) >= 0 && Number(value) <= 4094
  },
)

const wholeNumber = field<number>('a whole number', 'use a number without quotes', Number.isInteger)

const podcidr = field<string | readonly string[]>(
  'a range or a list of two',
  'use "10.240.0.0/24" or ["10.240.0.0/24", "fd00:240::/64"]',
  (value) => isText(value) || (Array.isArray(value) && value.every(isText)),
)

function isNumberOfCalls(value: unknown): boolean {
  return Number.isInteger(value) && Number(value) >= 0 && Number(value) <= 100_000
}

const recordKeys = new Map<string, (value: unknown) => boolean>([
  ['keep', isNumberOfCalls],
  ['wrap', isText],
  ['answer', isObject],
])

function isRecordObject(value: unknown): boolean {
  return isObject(value) && Object.entries(value).every(([key, each]) => recordKeys.get(key)?.(each) === true)
}

const record = typedField<boolean | number | object>(
  'number',
  { what: 'a switch, a number of calls, or keep, wrap and answer', hint: 'use true, false or how many calls to keep' },
  (value) => typeof value === 'boolean' || isNumberOfCalls(value) || isRecordObject(value),
)

export const configSchema = group({
  type: text,
  mode: oneOf(['bridge', 'ptp', 'macvlan', 'host-device', 'loopback', 'chained']),
  podcidr,
  master: text,
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
  nonMasqueradeCIDRs: textsUpTo(MOST_DESTINATIONS),
  mtu,
  removeWhenEmpty: flag,
  allowOverlap: flag,
  ipam: optional(ipam),
  dns: optional(dns),
  args: optional(group({ cni: optional(argsCni) })),
  runtimeConfig: optional(runtimeConfig),
  portmap: optional(portmapKeys),
  firewall: optional(firewallKeys),
  bandwidth: optional(rates),
  tuning: optional(tuningKeys),
  sbr: optional(sbrKeys),
  record,
  ...attachmentKeys,
})

export type RawConfig = z.output<typeof configSchema>

/** The keys of a configuration of another plugin that delegates to us; its others mean what it says. */
export const ipamRoleSchema = group({
  type: text,
  ipam: optional(ipam),
  args: optional(group({ cni: optional(group({ ips: texts })) })),
  runtimeConfig: optional(group({ ipRanges: rangeSets, ips: texts })),
  record,
  ...attachmentKeys,
})

export const configKeys = keyShapeOf(configSchema)

export const ipamRoleKeys = keyShapeOf(ipamRoleSchema)
