// SPDX-License-Identifier: Apache-2.0
// What a runtime would send for a pod, as options: host ports and limits (CNI CONVENTIONS.md, portMappings and
// bandwidth).

import type { PluginConf } from '../node/network-list.ts'
import { type Option, UsageError } from '../shell/command.ts'

/** The options, by their names. */
export const capabilityOptions = {
  port: {
    type: 'string',
    value: 'HOST:POD[/tcp|udp|sctp]',
    help: 'with these host ports, commas between, like 8080:80,53:53/udp',
  },
  bandwidth: {
    type: 'string',
    value: 'INGRESS[/EGRESS]',
    help: 'with these limits in bits a second, like 10M or 10M/500k',
  },
} as const satisfies Readonly<Record<string, Option>>

type Values = Readonly<Record<string, string | boolean | undefined>>

/** What goes into runtimeConfig, by capability. Throws UsageError for what no runtime would send. */
export function capabilityArgsOf({ port, bandwidth }: Values): Readonly<Record<string, unknown>> {
  return {
    ...(port === undefined ? {} : { portMappings: String(port).split(',').map(mappingOf) }),
    ...(bandwidth === undefined ? {} : { bandwidth: limitsOf(String(bandwidth)) }),
  }
}

/** Throws UsageError where the plugin does not declare what is given: a runtime then sends nothing. */
export function checkDeclared(plugin: PluginConf, capabilityArgs: Readonly<Record<string, unknown>>): void {
  const missing = Object.keys(capabilityArgs).find((name) => plugin.capabilities?.[name] !== true)
  if (missing === undefined) return
  const option = missing === 'portMappings' ? '--port' : '--bandwidth'
  throw new UsageError(
    `${option}: the configuration has no "capabilities": {"${missing}": true}, so no runtime sends it`,
  )
}

function mappingOf(text: string): Readonly<Record<string, unknown>> {
  const match = /^(\d{1,5}):(\d{1,5})(?:\/(tcp|udp|sctp))?$/.exec(text)
  const [, host, pod, protocol = 'tcp'] = match ?? []
  const [hostPort, containerPort] = [Number(host), Number(pod)]
  const arePorts = [hostPort, containerPort].every((each) => each >= 1 && each <= 65_535)
  if (!arePorts) throw new UsageError(`--port ${text}: use HOST:POD, like 8080:80 or 53:53/udp`)
  return { hostPort, containerPort, protocol }
}

const factors: Readonly<Record<string, number>> = {
  '': 1,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
}

function limitsOf(text: string): Readonly<Record<string, number>> {
  const [ingress = '', egress, ...more] = text.split('/')
  if (more.length > 0) throw new UsageError(`--bandwidth ${text}: use INGRESS or INGRESS/EGRESS, like 10M/5M`)
  return {
    ...(ingress === '' && egress !== undefined ? {} : { ingressRate: rateOf(ingress) }),
    ...(egress === undefined ? {} : { egressRate: rateOf(egress) }),
  }
}

/** Bits a second; the suffixes are those of Kubernetes' quantities. */
function rateOf(text: string): number {
  const [, digits = '', suffix = ''] = /^(\d{1,12}(?:\.\d{1,3})?)([kMG]i?|Ki)?$/.exec(text) ?? []
  const rate = Math.round(Number(digits) * (factors[suffix] ?? Number.NaN))
  if (digits === '' || !(rate > 0))
    throw new UsageError(`--bandwidth ${text}: use bits a second, like 10M, 500k or 1Gi`)
  return rate
}
