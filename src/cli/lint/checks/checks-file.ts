// SPDX-License-Identifier: Apache-2.0
// What `trestle lint` checks in one file: each with a stable id, how bad it is, why it comes and what to do.

import type { CheckTexts } from './check-texts.ts'
import { attachmentChecks } from './checks-attachment.ts'
import { addressChecks, programChecks } from './checks-plugins.ts'

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
    cause: 'it then is 0.1.0: a chained plugin gets no result before it, and there is no CHECK, STATUS or GC',
    cure: 'add "cniVersion": the newest one that every plugin of the file has',
  },
  'cni-version-unknown': {
    severity: 'error',
    meaning: 'the cniVersion is none',
    cause: 'plugins compare it letter by letter and refuse the call (code 1)',
    cure: 'use one of 0.1.0, 0.2.0, 0.3.0, 0.3.1, 0.4.0, 1.0.0, 1.1.0',
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
    cure: 'add "plugins": [ { "type": …, … } ], or name a file with one plugin .conf',
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
    cure: 'add "type": the file name of the plugin that is meant',
  },
  'two-main-plugins': {
    severity: 'error',
    meaning: 'two plugins of a list make an interface',
    cause: 'both are asked for the same name: the second ADD ends with "already exists"',
    cure: 'keep one of them; a second interface is a network of its own (Multus)',
  },
  placeholder: {
    severity: 'error',
    meaning: 'a placeholder was not replaced',
    cause: 'the file is a template: an installer, helm or envsubst fills it in, and did not run',
    cure: 'write the value, or let the installer write the file',
  },
  'network-attachment': {
    severity: 'error',
    meaning: 'the file is a NetworkAttachmentDefinition',
    cause: 'it is a resource of Kubernetes for Multus, and no configuration of a runtime',
    cure:
      'kubectl apply it, and take it out of this directory; `trestle lint FILE` ' +
      'looks at what is in its spec.config',
  },
  'attachment-config': {
    severity: 'error',
    meaning: 'spec.config of a NetworkAttachmentDefinition is no text',
    cause: 'Kubernetes takes text there, with JSON in it; without it Multus looks for a file of the network',
    cure: 'write it as a block: "config: |", and the JSON below it, indented',
  },
  'yaml-syntax': {
    severity: 'error',
    meaning: 'the file with a NetworkAttachmentDefinition is no YAML',
    cause: 'an indent, a quote or a bracket is not as YAML has it; kubectl takes none of it',
    cure: 'correct it at the place that is shown',
  },
  'chained-first': {
    severity: 'error',
    meaning: 'the first plugin of a list needs one before it',
    cause: 'it works on the interface that an earlier plugin made (prevResult); ADD is refused',
    cure: 'put the plugin that makes the interface first',
  },
  'chained-twice': {
    severity: 'error',
    meaning: 'a list has two chained entries of trestle',
    cause:
      'both get the same container and interface, and only the configuration tells them apart; ADD is refused (code 7)',
    cure: 'put the keys of both into one entry: it does all of them in one run',
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
    cause: '`type` is not the name of its file, which is "trestle" as a rule',
    cure: 'use "type": "trestle", or remove the key',
  },
  'wrong-type': {
    severity: 'error',
    meaning: 'a value is of the wrong type',
    cause: 'whoever reads it takes values of this kind only: ADD is refused, or the whole file',
    cure: 'write it as the kind of value that the message names',
  },
  'invalid-value': {
    severity: 'error',
    meaning: 'a value is out of its bounds, not one of the possible ones, or contradicts another',
    cause: 'ADD is refused with this message (code 7)',
    cure: 'the message says what to use',
  },
  'range-invalid': {
    severity: 'error',
    meaning: 'a range of addresses cannot be',
    cause: 'ADD is refused with this message (code 7)',
    cure: 'the message says what to use',
  },
  'ranges-overlap': {
    severity: 'error',
    meaning: 'two ranges of one pool overlap',
    cause: 'an address would be in both; ADD is refused (code 7)',
    cure: 'set rangeStart and rangeEnd to keep them apart',
  },
  'subnet-in-use': {
    severity: 'error',
    meaning: 'an interface of this node has a subnet that overlaps a range',
    cause: 'the bridge or a pod would get an address of the router or of the node; ADD is refused (code 110)',
    cure: 'use another range, or "allowOverlap": true if it is meant',
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
    meaning: 'a gateway is not in its subnet, or in none of the pod',
    cause: 'the kernel refuses a route by a gateway that the pod cannot reach',
    cure: 'use an address of the subnet, or leave it out for the first one',
  },
  'zone-opens-node': {
    severity: 'warning',
    meaning: "firewalld's zone opens the node's own ports to pods",
    cause:
      'hostAccept puts the bridge, or the subnets, into the zone; "trusted" also accepts what they send to the node',
    cure: 'name a zone in firewall.firewalldZone, or set hostAccept "off"; leave it where pods may reach the node',
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

/** Other firewalls of this node. */
const ofNode = {
  'drop-before-accept': {
    severity: 'note',
    meaning: "a rule of another firewall drops before trestle's accept",
    cause: "hostAccept stands behind the administrator's rules: what they drop stays dropped, also for pods",
    cure: 'nothing, where that is meant; else let the rule spare the packets of pods',
  },
} as const satisfies CheckTexts

export const fileChecks = { ...ofList, ...ofKeys, ...addressChecks, ...programChecks, ...ofNode, ...attachmentChecks }
