// SPDX-License-Identifier: Apache-2.0
// Of values: a key has one that its plugin does not know, two keys exclude each other, a pod asks for what it may not.

import { type KnownError, oneOf } from './known-error.ts'

/** Errors of values in configurations, calls and annotations. */
export const valueErrors: readonly KnownError[] = [
  {
    id: 'keys-contradict',
    pattern: oneOf(
      /cannot set hairpin mode and promisc\w* mode at the same time/,
      /minID and maxID should be configured simultaneously[^\n]{0,40}|minID is greater than maxID/,
      /incorrect trunk \w+ parameter|cannot use IPAM when DisableContainerInterface/,
      /if (?:rate|burst) is set, (?:rate|burst) must also be set/,
      /cannot specify externalSetMarkChain and markMasqBit|MasqMarkBit must be between/,
      /backend was requested but configuration contains \S+-specific options|'delegate' dictionary[^\n]{1,80}/,
      /vlan id must be configured to set vlan|dummy interface requires an IPAM configuration/,
      /can't have both annotations|specify either "[^"]+" or "[^"]+"|"master" field is required/,
      /configuration is expected to have a valid vrf name|interface needs to be set for ingress policy/,
      /gateways list (?:cannot contain|contains multiple)|duplicated sysctl keys/,
      /driver needs at least one subnet specified|ipam driver (?:is )?set but (?:no )?subnets are given/,
      /cannot set option "\w+" with driver|option is only supported with the bridge driver/,
      /internal is not supported with macvlan|cannot set vlan and vlanTrunk at the same time/,
      /hostname (?:cannot be set|is not currently supported) on (?:task group|driver)[^\n]{0,60}/,
      /task \S+ does not support "[^"]*" networking mode|want to initiate networking but only one driver can/,
      /subnets and \w+ cannot be both specified/,
      /ipam driver dhcp (?:set but subnets are set|is not supported with)|conflicts with an IPv[46] subnet/,
    ),
    who: 'a plugin',
    meaning: 'keys of its configuration exclude each other, or one is missing that another needs',
    causes: [
      'hairpinMode and promiscMode of bridge; minID without maxID; a rate without a burst; IPAM without an interface',
      'portmap: options of iptables (externalSetMarkChain, markMasqBit) beside another backend, or both of them',
      'flannel: `ipam` or `name` in `delegate`, which flannel fills by itself',
    ],
    look: ['trestle lint'],
    cure: 'keep one of the two, or add the one that the message names',
    checks: ['no-effect', 'invalid-value'],
  },
  {
    id: 'value-unknown',
    pattern: oneOf(
      /unknown (?:macvlan|ipvlan|macvtap|ipvtap) mode: "?[^"\n]{0,40}|unrecognized backend "[^"]*"/,
      /unknown ingress policy: "[^"]*"|unknown ipmasq backend "[^"]*"|unknown device_type "[^"]*"/,
      /invalid dataplane type: \S+|invalid link_state value: \S+|unknown --overlay-encap\S* option/,
      /burst cannot be more than 4GB|\binvalid (?:rate|burst): \d+/,
      /Invalid (?:container|host) port number: ?-?\d+|unsupported (?:ipam driver|VLAN type) \S+/,
      /requested (?:ip|mac)vlan (?:mode|flag) '[^']*' is not valid|rate and burst must be a positive integer/,
    ),
    who: 'a plugin',
    meaning: 'a key has a value that the plugin does not know, or one out of bounds',
    causes: ['it is misspelt', 'the plugin is older than the value (the nftables backends came with v1.5)'],
    look: ['trestle lint', 'ls -l /opt/cni/bin'],
    cure: 'use a value that the plugin has; `trestle lint` names those of the upstream plugins',
    checks: ['invalid-value'],
  },
  {
    id: 'network-unnamed',
    pattern:
      /error parsing configuration list: no name|missing network name|invalid characters (?:found in (?:the )?network name|detected in the given network name)|invalid network config name/i,
    who: 'libcni, a plugin, Multus',
    meaning: 'the network has no name, or one with characters that are not allowed',
    causes: ['"name" is missing at the top of the file', 'it has a blank or begins with none of a letter or digit'],
    look: ['trestle lint'],
    cure: 'give it a "name" of letters, digits, dots, dashes and underscores',
    checks: ['name-missing', 'name-invalid'],
    unless: /"code": ?\d{1,2}\b/,
  },
  {
    id: 'call-incomplete',
    pattern: oneOf(
      /required env variables \[[^\]]*\] missing|unknown CNI_COMMAND: ?\S*|unexpected or missing CNI_COMMAND/,
      /missing CNI_(?:ARGS|NETNS|CONTAINERID)|required CNI variable missing|invalid characters in containerID/,
      /plugin's netns and netns from CNI_NETNS should not be the same|missing K8S_POD_NAME(?:SPACE)?\b/,
      /interface name (?:is empty|is \. or \.\.|contains \/ or : or whitespace)/,
      /network name and namespace are required|(?:failed|error)[^\n]{0,200}: missing containerID/,
      /CNI_COMMAND is not (?:ADD|DEL)|required env variables missing/,
    ),
    who: 'a plugin',
    meaning: 'the call lacks a variable (CNI_COMMAND, CNI_NETNS, …), or has one that cannot be',
    causes: [
      'the plugin was started by hand or by a script, and not by a runtime',
      'CNI_NETNS is the namespace of the host: the process that it names is no container',
    ],
    look: ['env | grep CNI_'],
    cure: 'use cnitool or `trestle try`, which set them all; a runtime that does this has a defect: update it',
    unless: /"code": ?\d{1,2}\b/,
  },
  {
    id: 'annotation-refused',
    pattern: oneOf(
      /parsePodNetwork(?:Annotation|ObjectName): [^\n]{1,200}/,
      /cannot find a network-attachment-definition \(\)[^\n]{0,120}/,
      /namespace isolation enabled, annotation violates permission|more than one default network is specified/,
      /annotation "?[^"\n]{1,80}"? specified but empty/,
      /cannot have more than one IPv[46] address for "[^"]*" annotation|failed to parse '[^'\n]{0,120}' as JSON/,
      /ipAddrs(?:NoIpam)? is not compatible with configured IPAM/,
      /requested feature is not (?:enabled|supported for this runtime): \w+/,
      /multiple IPv[46] addresses in \S+ annotation|invalid IP "[^"]*" in \S+ annotation/,
      /failed to parse pod-ENI annotation/,
    ),
    who: 'Multus, Calico, Antrea',
    meaning: 'an annotation of the pod cannot be read, or asks for what the configuration of the node does not allow',
    causes: [
      'k8s.v1.cni.cncf.io/networks: no JSON, or no list of NAMESPACE/NAME@INTERFACE; an interface name over 15',
      'Multus with namespaceIsolation: the network is in another namespace, and not in globalNamespaces',
      'cni.projectcalico.org/ipAddrs: no JSON list of strings, two of one family, or without calico-ipam; ' +
        'ipAddrsNoIpam needs its feature_control',
    ],
    look: ["kubectl get pod POD -o jsonpath='{.metadata.annotations}'"],
    cure: 'correct the annotation, put the definition into the namespace of the pod, or allow it in the configuration',
  },
  {
    id: 'cilium-chaining',
    pattern: /CNI PrevResult supplied, but not in chaining mode/,
    who: 'the cilium plugin',
    meaning: 'cilium stands behind another plugin in the list, and was not told that it is chained',
    causes: [
      'the list was made by hand, without "chaining-mode" at the entry of cilium',
      "another network's list was joined with Cilium's by an installer",
    ],
    look: ['trestle lint', 'cat /etc/cni/net.d/05-cilium.conflist'],
    cure:
      'set cni.chainingMode of Cilium (generic-veth, aws-cni, portmap) and let it write the list; alone it has to ' +
      'be the first plugin',
  },
]
