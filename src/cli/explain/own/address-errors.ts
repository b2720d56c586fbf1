// SPDX-License-Identifier: Apache-2.0
// Errors about the addresses and routes of a configuration.

import type { SomeErrorTexts } from './error-texts.ts'

export const addressErrors = {
  'ipam-missing': {
    cause: 'the mode needs addresses, and neither podcidr nor ipam is there',
    cure: 'use podcidr, or ipam with a type',
  },
  'ipam-type-missing': {
    cause: 'ipam has ranges or addresses and no type',
    cure: 'add "type": "trestle" for ranges, "static" for addresses',
  },
  'ipam-type-foreign': {
    cause: 'another plugin delegates to trestle, and ipam.type names a third one',
    cure: 'make ipam.type trestle',
  },
  'ipam-without-interface': {
    cause: 'disableContainerInterface makes no interface that could have the address',
    cure: 'remove ipam and podcidr, or disableContainerInterface',
  },
  'podcidr-with-ipam': {
    cause: 'podcidr is a short form of ipam, and both are there',
    cure: 'use one of the two',
  },
  'podcidr-count': {
    cause: 'podcidr takes one range, or one of each address family',
    cure: 'use ipam.ranges for others',
  },
  'podcidr-invalid': {
    cause: 'podcidr is no range in CIDR notation',
    cure: 'use one like "10.240.0.0/24"',
  },
  'range-subnet': {
    cause: 'a subnet is missing, no CIDR, too small for a gateway and a pod, or has host bits',
    cure: '`details` has the network as it has to be written',
  },
  'range-bound': {
    cause: 'rangeStart or rangeEnd is no address, outside of the subnet, or they are the wrong way round',
    cure: '`details` has the bounds; leave both out to use the whole subnet',
  },
  'range-gateway': {
    cause: 'a gateway is no address, of the other family, or the network or broadcast address',
    cure: 'leave it out: the default is the first address of the subnet',
  },
  'range-set-empty': {
    cause: 'a range set is an empty list',
    cure: 'give it a range, or leave it out',
  },
  'range-set-families': {
    cause: 'a pod gets one address of a range set, and the set has IPv4 and IPv6',
    cure: 'put IPv4 and IPv6 into sets of their own',
  },
  'ranges-missing': {
    cause: 'ipam has no range, and the runtime sent none',
    cure: 'add ipam.ranges, ipam.subnet or podcidr, or the capability ipRanges',
  },
  'ranges-overlap': {
    cause: 'two ranges of the configuration have addresses in common',
    cure: 'use other subnets, or keep the ranges apart with rangeStart and rangeEnd',
  },
  'ranges-too-many': {
    cause: 'there are more than 64 ranges',
    cure: 'use fewer and larger ones',
  },
  'exclude-invalid': {
    cause: 'an entry of ipam.exclude is no address or CIDR, or has host bits and could mean either',
    cure: '`details` has both ways to write it',
  },
  'static-address-missing': {
    cause: 'ipam.type is static, and neither the configuration nor the runtime gives an address',
    cure: 'add ipam.addresses, or the capability ips',
  },
  'static-address-invalid': {
    cause: 'a static address is no address with a prefix length',
    cure: 'use one like "10.1.2.3/24"',
  },
  'static-gateway-invalid': {
    cause: 'the gateway of a static address is no address of the same family',
    cure: 'use one like the address, or leave it out',
  },
  'address-per-family': {
    cause: 'a result of cniVersion 0.1.0 or 0.2.0 holds one address of each family, and more are configured',
    cure: 'use cniVersion 1.0.0, or one address of each family',
  },
  'requested-address-invalid': {
    cause: 'the address that was asked for is none',
    cure: 'correct what asks for it: an annotation of the pod, CNI_ARGS or args.cni.ips',
  },
  'gateway-missing': {
    cause: 'mode ptp routes the pod through its gateway, and its address has none',
    cure: 'give the address a gateway, or use mode bridge',
  },
  'route-destination': {
    cause: 'the dst of a route is no CIDR',
    cure: 'use one like "0.0.0.0/0"',
  },
  'route-gateway': {
    cause: 'the gw of a route is no address of the family of its dst',
    cure: 'use an address of the same family, or leave it out',
  },
  'prefix-invalid': {
    cause: 'an entry of a list of prefixes is no CIDR',
    cure: 'use one like "10.0.0.0/8"',
  },
} as const satisfies SomeErrorTexts
