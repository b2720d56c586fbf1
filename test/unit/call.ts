// SPDX-License-Identifier: Apache-2.0
// Calls, configurations and specs for the tests of the plugin.

import { type Call, type Environment, readCall, type Verb } from '../../src/cni/call.ts'
import { CniError } from '../../src/cni/errors.ts'
import type { InterfaceConf, NetworkConf, OwnConf } from '../../src/config/network-conf.ts'
import { readConfig } from '../../src/config/read-config.ts'
import { type Description, describe } from '../../src/drivers/describe.ts'
import { makesInterface } from '../../src/drivers/drivers.ts'
import type { AttachmentId, PodAddress, Spec } from '../../src/drivers/spec.ts'
import type { ObservedLink, Place } from '../../src/kernel/observed.ts'

export type Json = Readonly<Record<string, unknown>>

/** A complete environment for `verb`, with changes; a variable set to undefined is absent. */
export function envFor(verb: string, changes: Environment = {}): Environment {
  return {
    CNI_COMMAND: verb,
    CNI_CONTAINERID: 'some-container-id',
    CNI_NETNS: '/some/netns/path',
    CNI_IFNAME: 'eth0',
    CNI_ARGS: '',
    CNI_PATH: '/some/cni/path',
    ...changes,
  }
}

/** A call of `verb` with such an environment. */
export function callOf(verb: Verb, changes: Environment = {}): Call {
  return readCall(envFor(verb, changes))
}

/** The smallest useful configuration, with changes; a key set to undefined is absent. */
export function configText(changes: Json = {}): string {
  return JSON.stringify({ cniVersion: '1.1.0', name: 'net', type: 'trestle', ...changes })
}

/** The configuration of any role, read. */
export function readAny(changes: Json = {}, env: Environment = {}, verb: Verb = 'ADD'): NetworkConf {
  return readConfig(configText(changes), callOf(verb, env))
}

/** An ADD's configuration, read. Throws for a plugin that delegates to us: readAny. */
export function read(changes: Json = {}, env: Environment = {}, verb: Verb = 'ADD'): OwnConf {
  const conf = readAny(changes, env, verb)
  if (conf.mode === 'ipam') throw new Error('of another plugin')
  return conf
}

export const id: AttachmentId = { network: 'net', containerId: 'some-container-id', ifName: 'eth0', role: 'main' }

export const v4: PodAddress = { address: '10.1.0.2/24', gateway: '10.1.0.1' }
export const v6: PodAddress = { address: 'fd00:1::2/64', gateway: 'fd00:1::1' }

/** The configuration of a mode that makes an interface. */
export function readInterface(changes: Json): InterfaceConf {
  const conf = read(changes)
  if (!makesInterface(conf)) throw new Error(`mode ${conf.mode} makes no interface`)
  return conf
}

/** The spec of an ADD with this configuration, whose lease has both addresses. */
export function specOf(changes: Json, more: Partial<Description> = {}): Spec {
  const conf = readInterface(changes)
  const lease = { addresses: [v4, v6], routes: [] }
  return describe({ id, conf, lease, node: { mtu: 1500, machineId: 'machine' }, ...more })
}

/** A link as the kernel shows it. */
export function linkOf(name: string, more: Partial<ObservedLink> = {}): ObservedLink {
  const flags = { up: true, promisc: false, allmulti: false, txQLen: 1000, addresses: [] }
  return { name, index: 1, mac: '02:00:00:00:00:02', mtu: 1500, ...flags, ...more }
}

export function placeOf(...links: readonly ObservedLink[]): Place {
  return { links: new Map(links.map((link) => [link.name, link])), routes: [] }
}

/** The CniError that `run` throws; a test that expects one fails when there is none. */
export function errorOf(run: () => unknown): CniError {
  try {
    run()
  } catch (thrown) {
    if (thrown instanceof CniError) return thrown
    throw thrown
  }
  throw new Error('nothing was thrown')
}

/** An error as one line for comparing: `(code) message`. */
export function lineOf(error: CniError): string {
  return `(${error.code}) ${error.message}`
}
