// SPDX-License-Identifier: Apache-2.0
// Files with something to find in each, and the findings as `id TOKEN message`.

/** A list with one trestle, on one line each. */
function list(plugin: object, more: object = {}): string {
  const head = { cniVersion: '1.1.0', name: 'pods', ...more }
  return `${JSON.stringify(head).slice(0, -1)},\n"plugins": [\n${JSON.stringify({ type: 'trestle', ...plugin })}\n]}`
}
const pool = (ipam: object, more: object = {}) => list({ ipam: { type: 'host-local', ...ipam }, ...more })
const net = { podcidr: '10.240.0.0/24' }
const fixed = { type: 'static', addresses: [{ address: '10.1.2.7/24' }] }
/** A list with one plugin of any type. */
const upstream = (plugin: object) => `{"cniVersion":"1.1.0","name":"n","plugins":[\n${JSON.stringify(plugin)}]}`

/** Title, text, findings in order, file name. */
export const cases: readonly (readonly [title: string, text: string, found: readonly string[], file?: string])[] = [
  ['nothing', ' \n', ['file-empty - there is nothing in it']],
  [
    'a comma after the last entry (cilium#8474: broken JSON)',
    list(net).replace('\n]}', ',\n]}'),
    ['json-syntax , a comma before "]"'],
  ],
  ['half a file', '{"name": "n", "plu', ['json-syntax end the text ends too early']],
  ['a comment', list(net).replace('\n', '\n// net\n'), ['json-syntax // JSON has no comments']],
  ['a comment of another kind', list(net).replace('\n', '\n/* net\n */'), ['json-syntax /* JSON has no comments']],
  ['a byte order mark', `\ufeff${list(net)}`, ['json-syntax ﻿ the file begins with a byte order mark']],
  [
    'a second error after the first, and what is wrong besides',
    list({ podcidr: '10.240.0.0/99', mtu: 1500 }).replace(',"mtu"', '\n"mtu"').replace('\n]}', '\n,]}'),
    [
      'podcidr-invalid "podcidr" podcidr: "10.240.0.0/99" is not a range in CIDR notation',
      'json-syntax "mtu" expected a comma',
      'json-syntax , a comma before "]"',
    ],
  ],
  ['two objects', '{}\n{}', ['json-syntax { more text after the JSON value']],
  ['a list of lists', '\n[]', ['not-an-object [ [] is not an object']],
  ['a key twice', list(net).replace('"name"', '"name":"a","name"'), ['duplicate-key "name" "name" is there twice']],
  ['no name', list(net, { name: undefined }), ['name-missing {"cniVersion" the network has no name']],
  ['a name that is a number', list(net, { name: 7 }), ['name-missing "name" name: 7 is no text']],
  [
    'a name with a space',
    list(net, { name: 'a b' }),
    ['name-invalid "name" name: "a b" has characters that are not allowed'],
  ],
  [
    'no cniVersion',
    list(net, { cniVersion: undefined }),
    ['cni-version-missing {"name" there is no cniVersion: it counts as 0.1.0'],
  ],
  [
    'a cniVersion that is short',
    list(net, { cniVersion: '1.1' }),
    ['cni-version-unknown "1.1" cniVersion: "1.1" is no version of CNI; did you mean "1.1.0"?'],
  ],
  [
    'a cniVersion that is a number',
    list(net, { cniVersion: 1.1 }),
    ['wrong-type "cniVersion" cniVersion: 1.1 is no text'],
  ],
  ['several versions', list(net, { cniVersion: undefined, cniVersions: ['0.4.0', '1.1.0'] }), []],
  ['no plugins', '{"cniVersion":"1.1.0","name":"n"}', ['plugins-missing {"cniVersion" no \'plugins\' key']],
  [
    'an empty list',
    '{"cniVersion":"1.1.0","name":"n","plugins":[]}',
    ['plugins-missing "plugins" plugins: the list is empty'],
  ],
  [
    'plugins of another case',
    '{"cniVersion":"1.1.0","name":"n","Plugins":[]}',
    [
      'plugins-missing "Plugins" no \'plugins\' key',
      'unknown-key "Plugins" a list has no key Plugins; did you mean "plugins"?',
    ],
  ],
  [
    'a list named .conf',
    list(net),
    ['list-in-conf "plugins" this is a list of plugins, and the file is not named .conflist'],
    '10-x.conf',
  ],
  ['a plugin without a type', upstream({ ...net }), ['type-missing {"podcidr" the plugin has no type']],
  ['a plugin whose type is a number', upstream({ type: 7 }), ['type-missing "type" type: 7 is no text']],
  [
    'a misspelt key (cilium#8474: bad fields)',
    list({ podcdir: '10.0.0.0/8' }),
    ['unknown-key "podcdir" trestle has no key plugins[0].podcdir; did you mean "podcidr"?'],
  ],
  [
    'a key in another place',
    list({ ...net, snat: false }),
    ['unknown-key "snat" trestle has no key plugins[0].snat; it belongs to portmap'],
  ],
  [
    'a key of a list that is misspelt',
    list(net, { disableChek: true }),
    ['unknown-key "disableChek" a list has no key disableChek; did you mean "disableCheck"?'],
  ],
  [
    'a key of a range that is misspelt',
    pool({ ranges: [[{ subnet: '10.1.0.0/24', rangestop: '10.1.0.9' }]] }),
    ['unknown-key "rangestop" trestle has no key plugins[0].ipam.ranges[0][0].rangestop; did you mean "rangeStart"?'],
  ],
  ['remarks', list({ ...net, _comment: 'x', '//': 'y' }), []],
  ['keys in another case', list({ PodCIDR: '10.240.0.0/24', IPMASQ: true }), []],
  [
    'values of a wrong type',
    list({ ...net, hairpinMode: 'yes', mtu: '1500' }),
    [
      'wrong-type "yes" hairpinMode: "yes" is not true or false',
      'wrong-type "1500" mtu: "1500" is not "auto" or an MTU',
    ],
  ],
  [
    'a switch of the list',
    list(net, { disableCheck: 'maybe' }),
    ['wrong-type "disableCheck" disableCheck: "maybe" is not true or false'],
  ],
  [
    'values that cannot be: the first one, at which ADD stops',
    list({ ...net, bridge: 'a b', nonMasqueradeCIDRs: ['x'] }),
    ['prefix-invalid "x" nonMasqueradeCIDRs[0]: "x" is not a prefix in CIDR notation'],
  ],
  [
    'a range with host bits',
    pool({ subnet: '10.1.0.9/24' }),
    [
      'range-subnet "subnet" ipam.subnet: invalid range set 0: Network has host bits set. For a subnet mask of length 24 the network address is 10.1.0.0',
    ],
  ],
  [
    'ranges that overlap',
    pool({ ranges: [[{ subnet: '10.1.0.0/24' }], [{ subnet: '10.1.0.0/16' }]] }),
    ['ranges-overlap [{"subnet" ipam.ranges[1]: range set 0 overlaps with 1'],
  ],
  [
    'a chain of iptables',
    list({ ...net, firewall: { iptablesAdminChainName: 'MINE' } }),
    [
      'unsupported-value "iptablesAdminChainName" unsupported value of firewall.iptablesAdminChainName: "MINE"',
      'no-effect "iptablesAdminChainName" firewall.iptablesAdminChainName has no effect: trestle has no chain in iptables',
    ],
  ],
  [
    'keys of another mode',
    list({
      ...{ mode: 'ptp', ...net, bridge: 'cni0', hairpinMode: false, tuning: { dataDir: '/x' } },
      firewall: { ingressPolicy: 'isolated', hostAccept: 'auto' },
    }),
    [
      'no-effect "bridge" bridge has no effect: with mode ptp it is not read',
      'no-effect "dataDir" tuning.dataDir has no effect: earlier values are kept in /run/trestle',
    ],
  ],
  [
    'keys of another mode: macvlan has no host side',
    list({ ...net, mode: 'macvlan', ipMasq: true, isGateway: true, portIsolation: true }),
    [
      'no-effect "ipMasq" ipMasq has no effect: with mode macvlan it is not read',
      'no-effect "isGateway" isGateway has no effect: with mode macvlan it is not read',
      'no-effect "portIsolation" portIsolation has no effect: with mode macvlan it is not read',
    ],
  ],
  [
    'keys of host-device and of macvlan in another mode',
    list({ ...net, mode: 'ptp', device: 'eth1', master: 'eth0' }),
    [
      'no-effect "device" device has no effect: with mode ptp it is not read',
      'no-effect "master" master has no effect: with mode ptp it is not read',
    ],
  ],
  [
    'keys of host-device',
    list({ mode: 'host-device', device: 'eth1', macvlanMode: 'vepa', ipMasq: true }),
    [
      'no-effect "macvlanMode" macvlanMode has no effect: with mode host-device it is not read',
      'key-needs-addresses "ipMasq" ipMasq: needs addresses, and there is no ipam',
      'no-effect "ipMasq" ipMasq has no effect: with mode host-device it is not read',
    ],
  ],
  [
    'no device, and no runtime that names it',
    list({ mode: 'host-device' }),
    ['device-keys {"type" device: no device is named'],
  ],
  ['a device that the runtime names', list({ mode: 'host-device', capabilities: { deviceID: true } }), []],
  [
    'two devices',
    list({ mode: 'host-device', device: 'eth1', pciBusID: '0000:3b:02.1' }),
    ['device-keys "device" device: names a device, and so does pciBusID'],
  ],
  [
    'sysctls of a pod without a tuning key',
    list({ ...net, args: { cni: { sysctl: { 'net.core.somaxconn': '2' }, mtu: 1400, mac: '02:00:00:00:00:01' } } }),
    [
      'no-effect "sysctl" args.cni.sysctl has no effect: args.cni changes sysctls and link settings only beside "tuning": {}',
      'no-effect "mtu" args.cni.mtu has no effect: args.cni changes sysctls and link settings only beside "tuning": {}',
    ],
  ],
  [
    'a wrong MTU of a pod without a tuning key',
    list({ ...net, args: { cni: { mtu: '1400' } } }),
    ['no-effect "mtu" args.cni.mtu has no effect: args.cni changes sysctls and link settings only beside "tuning": {}'],
  ],
  ['sysctls of a pod with a tuning key', list({ ...net, tuning: {}, args: { cni: { promisc: true } } }), []],
  [
    'two chained entries of trestle, one under the name of a version',
    JSON.stringify({
      cniVersion: '1.1.0',
      name: 'n',
      plugins: [
        { type: 'ptp', ipam: { type: 'host-local', subnet: '10.1.0.0/24' } },
        { type: 'trestle', tuning: { mtu: 1400 } },
        { type: 'trestle-v2', mode: 'chained', tuning: { promisc: true } },
      ],
    }).replaceAll('{"type"', '\n{"type"'),
    ['chained-twice "trestle-v2" trestle is chained twice: it is plugins[1] already'],
  ],
  [
    'a gateway outside its subnet (cilium#8474: bad fields)',
    pool({ ranges: [[{ subnet: '10.1.0.0/24', gateway: '10.2.0.1' }]] }, { isDefaultGateway: true }),
    ['gateway-outside-subnet "10.2.0.1" ipam.ranges[0][0].gateway: 10.2.0.1 is not in 10.1.0.0/24'],
  ],
  [
    'portmap without its capability',
    list({ ...net, portmap: { snat: true } }),
    [
      'capability-missing "portmap" portmap is set, and the capability portMappings is not declared: no pod gets a host port',
    ],
  ],
  [
    'a misspelt capability',
    list({ ...net, capabilities: { portMapping: true } }),
    ['capability-unknown "portMapping" no runtime sends the capability "portMapping"; did you mean "portMappings"?'],
  ],
  [
    'the capability by which containerd and CRI-O send annotations',
    list({ ...net, capabilities: { 'io.kubernetes.cri.pod-annotations': true } }),
    [],
  ],
  [
    'a runtimeConfig',
    list({ ...net, runtimeConfig: { mac: '02:00:00:00:00:01' } }),
    ['runtime-config-in-file "runtimeConfig" runtimeConfig comes from a runtime, and is in the file'],
  ],
  [
    'a chained plugin that comes first',
    list({ mode: 'chained', sbr: {} }),
    ['chained-first "mode" mode chained needs a plugin before it'],
  ],
  [
    'host ports of an interface without an end on the host',
    list({ ...net, mode: 'macvlan', capabilities: { portMappings: true } }),
    ['no-effect "portMappings" mode macvlan has no end on the host: an ADD with a host port is refused'],
  ],
  [
    'host ports of a device',
    list({ mode: 'host-device', device: 'eth1', capabilities: { portMappings: true } }),
    ['no-effect "portMappings" mode host-device has no end on the host: an ADD with a host port is refused'],
  ],
  ['host ports of a veth', list({ ...net, capabilities: { portMappings: true } }), []],
  [
    'a range that has only its gateway',
    pool({ subnet: '10.1.0.0/30', exclude: ['10.1.0.2'] }),
    [
      'range-without-addresses "ipam" ipam: range set 0 has no address for a pod: its gateway and excluded addresses are all that it holds',
    ],
  ],
  [
    'the same by rangeStart and rangeEnd',
    pool({ subnet: '10.1.0.0/24', rangeStart: '10.1.0.1', rangeEnd: '10.1.0.1' }),
    [
      'range-without-addresses "ipam" ipam: range set 0 has no address for a pod: its gateway and excluded addresses are all that it holds',
    ],
  ],
  ['a range for one pod', pool({ subnet: '10.1.0.0/30' }), []],
  [
    'sysctls of a family that pods have no address of',
    list({
      ...net,
      tuning: { sysctl: { 'net.ipv6.conf.IFNAME.hop_limit': '9', 'net.ipv4.conf.all.arp_notify': '1' } },
    }),
    ['no-effect "sysctl" net.ipv6.conf.IFNAME.hop_limit has no effect: pods have no IPv6 address'],
  ],
  [
    'the same of IPv4, whose settings of TCP are for both',
    list({ podcidr: 'fd00:1::/64', tuning: { sysctl: { 'net/ipv4/neigh/lo/delay': '1', 'net.ipv4.tcp_rmem': '1' } } }),
    ['no-effect "sysctl" net/ipv4/neigh/lo/delay has no effect: pods have no IPv4 address'],
  ],
  [
    'sysctls that keep IPv6 from a link without a range of it, or get an address there',
    list({
      ...net,
      tuning: { sysctl: { 'net.ipv6.conf.IFNAME.disable_ipv6': '1', 'net.ipv6.conf.all.accept_ra': '2' } },
    }),
    [],
  ],
  [
    'sysctls of a family that a runtime may send a range of',
    pool({}, { capabilities: { ipRanges: true }, tuning: { sysctl: { 'net.ipv6.conf.IFNAME.hop_limit': '9' } } }),
    [],
  ],
  [
    'sbr with fixed addresses and no gateway',
    list({ ipam: fixed, sbr: {} }),
    ['no-effect "sbr" sbr has no gateway: its table gets only the route to the subnet'],
  ],
  ['sbr with a gateway of its own', list({ ipam: fixed, sbr: { gateways: ['10.1.2.1'] } }), []],
  // Plugins of other types.
  [
    'keys and values, which other plugins read themselves',
    upstream({
      type: 'bridge',
      isgatway: true,
      podcidr: '10.1.2.0/33',
      mtu: '1450',
      ipam: { type: 'host-local', subnet: '10.1.2.7/24' },
    }),
    [],
  ],
  [
    'a path as type, and as type of ipam',
    upstream({ type: '/opt/bin/ptp', ipam: { type: './host-local' } }),
    [
      'plugin-missing "/opt/bin/ptp" "/opt/bin/ptp" is no name of a plugin: it has a path',
      'plugin-missing "./host-local" "./host-local" is no name of a plugin: it has a path',
    ],
  ],
  [
    'capabilities as a list, with which libcni refuses the file',
    upstream({ type: 'portmap', capabilities: ['portMappings'] }),
    ['wrong-type ["portMappings" plugins[0].capabilities: ["portMappings"] is not an object'],
  ],
  ['capabilities, ipam and dns of null', upstream({ type: 'x', capabilities: null, ipam: null, dns: null }), []],
  [
    'trestle as their IPAM: its keys',
    upstream({ type: 'bridge', ipam: { type: 'trestle', subnet: '10.1.0.0/24', exclud: ['10.1.0.7'] } }),
    ['unknown-key "exclud" trestle has no key plugins[0].ipam.exclud; did you mean "exclude"?'],
  ],
  [
    'trestle as their IPAM: its values',
    upstream({ type: 'bridge', ipam: { type: 'trestle', subnet: '10.1.0.0' } }),
    ['range-subnet "subnet" ipam.subnet: invalid range set 0: invalid CIDR address: 10.1.0.0'],
  ],
  [
    'ports in the file',
    upstream({ type: 'portmap', runtimeConfig: { portMappings: [] }, capabilities: { portMappings: 'true' } }),
    [
      'runtime-config-in-file "runtimeConfig" runtimeConfig comes from a runtime, and is in the file',
      'wrong-type "portMappings" plugins[0].capabilities.portMappings: "true" is not true or false',
    ],
  ],
  [
    'two plugins that make the interface',
    upstream({ type: 'ptp' }).replace('\n', '\n{"type":"macvlan"},'),
    ['two-main-plugins "ptp" ptp makes the interface of the pod, and macvlan before it does, too'],
  ],
  [
    'a plugin that trestle stands in for',
    upstream({ type: 'trestle', record: { wrap: 'ptp' }, bridge: 'br0' }),
    ['record-stands-in "record" trestle runs "ptp" and records each call'],
  ],
  [
    'answers in the place of a plugin',
    upstream({ type: 'trestle', record: { answer: {} } }),
    ['record-stands-in "record" trestle gives the answers of record.answer, and makes nothing: pods get no network'],
  ],
  // What is no JSON.
  [
    'a word of Python',
    list({ ...net, ipMasq: true }).replace('true', 'True'),
    ['json-syntax True expected a value, found "True"'],
  ],
  ['a key without quotes', '{name: 1}', ['json-syntax name expected a key in double quotes, found "name"']],
  [
    'a template',
    list({ ...net, mtu: 0 }).replace('0}', '__CNI_MTU__}'),
    ['json-syntax __CNI_MTU__ expected a value, found "__CNI_MTU__"'],
  ],
  [
    'typographic quotes',
    list(net).replace('"name"', '“name”').replace('"trestle"', '“trestle”'),
    ['json-syntax “name” “ is no quote of JSON', 'json-syntax “trestle” “ is no quote of JSON'],
  ],
  [
    'a line without its closing quote',
    '{"name": "pods\n}',
    ['json-syntax "pods a string has no closing quote on its line'],
  ],
  [
    'a manifest of Kubernetes',
    'apiVersion: v1\nkind: ConfigMap\ndata:\n  cni-conf.json: |\n    {}\n',
    ['json-syntax apiVersion this is a manifest of Kubernetes in YAML'],
  ],
  ['another text', 'plugins: none\n', ['json-syntax plugins the text does not begin with {']],
  [
    'UTF-16',
    '\ufffd\ufffd{\u0000"\u0000',
    ['json-syntax \ufffd\ufffd{\u0000"\u0000 the file is not UTF-8: UTF-16, as Windows tools save it'],
  ],
  [
    'UTF-16 without its mark',
    '{\u0000"\u0000n\u0000',
    ['json-syntax {\u0000"\u0000n\u0000 the file is not UTF-8: UTF-16, as Windows tools save it'],
  ],
]
