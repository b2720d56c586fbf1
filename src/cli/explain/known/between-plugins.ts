// SPDX-License-Identifier: Apache-2.0
// Of what plugins of a list, libcni and the runtime say to each other: versions, results, arguments.

import { type KnownError, oneOf } from './known-error.ts'

/** Errors of versions, results and arguments. */
export const betweenPluginsErrors: readonly KnownError[] = [
  {
    id: 'version-not-supported',
    pattern: oneOf(
      /no converter for CNI result version|(?:CNI|config) version "?[\d.]+"? (?:is )?not supported/,
      /unsupported (?:CNI |spec |config )version|result type supports \[[^\]]*\] but/,
      /doesn't support (?:CNI|config) version|incompatible CNI versions[^\n]{0,160}/,
      /does not support config version "[^"]+"|unsupported CNI (?:result )?version[^\n]{0,60}/,
      /cannot convert version \[[^\]]*\] to "?[\d.]+|unsupported cniVersion/,
      /(?:config|plugin) version does not allow \w+|does not support (?:the )?(?:CHECK|GC|GET|STATUS) command/,
      /configuration list: invalid cniVersions?\b[^\n]{0,60}|result type supports \S+ but unmarshalled/,
      /decoding version info: missing field supportedVersions/,
      /failed to convert (?:major|minor|micro) version part "[^"]+"|invalid version "[^"]+": too (?:many|few)\b[^\n]{0,20}parts/,
      /failed to convert cached result to config version|cannot convert version "?[\d.x]+"? to/,
    ),
    who: 'a plugin, libcni, CRI-O, podman',
    meaning: 'a plugin and the configuration, or the runtime, do not speak the same CNI version',
    causes: [
      'the plugin is older than the cniVersion of the configuration: a distribution or kubeadm brought an old one ' +
        'along',
      'the runtime is older than the cniVersion (containerd before 1.6 and podman before 4 know nothing above 0.4.0)',
      'the plugin knows newer versions only: `plugin supports` lists them',
      'cniVersion is misspelt',
    ],
    look: ['trestle lint', 'echo \'{"cniVersion":"0.4.0"}\' | CNI_COMMAND=VERSION /opt/cni/bin/PLUGIN'],
    cure: 'use a cniVersion that every plugin of the list and the runtime has, or newer plugins',
    checks: ['plugin-version', 'cni-version-unknown'],
    sameAs: 'version-unsupported',
  },
  {
    id: 'version-empty',
    pattern: oneOf(
      /missing required config cniVersion|does not support config version ""|cniVersion is (?:missing|empty)/,
      /missing (?:field )?cniVersion|invalid version "": the version is empty/,
      /failed to convert major version part ""|Error validating CNI config &\{[\w.-]{1,60} {1,2}(?:true|false) \[/,
    ),
    who: 'libcni',
    meaning: 'the configuration has no cniVersion: the ADD works, DEL and CHECK fail; kubelet 1.16 takes no such file',
    causes: [
      '"cniVersion" is missing at the top of the file',
      "an entry of libcni's cache is of a configuration without it",
    ],
    look: ['grep -L cniVersion /etc/cni/net.d/*', 'trestle lint'],
    cure:
      'add "cniVersion": one that every plugin of the list has (0.4.0 is safe). A pod that hangs now goes when its ' +
      'file in /var/lib/cni/results is removed',
  },
  {
    id: 'not-chained',
    pattern:
      /must be called as (?:a )?chained plugin|missing prevResult from earlier plugin|required prevResult missing/i,
    who: 'a meta plugin (portmap, bandwidth, firewall, tuning, sbr)',
    meaning: 'a plugin that works on an interface of another plugin was called without one',
    causes: [
      'it stands alone or first in the list: a plugin that makes the interface has to come before it',
      'a list was given to something that takes one plugin only (an old Multus takes the first file it finds)',
    ],
    look: ['trestle lint'],
    cure: 'put a main plugin (bridge, ptp, macvlan, trestle) in front of it in "plugins"',
  },
  {
    id: 'chained-without-address',
    pattern:
      /type="(?:linkerd-cni|istio-cni|portmap|bandwidth|firewall|tuning)"[^\n]{0,80}no valid IP addresses|got no container IPs/,
    who: 'a plugin that is meant to be chained',
    meaning: 'a chained plugin stands alone: no plugin before it gave the pod an address',
    causes: [
      'it was installed before the network add-on, found no list to join, and wrote a file of its own that comes ' +
        'first by name',
    ],
    look: ['trestle lint', 'ls /etc/cni/net.d'],
    cure:
      "remove that plugin's own file from the configuration directory and restart its DaemonSet: it joins the list " +
      'that is there now',
  },
  {
    id: 'chained-without-interface',
    pattern: oneOf(
      /\bno interfaces provided\b|PrevResult lacks a single named interface|cannot find contVethName \S* in prevResult|failed to find redirect interface "[^"]*"/,
      /no veth peer of container interface|has no veth peer|veth peer with index \d+ is not in host|no host interface found\. last error[^\n]{0,60}/,
      /(?:No|Incorrect) interface for IP address \S+/,
    ),
    who: 'the bandwidth, sbr or tc-redirect-tap plugin',
    meaning: 'the plugin before it told no interface in its result, so there is none to work on',
    causes: [
      'cniVersion of the list is 0.1.0 or 0.2.0, or missing: results of these have no `interfaces`',
      'the plugin before it never tells any (weave-net)',
      '"no veth peer", "no host interface": bandwidth works on veth pairs alone, and the plugin before it made ' +
        'a macvlan, ipvlan or a device of the host',
    ],
    look: ['trestle lint'],
    cure: 'set cniVersion 0.4.0 or later; where the plugin before cannot, take bandwidth out of the list',
  },
  {
    id: 'result-without-interface',
    pattern: /\bno interfaces to configure\b|\binvalid interface index\b/,
    who: "a plugin with upstream's ipam package",
    meaning: 'the plugin has a result without interfaces, and so none that it could give the addresses to',
    causes: [
      'cniVersion of the list is 0.1.0 or 0.2.0, or missing: results of these have no `interfaces`',
      'the plugin does not put its interface into the result before it asks for addresses: a fault of the plugin',
    ],
    look: ['trestle lint', 'grep -r cniVersion /etc/cni/net.d'],
    cure: 'set cniVersion 0.3.1 or later; update the plugin',
  },
  {
    id: 'cidr-invalid',
    pattern: oneOf(
      /(?:pod|service)Subnet: Invalid value: [^\n]{0,160}couldn't parse subnet/,
      /invalid CIDR address:(?! ?Device)(?: [^\s"]+)?|(?:expected to be|NOT) in CIDR notation/,
      /invalid CIDR (?:in (?:exclude list|addresses)|\(do you)[^\n]{0,80}/,
    ),
    who: 'Go, in a plugin or libcni',
    meaning: 'a subnet or an address with its length (10.1.2.0/24) was expected, and this is none',
    causes: [
      'a value of the configuration, an annotation or an argument lacks the length, or is a placeholder that ' +
        'nobody filled',
      'a plugin answered so: a script whose variable was empty, an IPAM plugin that gave nothing ("null/32")',
    ],
    look: ['trestle lint', 'grep -rnE "subnet|address|dst" /etc/cni/net.d'],
    cure:
      'give the address with its length where the quoted value stands; in a script of your own look at what it ' +
      'prints',
    needsNetwork: true,
    alsoOurs: true,
  },
  {
    id: 'args-unknown',
    pattern: oneOf(
      /CNI_ARGS invalid key\/value pair|invalid CNI_ARGS pair/,
      /ARGS: (?:invalid (?:key|pair)|unknown args)[^\n]{0,80}/,
      /ARGS: (?:error parsing value of pair "IgnoreUnknown|cannot unmarshal into field)[^\n]{0,80}/,
      /boolean unmarshal error: invalid input/,
    ),
    who: 'libcni, in a plugin',
    meaning: 'CNI_ARGS has a key that the plugin does not know, and no IgnoreUnknown=1 that lets it pass',
    causes: [
      'a call by hand or by a script, which names K8S_POD_NAME and no IgnoreUnknown',
      'a plugin or runtime of 2016: kubelet before 1.3 did not send it',
    ],
    look: ['echo $CNI_ARGS'],
    cure: 'put IgnoreUnknown=1 first: CNI_ARGS="IgnoreUnknown=1;K8S_POD_NAME=…"',
    alsoOurs: true,
  },
  {
    id: 'result-without-address',
    pattern: oneOf(
      /IPAM plugin (?:return(?:ed)? (?:is )?missing|returned (?:zero|no)|did not return)[^\n]{0,40}/,
      /No IP addresses supplied on interface|cannot convert: no valid IP addresses|\bno valid IP addresses\b|IPAM plugin returned missing IP config|(?:no usable result from IPAM plugin|IPAM plugin failed to allocate IP address)/,
    ),
    who: 'libcni',
    meaning: 'the result of a plugin has no address, and the cniVersion of the configuration has no way to say so',
    causes: [
      'no `ipam` is configured, or it gave nothing',
      'cniVersion is 0.1.0 or 0.2.0, or missing: results of these must have an address',
    ],
    look: ['trestle lint'],
    cure: 'configure `ipam`; for a network without addresses use cniVersion 0.4.0 or later',
    alsoOurs: true,
  },
]
