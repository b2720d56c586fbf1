// SPDX-License-Identifier: Apache-2.0
// Calls and configurations for the tests of commands.

import { type Call, type Environment, readCall, type Verb } from '../../../src/cni/call.ts'
import { CniError } from '../../../src/cni/errors.ts'
import type { NetworkConf, OwnConf } from '../../../src/config/network-conf.ts'
import { readConfig } from '../../../src/config/read-config.ts'

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

/** An ADD's configuration, read. Throws for a plugin that delegates to us: readAny. */
export function read(changes: Json = {}, env: Environment = {}, verb: Verb = 'ADD'): OwnConf {
  const conf = readAny(changes, env, verb)
  if (conf.mode === 'ipam') throw new Error('of another plugin')
  return conf
}

/** The configuration of any role, read. */
export function readAny(changes: Json = {}, env: Environment = {}, verb: Verb = 'ADD'): NetworkConf {
  return readConfig(configText(changes), callOf(verb, env))
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
