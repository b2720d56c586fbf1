// SPDX-License-Identifier: Apache-2.0
// Of the configuration: it is missing, broken, or names what is not there.

import type { KnownError } from './known-error.ts'

/** Errors of configuration files, the telling ones first. */
export const configurationErrors: readonly KnownError[] = [
  {
    id: 'plugin-not-found',
    pattern:
      /could not find "[^"]*" IPAM plugin|failed to find plugin [\w.-]+ in path|(?:cannot|could not|couldn't|unable to) find (?:the )?(?:CNI )?plugin "?[\w.-]+"?|(?:stat|exec|lstat):? "?\/\S*cni\/bin\/[^\s"]+"?: no such file or directory|(?:missing|no such) CNI plugins?\b[^\n]{0,40}|failed to find plugin "[^"]*" in path(?: \[[^\]]*\])?|needs CNI plugin [^\n]{1,400}? to be installed|could not find (?:plugin "[^"]*"|"[^"]*" plugin)|could not locate kubenet required CNI plugins(?: \[[^\]]*\])?|fork\/exec \/\S*cni\S*: no such file or directory/,
    who: 'libcni, nerdctl',
    meaning: 'a `type` or `ipam.type` of the configuration is no file in the directories of the plugins',
    causes: [
      'the plugin is not installed: distributions and Kubernetes no longer bring the upstream plugins along',
      'an update or a cleaning up removed it',
      'the runtime looks in another directory than the one it was installed to: the brackets show where',
      '`type` is misspelt',
    ],
    look: ['trestle lint', 'ls -l /opt/cni/bin'],
    cure: 'install the plugin into one of these directories, or correct `type`; `trestle lint` names each missing one',
    checks: ['plugin-missing', 'bin-dir-missing'],
  },
  {
    id: 'no-plugins',
    pattern:
      /no 'plugins' key|no plugin configs found|no plugins in list|CNI config list \S* ?(?:in config file \S+ has no networks|\S+ has no plugins)/,
    who: 'libcni',
    meaning: 'a .conflist file has no list of plugins',
    causes: ['it holds one plugin and not a list', '`plugins` is misspelt or empty'],
    look: ['trestle lint'],
    cure: 'put the plugin into "plugins": [ … ], or rename the file to .conf',
    checks: ['plugins-missing'],
  },
  {
    id: 'no-type',
    pattern:
      /network type not found in|missing 'type'|no plugin name provided|: no 'type'; perhaps|appears to have no type|must have the 'type'/,
    who: 'containerd, libcni, Multus',
    meaning: 'a plugin, or its `ipam`, has no `type`',
    causes: [
      'a list of plugins is in a file whose name ends in .conf or .json',
      'the key is missing; in `ipam` of the bridge plugin `{}` stands for "no addresses" only from v0.9 on',
    ],
    look: ['trestle lint'],
    cure: 'add "type", or rename the file of a list to .conflist',
    checks: ['type-missing', 'list-in-conf'],
  },
  {
    id: 'config-not-json',
    pattern:
      /error parsing configuration(?: list)?: (?!no |missing |invalid cniVersion)[^\n]{1,120}|(?:CNI config|conflist|net\.d|\.conf\b|configuration|netconf)[^\n]{0,160}?(?:invalid character .{1,30} (?:looking for|after|in )[^\n]{0,60}|unexpected end of JSON input)|(?:invalid character .{1,30} (?:looking for|after|in )[^\n]{0,60}|unexpected end of JSON input)(?=: invalid cni config)|(?:net ?conf|network config\w*|CNI config\w*|IPAM config\w*)[^\n]{0,60}: json: cannot unmarshal [^\n]{1,120}|configuration string is not in JSON format/i,
    who: 'Go, in libcni or the runtime',
    meaning: 'a configuration is not JSON, or has a value of a wrong type',
    causes: [
      'a comma, quote or bracket too many or too few',
      'a file that is just being written, or was cut short by a full disk',
    ],
    look: ['trestle lint'],
    cure:
      '`trestle lint` shows line and column; write beside the file, under a name that ends in .new, and move that ' +
      'into place',
    checks: ['json-syntax', 'file-empty', 'wrong-type'],
    needsNetwork: true,
    unless: /top-level value|cached result|network config: unexpected end/,
  },
  {
    id: 'no-network-config',
    pattern:
      /no net configuration lists? found|no CNI configuration (?:list )?(?:was )?found|no (?:valid )?CNI (?:conf|config|configs|configuration|configurations|network)(?: files?)? (?:was |were )?(?:found|in|available)|no networks? (?:config )?found in|no valid networks found in|no net configurations? found|No CNI configuration file in|(?:open|stat) \/etc\/cni\/net\.d\/?: no such file or directory/i,
    who: 'containerd, CRI-O, cnitool, Multus',
    meaning: 'the directory has no configuration that the runtime takes',
    causes: [
      'the network add-on was never installed, or its DaemonSet has not got as far as writing its file',
      'no name ends in .conflist, .conf or .json',
      'the runtime reads another directory than the one the file is in',
    ],
    look: ['trestle lint', 'crictl info | grep -A3 -i cni'],
    cure: 'run `trestle lint` on the directory that the message names; put a configuration there',
    checks: ['dir-empty', 'dir-missing', 'wrong-extension'],
  },
  {
    id: 'no-such-network',
    pattern:
      /no net configuration list with name|CNI network "[^"]*" not found|no network available in the name|unable to find network with name or ID[^\n]{0,80}|network "?[\w.-]+"? (?:is )?not found in CNI|no net configuration with name "[^"]*" in|Missing CNI default network|failed to find requested network name|getNetDelegate: cannot find network/,
    who: 'cnitool, Multus, CRI-O',
    meaning: 'no file of the directory has a network of this name',
    causes: ['the name is another one', 'a plugin that delegates looks in another directory'],
    look: ['trestle lint'],
    cure: '`trestle lint` lists the networks of a directory; use one of these names',
    checks: ['cnitool-stops'],
  },
  {
    id: 'no-network-attachment',
    pattern: /cannot find (?:a )?network-attachment-definition|network-attachment-definitions?\S* "[^"]*" not found/i,
    who: 'Multus',
    meaning: 'the annotation of the pod names a NetworkAttachmentDefinition that is not there',
    causes: ['it is in another namespace: write NAMESPACE/NAME', 'it was not created yet', 'its name is misspelt'],
    look: ['kubectl get network-attachment-definitions -A'],
    cure: 'create it in the namespace of the pod, or correct the annotation k8s.v1.cni.cncf.io/networks',
  },
  {
    id: 'version-not-supported',
    pattern:
      /no converter for CNI result version|(?:CNI|config) version "?[\d.]+"? (?:is )?not supported|unsupported (?:CNI |spec |config )version|result type supports \[[^\]]*\] but|doesn't support (?:CNI|config) version|incompatible CNI versions[^\n]{0,160}|does not support config version "[^"]+"|unsupported CNI (?:result )?version[^\n]{0,60}|cannot convert version \[[^\]]*\] to [\d.]+|unsupported cniVersion|(?:config|plugin) version does not allow \w+|does not support the (?:CHECK|GC|STATUS) command|configuration list: invalid cniVersions?\b[^\n]{0,60}/i,
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
    pattern:
      /missing required config cniVersion|does not support config version ""|cniVersion is (?:missing|empty)|missing (?:field )?cniVersion|invalid version "": the version is empty/,
    who: 'libcni',
    meaning: 'the configuration has no cniVersion: the ADD works, DEL and CHECK fail',
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
    pattern:
      /\bno interfaces (?:provided|to configure)\b|PrevResult lacks a single named interface|cannot find contVethName \S* in prevResult/,
    who: 'the bandwidth plugin',
    meaning: 'the plugin before it told no interface in its result, so there is none to limit',
    causes: [
      'cniVersion of the list is 0.1.0 or 0.2.0, or missing: results of these have no `interfaces`',
      'the plugin before it never tells any (weave-net)',
    ],
    look: ['trestle lint'],
    cure: 'set cniVersion 0.4.0 or later; where the plugin before cannot, take bandwidth out of the list',
  },
  {
    id: 'cidr-invalid',
    pattern:
      /invalid CIDR address:(?! ?Device)(?: [^\s"]+)?|(?:expected to be|NOT) in CIDR notation|invalid CIDR (?:in (?:exclude list|addresses)|\(do you)[^\n]{0,80}/,
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
    pattern:
      /CNI_ARGS invalid key\/value pair|invalid CNI_ARGS pair|ARGS: (?:invalid (?:key|pair)|unknown args)[^\n]{0,80}/,
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
    pattern:
      /IPAM plugin (?:return(?:ed)? (?:is )?missing|returned (?:zero|no)|did not return)[^\n]{0,40}|cannot convert: no valid IP addresses|\bno valid IP addresses\b|IPAM plugin returned missing IP config/,
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
  {
    id: 'kubelet-flag-gone',
    pattern: /unknown flag: --(?:network-plugin|cni-(?:bin|conf|cache)-dir)/,
    who: 'kubelet',
    meaning: 'kubelet has had no part in the network since 1.24 and does not start with the flags of that time',
    causes: ['a unit file, KUBELET_EXTRA_ARGS or kubeadm-flags.env still holds the flag'],
    look: [
      'grep -rn -e --network-plugin -e --cni- /var/lib/kubelet/kubeadm-flags.env /etc/systemd/system ' +
        '/etc/default/kubelet',
    ],
    cure:
      "remove the flag, `systemctl daemon-reload`, restart kubelet; the directories are in the runtime's " +
      'configuration',
  },
]
