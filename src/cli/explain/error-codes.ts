// SPDX-License-Identifier: Apache-2.0
// Every error code: what it means, why it comes and what to do. `trestle explain` prints it, and the
// first table of docs/errors.md is made from it (a unit test compares them).

import { CniCode } from '../../cni/model/error-code.ts'

/** One code. `source`: the CNI specification's or ours. */
export interface ErrorCode {
  readonly code: number
  readonly source: 'CNI' | 'trestle'
  readonly meaning: string
  readonly cause: string
  readonly cure: string
}

type Texts = Omit<ErrorCode, 'code' | 'source'>

const texts: Readonly<Record<keyof typeof CniCode, Texts>> = {
  incompatibleVersion: {
    meaning: 'incompatible CNI version',
    cause: 'cniVersion is none that trestle speaks',
    cure: 'use a version that `trestle version` lists',
  },
  unsupportedField: {
    meaning: 'unsupported field',
    cause: 'a key has a value that trestle cannot honour',
    cure: 'the message names key and value: remove the key or use another value',
  },
  unknownContainer: {
    meaning: 'container unknown or gone',
    cause: 'the container does not exist any more',
    cure: 'nothing to do: the runtime does not call again',
  },
  invalidEnvironment: {
    meaning: 'invalid CNI_* variable',
    cause: 'a variable is missing or its value cannot be used, or CNI_NETNS is the namespace of the node',
    cure: 'the message names the variable; the caller has to change it',
  },
  ioFailure: {
    meaning: 'read or write failed',
    cause: 'standard input or a file under /run/trestle cannot be used',
    cure: 'make /run/trestle a directory of root, mode 755 or stricter, on a disk with free space',
  },
  decodingFailure: {
    meaning: 'not JSON',
    cause: 'the configuration is not one JSON object',
    cure: 'the message has line and column: correct the file',
  },
  invalidConfig: {
    meaning: 'invalid configuration',
    cause: 'a key has a wrong type or value, or keys contradict each other',
    cure: 'the message names the key, `details` what would be accepted',
  },
  tryAgainLater: {
    meaning: 'try again later',
    cause: 'another call holds the attachment or a lock, or a command took too long',
    cure: 'the runtime tries again; if it stays, `details` names the process that holds it',
  },
  notAvailable: {
    meaning: 'not ready',
    cause:
      'STATUS: a tool or a capability is missing, the pool or bridge is full, the range or bridge of a new ' +
      'network is in use, or the state cannot be used',
    cure: 'the message says which',
  },
  limitedConnectivity: {
    meaning: 'limited connectivity',
    cause: 'STATUS: new pods work, existing ones may be cut off',
    cure: 'the message says why',
  },
  commandFailed: {
    meaning: 'a command failed',
    cause: '`ip`, `nft` or another tool failed, is missing, or was refused by the kernel',
    cure: '`details` holds the command line and its stderr',
  },
  poolExhausted: {
    meaning: 'no free address',
    cause: 'every address of a range is in use by a live pod',
    cure: 'remove pods, or add a range to `ipam.ranges`',
  },
  addressUnavailable: {
    meaning: 'the requested address cannot be had',
    cause: 'it is in no range, a gateway, or held by another pod',
    cure: 'request another address; `details` names the holder',
  },
  attachmentExists: {
    meaning: 'already attached',
    cause: 'ADD for a container and interface that has had its ADD',
    cure: 'the runtime has to send DEL first; the live attachment is not touched',
  },
  hostPortTaken: {
    meaning: 'host port in use',
    cause: 'another pod has the port, or a process listens on it and `onListening` is `refuse`',
    cure: 'use another host port; the message or `details` names the holder',
  },
  delegateFailed: {
    meaning: 'the IPAM plugin failed',
    cause: 'the plugin of `ipam.type` is missing, crashed, or printed no error object',
    cure: 'install it into a directory of CNI_PATH, or use `ipam.type` `trestle`',
  },
  interrupted: {
    meaning: 'interrupted',
    cause:
      'the process got SIGTERM or SIGINT; what ADD had made was taken back, what another call held is left for a ' +
      'later one',
    cure: 'nothing to do: the runtime tries again',
  },
  checkFailed: {
    meaning: 'CHECK found differences',
    cause: 'an address, route, link, rule or setting is not as ADD made it',
    cure: '`details` lists every difference; delete the pod, or undo the change',
  },
  bridgeConflict: {
    meaning: 'the bridge cannot be used',
    cause: 'the interface named `bridge` is no bridge, has an address of another network, or has 1023 ports',
    cure: 'use another `bridge`, remove the address, or set `forceAddress`',
  },
  cleanupIncomplete: {
    meaning: 'cleaning up is incomplete',
    cause: 'something of an attachment could not be removed; its record keeps the cleanup as pending',
    cure: 'later calls try again; the address stays reserved until then',
  },
  rangeOverlap: {
    meaning: 'a range is in use on the node',
    cause:
      'a range with a gateway on the host overlaps the subnet of another interface, or of a network on another bridge',
    cure: 'use another range, or set `allowOverlap` if it is meant; `details` names what overlaps',
  },
  otherHost: {
    meaning: 'of another host network namespace',
    cause: 'the call runs in another network namespace than the ADD did: a runtime started there, a debug container',
    cure: 'nothing was changed; run the call where `details` says',
  },
  internal: {
    meaning: 'internal error',
    cause: 'a defect in trestle',
    cure: 'report it with `details`, the configuration and the output of `trestle version`',
  },
}

/** All codes, lowest first. */
export const errorCodes: readonly ErrorCode[] = Object.entries(CniCode)
  .map(([name, code]): ErrorCode => {
    const source = code < 100 ? 'CNI' : 'trestle'
    return { code, source, ...texts[name as keyof typeof CniCode] }
  })
  .sort((a, b) => a.code - b.code)

/** The table of docs/errors.md, a line each. */
export function errorCodeTable(): string {
  const rows = errorCodes.map(({ code, meaning, cause, cure }) => `| ${code} | ${meaning} | ${cause} | ${cure} |`)
  return ['| code | meaning | cause | what to do |', '|---|---|---|---|', ...rows].join('\n')
}
