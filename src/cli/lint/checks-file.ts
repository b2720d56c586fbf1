// SPDX-License-Identifier: Apache-2.0
// What `trestle lint` checks in one file: each with a stable id, how bad it is, why it comes and what to do.

import type { CheckTexts } from './check-texts.ts'

/** Whether the text can be read at all, and what a list is made of. */
const ofList = {
  'file-unreadable': {
    severity: 'error',
    meaning: 'the file cannot be read',
    cause: 'it is a broken link, no regular file, or of a type or mode that cannot be read',
    cure: 'make it a regular file that root can read',
  },
  'file-empty': {
    severity: 'error',
    meaning: 'the file is empty',
    cause: 'it was made and never written, or is being written',
    cure: 'write it elsewhere and move it here in one step, or remove it',
  },
  'json-syntax': {
    severity: 'error',
    meaning: 'the file is not JSON',
    cause: 'a comma, quote or bracket too many or too few, or a comment',
    cure: 'correct the text where the caret points, or just before',
  },
  'not-an-object': {
    severity: 'error',
    meaning: 'the file is JSON, and no configuration',
    cause: 'a configuration is one object, at most 64 levels deep',
    cure: 'use { "cniVersion": …, "name": …, "plugins": [ … ] }',
  },
  'duplicate-key': {
    severity: 'warning',
    meaning: 'an object has a key twice',
    cause: 'readers take the last one',
    cure: 'remove one of them',
  },
  'name-missing': {
    severity: 'error',
    meaning: 'the network has no name',
    cause: '`name` is missing, empty or no text',
    cure: 'add "name": "pods"',
  },
  'name-invalid': {
    severity: 'error',
    meaning: 'the name of the network is not allowed',
    cause: 'plugins refuse it (code 7)',
    cure: 'use letters, digits, _, . and -; the first is a letter or digit',
  },
  'cni-version-missing': {
    severity: 'warning',
    meaning: 'there is no cniVersion',
    cause: 'it then is 0.1.0: no chaining, no CHECK, no STATUS, no GC',
    cure: 'add "cniVersion": "1.1.0"',
  },
  'cni-version-unknown': {
    severity: 'error',
    meaning: 'the cniVersion is none',
    cause: 'plugins compare it letter by letter and refuse the call (code 1)',
    cure: 'use one of 0.1.0, 0.2.0, 0.3.0, 0.3.1, 0.4.0, 1.0.0, 1.1.0',
  },
  'cni-version-too-old': {
    severity: 'error',
    meaning: 'the cniVersion is too old for what the file uses',
    cause: 'the key or the chain came with a later version',
    cure: 'use "cniVersion": "1.1.0"',
  },
  'cni-version-old': {
    severity: 'note',
    meaning: 'runtimes do not use every verb with this cniVersion',
    cause: 'CHECK came with 0.4.0, STATUS and GC with 1.1.0',
    cure: 'use "cniVersion": "1.1.0" where runtime and plugins have it',
  },
  'plugins-missing': {
    severity: 'error',
    meaning: 'a list has no plugins',
    cause: '`plugins` is missing, empty or no list: runtimes say "no \'plugins\' key" or "no plugin configs found"',
    cure: 'add "plugins": [ { "type": "trestle", … } ], or name a file with one plugin .conf',
  },
  'list-in-conf': {
    severity: 'error',
    meaning: 'a list is in a .conf or .json file',
    cause: 'only .conflist files may have `plugins`: runtimes find no type',
    cure: 'rename it to .conflist',
  },
  'type-missing': {
    severity: 'error',
    meaning: 'a plugin has no type',
    cause: '`type` is the file name of the plugin; without it the whole file is refused',
    cure: 'add "type": "trestle"',
  },
  'chained-first': {
    severity: 'error',
    meaning: 'the first plugin of a list needs one before it',
    cause: 'it works on the interface that an earlier plugin made (prevResult); ADD is refused',
    cure: 'put the plugin that makes the interface first',
  },
} as const satisfies CheckTexts

