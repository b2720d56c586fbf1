// SPDX-License-Identifier: Apache-2.0
// A runtime's data of a pod, as options of `plan` and `add`: the capabilities of CNI CONVENTIONS.md.

import { type Option, UsageError } from './command.ts'
import { orElse } from './if-there.ts'
import type { PluginConf } from './network-list.ts'

/** The options that every command with a pod's data has. */
export const capabilityOptions = {
  port: {
    type: 'string',
    value: 'HOST:POD[/tcp|udp|sctp]',
    many: true,
    help: 'add host ports, separated by commas or repeated, like 8080:80,53:53/udp',
  },
  cap: {
    type: 'string',
    value: 'NAME=JSON',
    many: true,
    help: `add a capability, like 'bandwidth={"ingressRate":8000}'`,
  },
} as const satisfies Readonly<Record<string, Option>>

type Values = Readonly<Record<string, string | boolean | undefined>>

/** The contents of runtimeConfig by capability. Throws UsageError for values that no runtime would send. */
export function capabilityArgsOf({ port, cap = '' }: Values): Readonly<Record<string, unknown>> {
  const named = String(cap)
    .split('\n')
    .filter((text) => text !== '')
  const entries = named.map((text): readonly [string, unknown] => {
    const [, name, json = ''] = /^([\w.-]+)=([\s\S]+)$/.exec(text) ?? []
    const value = orElse((): unknown => JSON.parse(json), undefined)
    if (name !== undefined && value !== undefined) return [name, value]
    throw new UsageError(`--cap ${text}: use NAME=JSON, like mac="02:00:00:00:00:09"`)
  })
  const ports = port === undefined ? [] : [['portMappings', String(port).split(/[,\n]/).map(mappingOf)] as const]
  return Object.fromEntries([...ports, ...entries])
}

/** Throws UsageError for a capability that no plugin declares, because a runtime sends nothing for it. */
export function checkDeclared(plugins: readonly PluginConf[], names: readonly string[]): void {
  const missing = names.find((name) => !plugins.some(({ capabilities }) => capabilities?.[name] === true))
  if (missing === undefined) return
  const declared = `"capabilities": {"${missing}": true}`
  throw new UsageError(`the configuration has no ${declared}, so a runtime sends no ${missing}`)
}

function mappingOf(text: string): Readonly<Record<string, unknown>> {
  const match = /^(\d{1,5}):(\d{1,5})(?:\/(tcp|udp|sctp))?$/.exec(text)
  const [, host, pod, protocol = 'tcp'] = match ?? []
  const [hostPort, containerPort] = [Number(host), Number(pod)]
  const arePorts = [hostPort, containerPort].every((each) => each >= 1 && each <= 65_535)
  if (!arePorts) throw new UsageError(`--port ${text}: use HOST:POD, like 8080:80 or 53:53/udp`)
  return { hostPort, containerPort, protocol }
}
