// SPDX-License-Identifier: Apache-2.0
// The numbers of CNI errors, and the id of every way in which a call of trestle can fail. A code says what kind of
// failure it is, its id which one: ids are stable, stand at the end of `msg`, and `trestle explain` knows each
// (catalogue/errors.yaml).

/** Error codes. Numbers below 100: CNI spec 1.1.0, section 5. */
export const CniCode = {
  incompatibleVersion: 1,
  unsupportedField: 2,
  unknownContainer: 3,
  invalidEnvironment: 4,
  ioFailure: 5,
  decodingFailure: 6,
  invalidConfig: 7,
  tryAgainLater: 11,
  notAvailable: 50,
  limitedConnectivity: 51,
  commandFailed: 100,
  poolExhausted: 101,
  addressUnavailable: 102,
  attachmentExists: 103,
  hostPortTaken: 104,
  delegateFailed: 105,
  interrupted: 106,
  checkFailed: 107,
  bridgeConflict: 108,
  cleanupIncomplete: 109,
  rangeOverlap: 110,
  internal: 999,
} as const

/** One of the numbers in `CniCode`, or another plugin's own code passed on. */
export type CniCodeNumber = number

/** The ids of each code. An id that a finding of `trestle lint` has too means the same there. */
export const idsOfCode = {
  incompatibleVersion: ['version-unsupported', 'verb-needs-newer-version'],
  unsupportedField: ['unsupported-value'],
  invalidEnvironment: [
    ...['variable-missing', 'variable-invalid', 'verb-unknown', 'cni-args-invalid', 'word-unsafe'],
    ...['interface-missing', 'interface-name-taken', 'netns-unusable', 'pod-of-a-runtime'],
  ],
  ioFailure: [
    ...['stdin-unreadable', 'stdin-not-closed', 'stdin-too-long', 'state-unusable'],
    ...['file-refused', 'resolv-conf-unreadable', 'sysctl-allowlist-invalid', 'netns-not-visible'],
    ...['input-unreadable', 'record-missing', 'output-unwritable', 'runtime-silent'],
  ],
  decodingFailure: ['not-json', 'not-an-object', 'json-too-deep', 'version-invalid', 'record-unreadable'],
  invalidConfig: [
    ...['wrong-type', 'invalid-value', 'network-name-missing', 'network-name-invalid', 'plugin-type-invalid'],
    ...['attachment-incomplete', 'attachment-too-large', 'chained-first', 'chained-twice'],
    ...['prev-result-missing', 'prev-result-invalid', 'result-invalid', 'version-needs-address'],
    ...['ipam-missing', 'ipam-type-missing', 'ipam-type-foreign', 'ipam-without-interface', 'key-needs-addresses'],
    ...['podcidr-with-ipam', 'podcidr-count', 'podcidr-invalid'],
    ...['range-subnet', 'range-bound', 'range-gateway', 'range-set-empty', 'range-set-families'],
    ...['ranges-missing', 'ranges-overlap', 'ranges-too-many', 'range-without-addresses', 'exclude-invalid'],
    ...['static-address-missing', 'static-address-invalid', 'static-gateway-invalid'],
    ...['address-per-family', 'requested-address-invalid', 'gateway-missing', 'gateway-unreachable'],
    ...['route-destination', 'route-gateway', 'prefix-invalid', 'bridge-name', 'vlan-trunk', 'hairpin-and-promiscuous'],
    ...['master-not-there', 'master-unusable', 'mtu-above-master'],
    ...['device-keys', 'device-form', 'device-not-there', 'device-unusable', 'device-in-use'],
    ...['mtu-below-ipv6', 'mac-address'],
    ...[
      'sysctl-key',
      'sysctl-repeated',
      'sysctl-not-allowed',
      'sysctl-disables-ipv6',
      'burst-without-rate',
      'rate-too-low',
    ],
    ...['bandwidth-without-veth', 'policy-without-veth', 'sbr-gateways'],
    'sbr-without-address',
    ...['port-mapping-incomplete', 'port-mapped-twice', 'port-protocol', 'port-host-ip', 'ports-without-route'],
    ...['element-unsafe', 'loopback-other-address', 'list-invalid', 'list-without-trestle'],
    ...['list-not-convertible', 'network-not-there', 'not-attached'],
  ],
  tryAgainLater: [
    ...['attachment-busy', 'lock-held', 'command-too-slow', 'killed-call-at-work', 'killed-call-not-visible'],
    'cleanup-not-recorded',
  ],
  notAvailable: [
    ...['not-ready-state', 'not-ready-tool', 'not-ready-pool'],
    ...['not-ready-ipam'],
    ...['api-server-unknown', 'needs-root', 'try-not-possible', 'replay-not-possible'],
  ],
  commandFailed: [
    ...['command-failed', 'command-missing', 'command-not-started', 'command-output-too-long', 'network-not-seen'],
    ...['firewall-accept', 'ipv6-not-there', 'sysctl-not-set', 'duplicate-address'],
    ...['address-tentative', 'listener-not-started'],
  ],
  poolExhausted: ['pool-exhausted'],
  addressUnavailable: ['requested-gateway', 'requested-outside-ranges', 'requested-taken'],
  attachmentExists: ['already-attached'],
  hostPortTaken: ['port-reserved'],
  delegateFailed: [
    ...['ipam-plugin-missing', 'ipam-plugin-failed', 'ipam-plugin-no-result'],
    ...['ipam-plugin-refused', 'plugin-missing', 'plugin-failed', 'plugin-refused'],
  ],
  interrupted: ['call-interrupted'],
  checkFailed: ['attachment-differs', 'loopback-down'],
  bridgeConflict: ['bridge-wrong-kind', 'bridge-without-vlans', 'bridge-foreign-address', 'bridge-ports-full'],
  cleanupIncomplete: ['cleanup-incomplete'],
  rangeOverlap: ['range-in-use', 'network-changed'],
  internal: ['internal-error'],
} as const satisfies Readonly<Partial<Record<keyof typeof CniCode, readonly string[]>>>

type IdsOfCode = typeof idsOfCode

export type ErrorId = IdsOfCode[keyof IdsOfCode][number]

const codesAndIds: readonly (readonly [string, readonly string[]])[] = Object.entries(idsOfCode)

export function codeOfId(id: ErrorId): CniCodeNumber {
  const [name] = codesAndIds.find(([, ids]) => ids.includes(id)) ?? ['internal']
  return CniCode[name as keyof typeof CniCode]
}

export function isErrorId(text: string): text is ErrorId {
  return codesAndIds.some(([, ids]) => ids.includes(text))
}
