// SPDX-License-Identifier: Apache-2.0
// Files of other plugins with something to find in each, and files with nothing: values as the upstream plugins and
// Go take them, ranges, routes, templates, and files that are something else.

import { type cases, upstream } from './file-cases.ts'

const pool = { type: 'host-local', subnet: '10.1.2.0/24' }
const bridge = (more: object, ipam: object = pool) =>
  upstream({ type: 'bridge', isDefaultGateway: true, ipMasq: true, ipam, ...more })
const chained = (plugin: object) =>
  `{"cniVersion":"1.1.0","name":"n","plugins":[\n${JSON.stringify({ type: 'ptp', ipam: pool })},\n${JSON.stringify(plugin)}]}`

export const otherCases: typeof cases = [
  [
    'a good bridge',
    bridge({ bridge: 'cni0', mtu: 1450, hairpinMode: true, vlan: 100, dns: { nameservers: ['10.1.2.1'] } }),
    [],
  ],
  ['a bridge for layer 2', upstream({ type: 'bridge', bridge: 'br0', ipam: {} }), []],
  ['a value of null', bridge({ mtu: null }), []],
  ['a good chain', chained({ type: 'portmap', snat: true, capabilities: { portMappings: true } }), []],
  [
    'an mtu in quotes',
    bridge({ mtu: '1450' }),
    ['wrong-type "1450" plugins[0].mtu: "1450" is not an MTU: 0, or 68 to 65535 bytes'],
  ],
  [
    'an mtu out of bounds, that of lo',
    bridge({ mtu: 65536 }),
    ['invalid-value 65536 plugins[0].mtu: 65536 is not an MTU: 0, or 68 to 65535 bytes'],
  ],
  [
    'a flag in quotes',
    bridge({ hairpinMode: 'true' }),
    ['wrong-type "true" plugins[0].hairpinMode: "true" is not true or false'],
  ],
  [
    'a name that is too long',
    bridge({ bridge: 'bridge-of-the-pods' }),
    [
      'invalid-value "bridge-of-the-pods" plugins[0].bridge: "bridge-of-the-pods" is not a name of an interface: 1 to 15 bytes, without /, : and blanks',
    ],
  ],
  [
    'a VLAN that is none',
    bridge({ vlan: 5000 }),
    ['invalid-value 5000 plugins[0].vlan: 5000 is not a whole number from 0 to 4094'],
  ],
  [
    'a mode of macvlan that is none',
    upstream({ type: 'macvlan', master: 'eth0', mode: 'bridged', ipam: { type: 'dhcp' } }),
    ['invalid-value "bridged" plugins[0].mode: "bridged" is not one of "bridge", "private", "vepa", "passthru"'],
  ],
  [
    'a policy that does not exist',
    chained({ type: 'firewall', ingressPolicy: 'closed' }),
    ['invalid-value "closed" plugins[1].ingressPolicy: "closed" is not one of "open", "same-bridge", "isolated"'],
  ],
  [
    'a backend that does not exist',
    chained({ type: 'portmap', backend: 'nft' }),
    ['invalid-value "nft" plugins[1].backend: "nft" is not one of "iptables", "nftables"'],
  ],
  [
    'a rate in quotes',
    chained({ type: 'bandwidth', egressRate: '1M', egressBurst: 8000 }),
    [
      'wrong-type "1M" plugins[1].egressRate: "1M" is not a whole number from 0 to 9007199254740991, in bits (a second)',
    ],
  ],
  [
    'a sysctl without quotes',
    chained({ type: 'tuning', sysctl: { 'net.core.somaxconn': 500 } }),
    ['wrong-type {"net.core.somaxconn" plugins[1].sysctl: {"net.core.somaxconn":500} is not an object of texts'],
  ],
  [
    'portmap without its capability',
    chained({ type: 'portmap' }),
    ['capability-missing {"type" portmap does nothing without the capability portMappings: no pod gets a host port'],
  ],
  [
    'portmap with ports in the file',
    chained({ type: 'portmap', runtimeConfig: { portMappings: [] } }),
    ['runtime-config-in-file "runtimeConfig" runtimeConfig comes from a runtime, and is in the file'],
  ],
  [
    'a subnet that is none',
    bridge({}, { type: 'host-local', subnet: '10.1.2.0' }),
    ['range-invalid "subnet" ipam.subnet: invalid range set 0: invalid CIDR address: 10.1.2.0'],
  ],
  [
    'host bits',
    bridge({}, { type: 'host-local', subnet: '10.1.2.7/24' }),
    [
      'range-invalid "subnet" ipam.subnet: invalid range set 0: Network has host bits set. For a subnet mask of length 24 the network address is 10.1.2.0',
    ],
  ],
  [
    'host-local without a range',
    bridge({}, { type: 'host-local' }),
    ['range-invalid "ipam" ipam: no IP ranges specified'],
  ],
  ['a range from the runtime', bridge({ capabilities: { ipRanges: true } }, { type: 'host-local' }), []],
  [
    'a range that ends on the broadcast address',
    bridge({}, { ...pool, rangeStart: '10.1.2.201', rangeEnd: '10.1.2.255' }),
    ['range-edge "10.1.2.255" ipam.rangeEnd: 10.1.2.255 is the broadcast address of 10.1.2.0/24'],
  ],
  [
    'a gateway outside the subnet',
    bridge({}, { ...pool, gateway: '10.1.3.1' }),
    ['gateway-outside-subnet "10.1.3.1" ipam.gateway: 10.1.3.1 is not in 10.1.2.0/24'],
  ],
  [
    'addresses of the Internet',
    bridge({}, { type: 'host-local', subnet: '20.0.0.0/24' }),
    [
      'range-public "20.0.0.0/24" ipam.subnet: 20.0.0.0/24 are addresses of the Internet: pods cannot reach their owners',
    ],
  ],
  [
    'static without addresses',
    bridge({}, { type: 'static' }),
    ['addresses-missing "ipam" static has no addresses, and the capability ips is not declared: the pod gets none'],
  ],
  ['static with addresses from the runtime', bridge({ capabilities: { ips: true } }, { type: 'static' }), []],
  [
    'masquerade without a default route',
    bridge({ isDefaultGateway: false, isGateway: true }),
    ['no-default-route "ipMasq" ipMasq is set, and pods have no default route'],
  ],
  [
    'a default route to nobody',
    bridge({ isDefaultGateway: false, ipMasq: false }, { ...pool, routes: [{ dst: '0.0.0.0/0' }] }),
    ['gateway-of-nobody "routes" the default route goes to 10.1.2.1, which does not exist: the bridge is no gateway'],
  ],
  [
    'a default route to the router of the network',
    bridge(
      { isDefaultGateway: false, ipMasq: false },
      { ...pool, gateway: '10.1.2.254', routes: [{ dst: '0.0.0.0/0' }] },
    ),
    [],
  ],
  [
    'two plugins that make the interface',
    chained({ type: 'macvlan', master: 'eth0', ipam: { type: 'dhcp' } }),
    ['two-main-plugins "macvlan" macvlan makes the interface of the pod, and ptp before it does, too'],
  ],
  [
    'a plugin that trestle stands in for',
    upstream({ type: 'trestle', record: { wrap: 'ptp' }, ipam: pool, bridge: 'br0' }),
    [
      'record-stands-in "record" trestle runs "ptp" and records each call',
      'unknown-key "bridge" ptp has no key plugins[0].bridge',
    ],
  ],
  [
    'a template of Calico',
    upstream({ type: 'calico', mtu: 1, kubernetes: { kubeconfig: '__KUBECONFIG_FILEPATH__' } }),
    [
      'placeholder "__KUBECONFIG_FILEPATH__" plugins[0].kubernetes.kubeconfig: "__KUBECONFIG_FILEPATH__" is a placeholder that was not replaced',
    ],
  ],
  [
    'a template with a value that is no JSON',
    '{"cniVersion":"1.1.0","name":"n","plugins":[{"type":"calico","mtu": __CNI_MTU__}]}',
    ['placeholder __CNI_MTU__ __CNI_MTU__ was not replaced'],
  ],
  [
    'a variable in place of a range',
    bridge({}, { type: 'host-local', subnet: '$POD_CIDR' }),
    ['placeholder "$POD_CIDR" plugins[0].ipam.subnet: "$POD_CIDR" is a placeholder that was not replaced'],
  ],
  [
    'a word in place of a range',
    bridge({}, { type: 'host-local', subnet: 'SUBNET' }),
    ['placeholder "SUBNET" plugins[0].ipam.subnet: "SUBNET" is a placeholder that was not replaced'],
  ],
  [
    'a template of helm',
    '{"cniVersion":"1.1.0","name":"n","plugins":[{"type":"bridge","mtu": {{ .Values.mtu }}}]}',
    ['placeholder {{ {{ .Values.mtu }} was not replaced'],
  ],
  [
    'typographic quotes',
    upstream({ type: 'bridge', bridge: 'br0' }).replace('"name"', '“name”').replace('"br0"', '“br0”'),
    ['json-syntax “name” “ is a typographic quote: JSON has " only'],
  ],
  [
    'UTF-16 without its mark',
    '{\u0000"\u0000n\u0000',
    ['json-syntax {\u0000"\u0000n\u0000 the file is not UTF-8: UTF-16, as Windows tools save it'],
  ],
  [
    'a ConfigMap',
    'apiVersion: v1\nkind: ConfigMap\ndata:\n  cni-conf.json: |\n    {}\n',
    ['json-syntax apiVersion this is a ConfigMap of Kubernetes in YAML, and no configuration'],
  ],
  [
    'UTF-16',
    '\ufffd\ufffd{\u0000"\u0000',
    ['json-syntax \ufffd\ufffd{\u0000"\u0000 the file is not UTF-8: UTF-16, as Windows tools save it'],
  ],
  [
    'a NetworkAttachmentDefinition as JSON',
    '{"apiVersion":"k8s.cni.cncf.io/v1","kind":"NetworkAttachmentDefinition","spec":{"config":"{}"}}',
    ['network-attachment "kind" this is a NetworkAttachmentDefinition'],
  ],
  [
    'a NetworkAttachmentDefinition as YAML',
    'apiVersion: k8s.cni.cncf.io/v1\nkind: NetworkAttachmentDefinition\n',
    ['network-attachment apiVersion this is a NetworkAttachmentDefinition in YAML'],
  ],
]
