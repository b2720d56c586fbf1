// SPDX-License-Identifier: Apache-2.0
// What `trestle lint` checks of a directory: what each runtime makes of it.

import type { CheckTexts } from './check-texts.ts'

export const directoryChecks = {
  'dir-missing': {
    severity: 'error',
    meaning: 'the directory of the configurations is not there',
    cause: 'no network was installed, or the runtime reads another directory: "cni plugin not initialized"',
    cure: 'make it and write a configuration there; restart containerd, which stops when its directory is removed',
  },
  'dir-unreadable': {
    severity: 'error',
    meaning: 'the directory of the configurations cannot be read',
    cause: 'it is no directory, or may not be read',
    cure: 'make it a directory of root, mode 755',
  },
  'dir-empty': {
    severity: 'error',
    meaning: 'no file of the directory is a configuration',
    cause: 'there is none whose name ends in .conflist, .conf or .json: "cni plugin not initialized"',
    cure: 'write one: `trestle try` without a file shows that the plugin works',
  },
  'dir-not-watched': {
    severity: 'warning',
    meaning: 'a running containerd does not watch the directory',
    cause: 'it was mounted over or made again after containerd started, or conf_dir of containerd is another one',
    cure: 'restart containerd; then keep the directory, and change the files in it',
  },
  'runtimes-differ': {
    severity: 'error',
    meaning: 'containerd and CRI-O use different files',
    cause: 'containerd takes the first file or none, CRI-O the first that is whole and whose plugins are installed',
    cure: 'leave one configuration in the directory; rename others to end in .disabled',
  },
  'containerd-stops': {
    severity: 'error',
    meaning: 'containerd loads nothing because of a file',
    cause: 'the first file in the order of names is broken: "cni config load failed", "cni plugin not initialized"',
    cure: 'correct the file, or rename it to end in .disabled',
  },
  'cri-o-skips': {
    severity: 'warning',
    meaning: 'CRI-O skips a file',
    cause: 'it is broken, or a plugin of it is missing, cannot be started or does not speak its cniVersion',
    cure: 'see the other findings of the file',
  },
  'cnitool-stops': {
    severity: 'warning',
    meaning: 'cnitool finds no network behind a broken file',
    cause: 'it reads .conflist files in the order of names, then .conf and .json, until the network is found',
    cure: 'correct the file, or rename it to end in .disabled',
  },
  'wrong-extension': {
    severity: 'note',
    meaning: 'no runtime reads a file',
    cause: 'its name does not end in .conflist, .conf or .json',
    cure: 'rename it if it is meant to be used',
  },
  'sorted-later': {
    severity: 'note',
    meaning: 'a file is no default network',
    cause: 'another one is before it in the order of names (10-a before 9-b, A before a)',
    cure: 'remove one of them, or rename so that the wanted one comes first',
  },
  'same-network': {
    severity: 'warning',
    meaning: 'two files have a network of the same name',
    cause: 'the first one is used, and state and rules of both are one',
    cure: 'give it a name of its own, or remove one file',
  },
  'bridge-shared': {
    severity: 'note',
    meaning: 'several networks have one bridge',
    cause:
      'the bridge has the address and the settings of the network that made it; another one is refused, or shares them',
    cure: 'give each network a bridge of its own, if they are not meant to be one segment',
  },
  'mark-bits-differ': {
    severity: 'warning',
    meaning: 'two networks ask for different bits of the packet mark',
    cause: 'firewall.acceptMarkBit is one for the node: the lowest is used for all',
    cure: 'use one bit in all configurations',
  },
  'subnets-overlap': {
    severity: 'warning',
    meaning: 'two networks of the node have overlapping subnets',
    cause: 'pods of both may get the same address, and routes lead to one of the two',
    cure: 'give each network a subnet of its own',
  },
} as const satisfies CheckTexts
