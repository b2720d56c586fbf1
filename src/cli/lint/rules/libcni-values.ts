// SPDX-License-Identifier: Apache-2.0
// What libcni itself wants of a plugin, whoever made it: values that Go's decoder reads (types.PluginConf; with one of
// another type the whole file is refused) and types that are names of files (pkg/invoke/find.go, FindInPath).

import { lookUp } from '../../../cni/json/json-keys.ts'
import { isObject } from '../../../cni/json/json-object.ts'
import type { Found } from '../checks/finding.ts'
import type { Step } from '../json/json-places.ts'
import { keyPathOf, shown } from '../json/key-path.ts'
import type { PluginEntry } from './list.ts'
import { type Kind, text, texts, valueProblem } from './other-values.ts'

const object = (cure: string): Kind => ({ what: 'an object', isType: isObject, cure })
const capabilities = object('use "capabilities": { "portMappings": true }, each name with true')
const ipam = object('use "ipam": { "type": "host-local", … }')
const dns = object('use "dns": { "nameservers": [ "…" ] }')
const ofDns = { nameservers: texts, domain: text, search: texts, options: texts }

const cause = 'libcni refuses the whole file: "error parsing configuration"'

/** Values of the keys that every plugin has. Those in `capabilities` are another rule's. */
export function libcniProblems({ conf, steps }: PluginEntry): readonly Found[] {
  const check = (value: unknown, kind: Kind, path: readonly string[]): readonly Found[] =>
    valueProblem(value, kind, [...steps, ...path])
  const [ipamValue, dnsValue] = [lookUp(conf, 'ipam'), lookUp(conf, 'dns')]
  const found = [
    ...check(lookUp(conf, 'capabilities'), capabilities, ['capabilities']),
    ...check(ipamValue, ipam, ['ipam']),
    ...(isObject(ipamValue) ? check(lookUp(ipamValue, 'type'), text, ['ipam', 'type']) : []),
    ...check(dnsValue, dns, ['dns']),
    ...(isObject(dnsValue)
      ? Object.entries(ofDns).flatMap(([key, kind]) => check(lookUp(dnsValue, key), kind, ['dns', key]))
      : []),
  ]
  return found.map((each) => ({ ...each, cause }))
}

type PathFound = Found & { readonly cause: string; readonly cure: string }

/** A path where the name of a file has to be; undefined where it is a name. */
export function pathAsType(type: unknown, steps: readonly Step[]): PathFound | undefined {
  if (typeof type !== 'string' || !type.includes('/')) return undefined
  const name = type.split('/').findLast((part) => part !== '') ?? ''
  const message = `${keyPathOf(steps)}: ${shown(type)} is a path, and has to be the name of a file`
  const why = 'runtimes look for it in their directories of plugins: "invalid plugin name"'
  return { id: 'invalid-value', message, cause: why, cure: `write ${shown(name)}`, steps, isAboutValue: true }
}