/** Keys and values. */
const ofKeys = {
  'unknown-key': {
    severity: 'warning',
    meaning: 'nobody reads a key',
    cause: 'plugins ignore keys that they do not know',
    cure: 'correct its spelling or place, or remove it',
  },
  'key-of-trestle': {
    severity: 'warning',
    meaning: 'a key of trestle is in the configuration of another plugin',
    cause: '`type` is not "trestle", which is the name of its file',
    cure: 'use "type": "trestle", or remove the key',
  },
  'wrong-type': {
    severity: 'error',
    meaning: 'a value is of the wrong type or not one of the possible ones',
    cause: 'text where a number is expected, a list where an object is, …; ADD is refused (code 7)',
    cure: 'the message says what to use',
  },
  'invalid-value': {
    severity: 'error',
    meaning: 'a value cannot be, or contradicts another',
    cause: 'ADD is refused with this message (code 7)',
    cure: 'the message says what to use',
  },
  'range-invalid': {
    severity: 'error',
    meaning: 'a range of addresses cannot be',
    cause: 'host bits set, too small, or an end outside its subnet; ADD is refused (code 7)',
    cure: 'the message says what to use',
  },
  'ranges-overlap': {
    severity: 'error',
    meaning: 'two ranges of one pool overlap',
    cause: 'an address would be in both; ADD is refused (code 7)',
    cure: 'set rangeStart and rangeEnd to keep them apart',
  },
  'unsupported-value': {
    severity: 'error',
    meaning: 'trestle cannot do what a value asks for',
    cause: 'it is for iptables, and leaving it out would change something; ADD is refused (code 2)',
    cure: 'remove the key or use another value',
  },
  'no-effect': {
    severity: 'warning',
    meaning: 'a key is accepted and does nothing',
    cause: 'it is for iptables, for another mode, or not there yet',
    cure: 'remove it, if what it asks for is not needed',
  },
  experimental: {
    severity: 'warning',
    meaning: 'a feature is experimental',
    cause: 'it was not run on a kernel that has it',
    cure: 'try it with `trestle try` on this node first',
  },
  'gateway-outside-subnet': {
    severity: 'warning',
    meaning: 'the gateway is not in its subnet',
    cause: 'the kernel refuses a route by a gateway that the pod cannot reach',
    cure: 'use an address of the subnet, or leave it out for the first one',
  },
  'masquerade-without-gateway': {
    severity: 'warning',
    meaning: 'ipMasq is set, and pods have no gateway on the node',
    cause: 'without isGateway or isDefaultGateway nothing of the pods comes through the node to be masqueraded',
    cure: 'add "isDefaultGateway": true, or remove ipMasq',
  },
  'capability-missing': {
    severity: 'warning',
    meaning: 'a feature waits for a capability that is not declared',
    cause: 'a runtime sends only what `capabilities` names',
    cure: 'declare it in `capabilities`',
  },
  'capability-unknown': {
    severity: 'warning',
    meaning: 'no runtime sends this capability',
    cause: 'its name is none of the conventions',
    cure: 'correct its spelling or remove it',
  },
  'runtime-config-in-file': {
    severity: 'warning',
    meaning: 'runtimeConfig is in the file',
    cause: 'a runtime puts it in for each pod: every pod would get these values',
    cure: 'remove it, and declare the capability',
  },
} as const satisfies CheckTexts

/** The programs that `type` and `ipam.type` name. */
const ofPrograms = {
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
  'type-not-trestle': {
    severity: 'error',
    meaning: 'trestle is installed under another name',
    cause: 'with a `type` that is not "trestle" it takes itself for the IPAM plugin of another one',
    cure: 'name the file trestle, and use "type": "trestle"',
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

export const fileChecks = { ...ofList, ...ofKeys, ...ofPrograms }
