// SPDX-License-Identifier: Apache-2.0
// Errors about what somebody has already or made otherwise: addresses, ports, bridges, other plugins, CHECK.

import type { SomeErrorTexts } from './error-texts.ts'

export const conflictErrors = {
  'pool-exhausted': {
    cause: 'every address of a range set is in use',
    cure: '`trestle gc` frees those of pods that are gone; else add a range, or use a larger subnet',
  },
  'requested-gateway': {
    cause: 'the requested address is the gateway of its subnet',
    cure: 'ask for another address, or for none',
  },
  'requested-outside-ranges': {
    cause: 'a requested address is in no range, or a second one of the same set',
    cure: 'ask for one address of each set; `details` lists the ranges',
  },
  'requested-taken': {
    cause: 'another pod holds the requested address',
    cure: 'ask for another address; `details` names the holder',
  },
  'address-reserved': {
    cause: '`trestle adopt` found the address of a pod reserved by another one',
    cure: 'see which of the two is alive; `trestle gc` frees what dead pods have',
  },
  'already-attached': {
    cause: 'ADD for a container and interface that has had its ADD',
    cure: 'the runtime has to send DEL first; the live attachment is not touched',
  },
  'port-reserved': {
    cause: 'another pod has the host port',
    cure: 'use another host port; `details` names the pod',
  },
  'port-listened-on': {
    cause: 'a process of the node listens on the host port, and portmap.onListening is "refuse"',
    cure: 'use another host port, stop the process, or set onListening to "warn"',
  },
  'ipam-plugin-missing': {
    cause: 'the plugin of `ipam.type` is in no directory of CNI_PATH',
    cure: 'install it there, or use `ipam.type` `trestle`',
  },
  'ipam-plugin-failed': {
    cause: 'the plugin of `ipam.type` crashed or was killed, and printed no error object',
    cure: '`details` has what it printed: see its own log',
  },
  'ipam-plugin-no-address': {
    cause: 'the plugin of `ipam.type` succeeded with a result without an address',
    cure: 'see its configuration: a range is missing, or none fits',
  },
  'ipam-plugin-no-result': {
    cause: 'the plugin of `ipam.type` printed something that is no result',
    cure: '`details` has what it printed: often a log line on stdout',
  },
  'ipam-plugin-refused': {
    cause: 'the plugin of `ipam.type` failed with an error of its own, which is passed on with its code',
    cure: 'look the code up in the documentation of that plugin',
  },
  'plugin-missing': {
    cause: 'a plugin of the list is not in the directory that was given',
    cure: 'install it there, or name its directory',
  },
  'plugin-failed': {
    cause: 'a plugin of the list failed and printed no error object',
    cure: '`details` has what it printed',
  },
  'plugin-refused': {
    cause: 'another plugin of the list failed with an error and a code of its own',
    cure: 'look the code up in the documentation of that plugin',
  },
  'attachment-differs': {
    cause: 'CHECK: an address, route, link, rule or setting is not as ADD made it',
    cure: '`details` lists every difference; `trestle restore`, delete the pod, or undo the change',
  },
  'loopback-down': {
    cause: 'CHECK: lo of the pod is down, or lacks its address',
    cure: '`details` has the command that sets it up; see what has set it down',
  },
  'bridge-wrong-kind': {
    cause: 'an interface of the name of the bridge is there, and is no bridge',
    cure: 'use another `bridge`',
  },
  'bridge-without-vlans': {
    cause: 'the bridge was made without VLAN filtering, and the configuration has vlan or vlanTrunk',
    cure: 'use another `bridge`, or switch it on: `details` has the command',
  },
  'bridge-foreign-address': {
    cause: 'the bridge has an address of another network: often one that another CNI plugin left',
    cure: 'use another `bridge`, remove the address, or set `forceAddress`; `details` says what is plugged in',
  },
  'bridge-ports-full': {
    cause: 'the bridge has 1023 ports, and Linux allows no more',
    cure: 'use a second network with another `bridge`',
  },
  'bridge-not-configured': {
    cause: '`trestle adopt` found a pod on another bridge than the configuration names',
    cure: 'use the configuration that the pod was made with',
  },
  'range-in-use': {
    cause: 'a range overlaps the subnet of another interface, or of a network on another bridge',
    cure: 'use another range, or set `allowOverlap` if it is meant; `details` names what overlaps',
  },
  'other-host': {
    cause: 'the call runs in another network namespace than the ADD did: a runtime started there, a debug container',
    cure: 'nothing was changed; run the call where `details` says',
  },
} as const satisfies SomeErrorTexts
