// SPDX-License-Identifier: Apache-2.0
// What `trestle lint` checks of plugins of any kind: their addresses, and their programs.

import type { CheckTexts } from './check-texts.ts'

/** Addresses and routes that a plugin takes and that are yet not meant. */
export const addressChecks = {
  'range-edge': {
    severity: 'warning',
    meaning: 'a range ends on the network or broadcast address, or a pod has it',
    cause: 'host-local and static give it to a pod when they are told to; others on the network do not talk to it',
    cure: 'leave the first and the last address of the subnet out',
  },
  'range-public': {
    severity: 'note',
    meaning: 'pods get addresses of the Internet',
    cause: 'the range is none of the private ones: pods do not reach whoever owns it',
    cure: 'use a private range (10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16), if it is not yours',
  },
  'addresses-missing': {
    severity: 'warning',
    meaning: 'static gives no address',
    cause: 'neither `addresses` is there nor the capability `ips`',
    cure: 'add "addresses": [ { "address": "10.1.2.3/24" } ], or "capabilities": {"ips": true}',
  },
  'ipam-type-missing': {
    severity: 'warning',
    meaning: 'ipam has keys and no type',
    cause: 'without a type no IPAM plugin is asked: ADD goes well, and the pod has no address',
    cure: 'add "type": "host-local" to ipam, or the IPAM plugin whose keys these are',
  },
  'no-default-route': {
    severity: 'warning',
    meaning: 'pods are masqueraded and have no default route',
    cause: '`isDefaultGateway` is not set, and `routes` of ipam has none',
    cure: 'add "isDefaultGateway": true (bridge), or "routes": [ { "dst": "0.0.0.0/0" } ] to ipam',
  },
  'gateway-of-nobody': {
    severity: 'warning',
    meaning: "the pods' default route goes to an address that nobody has",
    cause:
      'ipam takes the first address of the range for the gateway, and the bridge does not have it without isGateway',
    cure:
      'add "isGateway": true, or name the router of the network as "gateway" of the range; ' +
      'where pods are to stay among themselves, remove the default route',
  },
} as const satisfies CheckTexts

/** The programs that `type` and `ipam.type` name. */
export const programChecks = {
  'bin-dir-missing': {
    severity: 'warning',
    meaning: 'the directory of the plugins is not there',
    cause: 'nothing is installed, or the runtime uses another directory; types are not checked',
    cure: 'name it with --bin-dir (containerd: bin_dirs; CRI-O: plugin_dirs)',
  },
  'plugin-missing': {
    severity: 'error',
    meaning: 'the directory of the plugins has no file of this name',
    cause: 'ADD ends with "failed to find plugin"; containerd calls the node ready all the same',
    cure: 'install it, or correct `type`',
  },
  'plugin-not-executable': {
    severity: 'error',
    meaning: 'the plugin cannot be started',
    cause: 'its mode has no x, it is no regular file, or its file system is mounted noexec',
    cure: 'chmod 755 it',
  },
  'plugin-wrong-format': {
    severity: 'error',
    meaning: 'the plugin is no program of this machine',
    cause: 'it is for another architecture, cut short, or a text without #!: "exec format error"',
    cure: 'install the build for this machine',
  },
  'plugin-version': {
    severity: 'error',
    meaning: 'the plugin does not speak this cniVersion',
    cause: 'its VERSION does not list it, or it does not answer; CRI-O skips the file, containerd fails each ADD',
    cure: 'use a version that all plugins of the file list, or a newer plugin',
  },
} as const satisfies CheckTexts
