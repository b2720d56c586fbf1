// SPDX-License-Identifier: Apache-2.0
// A runtime's data of a pod, as options of `plan` and `add`: the capabilities of CNI CONVENTIONS.md.

import { type Option, UsageError } from './command.ts'
import type { PluginConf } from './network-list.ts'

/** The options that every command with a pod's data has. */
export const capabilityOptions = {
  port: {
    type: 'string',
    value: 'HOST:POD[/tcp|udp|sctp]',
    many: true,
    help: 'add host ports, separated by commas or repeated, like 8080:80,53:53/udp',
  },
  bandwidth: {
    type: 'string',
    value: 'INGRESS[/EGRESS]',
    help: 'limit what goes into the pod, and out of it: bits a second, like 10M/500k',
  },
  ip: { type: 'string', value: 'ADDRESS', many: true, help: 'ask for addresses, separated by commas or repeated' },
  mac: { type: 'string', value: 'MAC', help: 'ask for a MAC address' },
} as const satisfies Readonly<Record<string, Option>>

type Values = Readonly<Record<string, string | boolean | undefined>>

/** The contents of runtimeConfig by capability. Throws UsageError for values that no runtime would send. */
export function capabilityArgsOf({ port, bandwidth, ip, mac }: Values): Readonly<Record<string, unknown>> {
  return {
    ...(port === undefined ? {} : { portMappings: String(port).split(',').map(mappingOf) }),
    ...(bandwidth === undefined ? {} : { bandwidth: limitsOf(String(bandwidth)) }),
    ...(ip === undefined ? {} : { ips: String(ip).split(',') }),
    ...(mac === undefined ? {} : { mac }),
  }
}

const optionOf: Readonly<Record<string, string>> = {
  portMappings: '--port',
  bandwidth: '--bandwidth',
  ips: '--ip',
  mac: '--mac',
}

/** Throws UsageError for a capability that no plugin declares, because a runtime sends nothing for it. */
export function checkDeclared(plugins: readonly PluginConf[], names: readonly string[]): void {
  const missing = names.find((name) => !plugins.some(({ capabilities }) => capabilities?.[name] === true))
  if (missing === undefined) return
  throw new UsageError(
    `${optionOf[missing] ?? missing}: the configuration has no "capabilities": {"${missing}": true}, ` +
      `so a runtime sends no ${missing}`,
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
    ...(ingress === '' && egress !== undefined ? {} : { ingressRate: rateOf(ingress, text) }),
    ...(egress === undefined ? {} : { egressRate: rateOf(egress, text) }),
  }
}

/** Bits per second, with the suffixes of Kubernetes' quantities. `whole`: as the person wrote it. */
function rateOf(text: string, whole: string): number {
  const [, digits = '', suffix = ''] = /^(\d{1,12}(?:\.\d{1,3})?)([kMG]i?|Ki)?$/.exec(text) ?? []
  const rate = Math.round(Number(digits) * (factors[suffix] ?? Number.NaN))
  if (digits === '' || !(rate > 0))
    throw new UsageError(`--bandwidth ${whole}: use bits a second, like 10M, 500k or 1Gi`)
  return rate
}
