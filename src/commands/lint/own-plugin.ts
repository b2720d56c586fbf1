// SPDX-License-Identifier: Apache-2.0
// A plugin of type trestle: types by the plugin's own schema, values by the plugin's own reading of an ADD, so that
// lint and ADD never disagree.

import { safeParse } from 'zod/mini'
import { ownType, readCall } from '../../cni/call.ts'
import { CniError } from '../../cni/errors.ts'
import { complaint, type KeyShape, withKnownKeys } from '../../cni/fields.ts'
import { asObject, isObject, lookUp } from '../../cni/json.ts'
import { atLeast, type CniVersion } from '../../cni/results.ts'
import type { OwnConf } from '../../config/network-conf.ts'
import { readConfig } from '../../config/read-config.ts'
import { schemas } from '../../config/schema.ts'
import { withoutUnreadArgs } from '../../features/tuning.ts'
import type { Step } from '../json-text.ts'
import type { PluginEntry } from '../network-list.ts'
import { asOwn } from '../own-type.ts'
import type { Found } from './finding.ts'
import { unknownKeys } from './unknown-keys.ts'

/** Name and version of the list. */
export interface NetworkHead {
  readonly name: string
  readonly version: CniVersion
}

/** The findings, or the configuration that an ADD would read. */
interface OwnRead {
  readonly found: readonly Found[]
  readonly conf?: OwnConf
}

const mostErrors = 12

/** Reads one trestle plugin as ADD would: all wrong types, else the first wrong value. */
export function readOwn(entry: PluginEntry, head: NetworkHead): OwnRead {
  const wrongTypes = typeProblems(entry)
  if (wrongTypes.length > 0) return { found: wrongTypes }
  const sent = {
    ...asOwn({ ...entry.conf, type: String(entry.conf['type'] ?? ownType) }),
    ...fromRuntime(entry, head),
    type: ownType,
    name: head.name,
    cniVersion: head.version,
  }
  try {
    const conf = readConfig(JSON.stringify(sent), call)
    return conf.mode === 'ipam' ? { found: [] } : { found: [], conf }
  } catch (thrown) {
    if (!(thrown instanceof CniError)) throw thrown
    return { found: [problemOf(thrown, entry)] }
  }
}

function typeProblems({ conf, steps }: PluginEntry): readonly Found[] {
  const known = withoutUnreadArgs(asObject(withKnownKeys(conf, schemas.own.keys)))
  const parsed = safeParse(schemas.own.schema, known)
  if (parsed.success) return []
  return parsed.error.issues.slice(0, mostErrors).map((issue): Found => {
    const { id, message, details, path = [] } = complaint(issue, known, [])
    return { id, message, cure: details, steps: [...steps, ...path], isAboutValue: true }
  })
}

const call = readCall({
  CNI_COMMAND: 'ADD',
  CNI_CONTAINERID: 'example',
  CNI_NETNS: '/run/netns/example',
  CNI_IFNAME: 'eth0',
})

/** A runtime's additions: addresses for declared capabilities, and the result of the previous plugin. */
function fromRuntime({ conf, index }: PluginEntry, { version }: NetworkHead) {
  const declared = asObject(conf['capabilities'])
  const ipam = asObject(conf['ipam'])
  const hasRanges = ipam['subnet'] !== undefined || ipam['ranges'] !== undefined
  const runtimeConfig = {
    ...(declared['ipRanges'] === true && !hasRanges ? { ipRanges: [[{ subnet: '192.0.2.0/24' }]] } : {}),
    ...(declared['ips'] === true && ipam['type'] === 'static' ? { ips: ['192.0.2.9/24'] } : {}),
    ...(declared['deviceID'] === true ? { deviceID: '0000:00:00.0' } : {}),
  }
  return {
    ...(Object.keys(runtimeConfig).length > 0 ? { runtimeConfig } : {}),
    ...(index > 0 ? previous(version) : {}),
  }
}

function previous(version: CniVersion) {
  if (!atLeast(version, '0.3.0')) return { prevResult: { cniVersion: version, ip4: { ip: '192.0.2.2/24' } } }
  const interfaces = [{ name: 'eth0', mac: '0a:00:00:00:00:01', sandbox: '/run/netns/example' }]
  return {
    prevResult: { cniVersion: version, interfaces, ips: [{ version: '4', address: '192.0.2.2/24', interface: 0 }] },
  }
}

/** Errors about an absent key, which may only be misspelt. */
const absences: readonly string[] = ['ranges-missing', 'ipam-missing', 'device-keys']

function problemOf({ id, path = [], message, details }: CniError, { steps }: PluginEntry): Found {
  if (id === 'chained-first') return { id, message: 'mode chained needs a plugin before it', steps: [...steps, 'mode'] }
  const found = { id, message, cure: details, steps: [...steps, ...path] }
  return absences.includes(id) ? { ...found, isAbsence: true } : found
}

/** Keys of every plugin (libcni, types.PluginConf), and the labels of podman. */
const commonKeys = [
  'cniVersion',
  'name',
  'type',
  'capabilities',
  'ipam',
  'dns',
  'prevResult',
  'runtimeConfig',
  'labels',
]

/** Unknown keys; keys in `ipam` of another plugin are that plugin's. */
export function unknownOwnKeys(conf: PluginEntry['conf'], steps: readonly Step[]): readonly Found[] {
  const common = commonKeys.map((name) => [name.toLowerCase(), { name, shape: undefined }] as const)
  const shape: KeyShape = { keys: new Map([...common, ...(schemas.own.keys?.keys ?? [])]) }
  const found = unknownKeys(conf, steps, { shape, whole: shape, owner: 'trestle' })
  const ipam = lookUp(conf, 'ipam')
  const ipamType = isObject(ipam) ? (lookUp(ipam, 'type') ?? '') : ''
  const isOurs = ['host-local', 'static', '', ownType, lookUp(conf, 'type')].includes(ipamType)
  return isOurs ? found : found.filter((each) => String(each.steps?.[steps.length]).toLowerCase() !== 'ipam')
}

/** A plugin of another type with trestle as its IPAM: the keys in `ipam` are trestle's. */
export function lintIpamRole({ conf, steps }: PluginEntry, head: NetworkHead): readonly Found[] {
  const ipam = { ...asObject(conf['ipam']), type: ownType }
  const shape = schemas.ipamRole.keys?.keys?.get('ipam')?.shape
  const unknown = unknownKeys(conf['ipam'], [...steps, 'ipam'], { shape, whole: {}, owner: 'trestle' })
  const entry = { conf: { ipam, capabilities: conf['capabilities'] }, steps, index: 0 }
  return [...unknown, ...readOwn(entry, head).found]
}
