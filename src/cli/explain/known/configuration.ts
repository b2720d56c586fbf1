// SPDX-License-Identifier: Apache-2.0
// Of the configuration: it is missing, broken, or names what is not there.

import { type KnownError, oneOf } from './known-error.ts'

/** Errors of configuration files, the telling ones first. */
export const configurationErrors: readonly KnownError[] = [
  {
    id: 'plugin-not-found',
    pattern: oneOf(
      /CNI plugin "[\w-]{1,40}"[^\n]{0,80} needs to be installed in CNI_PATH/,
      /Corresponding binary for user requested plugin \S+ is not present|could not find "[^"]*" IPAM plugin|failed to find plugin [\w.-]+ in path/,
      /(?:cannot|could not|couldn't|unable to) find (?:the )?(?:CNI )?plugin (?!because\b|\S{1,80} in v1 plugin registry)"?[\w.-]+"?/,
      /(?<!fork\/)(?:stat|exec|lstat):? "?\/\S*cni\/bin\/[^\s"]+"?: no such file or directory/,
      /(?:missing|no such) CNI plugins?\b[^\n]{0,40}|failed to find plugin "[^"]*" in path(?: \[[^\]]*\])?/,
      /failed to find plugin "(?:loopback|bridge|portmap|host-local|flannel|calico(?:-ipam)?|cilium-cni|weave-net|multus|bandwidth|firewall|tuning|macvlan|ipvlan|ptp|vlan|dhcp|aws-cni|azure-vnet)" in\b/,
      /needs CNI plugin [^\n]{1,400}? to be installed|could not find (?:plugin "[^"]*"|"[^"]*" plugin)/,
      /could not locate kubenet required CNI plugins(?: \[[^\]]*\])?/,
      /(?:open|l?stat|read\w*) \/\S*cni\/bin\/?: no such file or directory/,
      /exec-plugins\.sh: line \d{1,4}: (?!jq\b)[\w.-]{1,40}: (?:command )?not found/,
      /failed \(\w+\): (?:no paths provided|invalid plugin name: \S+)/,
    ),
    who: 'libcni, nerdctl',
    meaning: 'a `type` or `ipam.type` of the configuration is no file in the directories of the plugins',
    causes: [
      'the plugin is not installed: distributions and Kubernetes no longer bring the upstream plugins along',
      'an update or a cleaning up removed it',
      'the runtime looks in another directory than the one it was installed to: the brackets show where',
      '`type` is misspelt, or a path in place of a bare name',
      'Multus with a daemon (thick): in its pod the directory is there, and what its absolute symbolic links name is ' +
        'not (k3s, NixOS)',
    ],
    look: ['trestle lint', 'ls -l /opt/cni/bin'],
    cure: 'install the plugin into one of these directories, or correct `type`; `trestle lint` names each missing one',
    checks: ['plugin-missing', 'bin-dir-missing'],
  },
  {
    id: 'no-plugins',
    pattern:
      /no 'plugins' key|no plugin configs found|no plugins in list|CNI config list \S+ has no networks, skipping|CNI config list \S* ?(?:in config file \S+ has no networks|\S+ has no plugins)/,
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
      /network type not found in|missing 'type'(?! field in credentials)|no plugin name provided|: no 'type'; perhaps|appears to have no type|must have the 'type'/,
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
    pattern: oneOf(
      /error parsing configuration(?: list)?: (?!no |missing |invalid cniVersion)[^\n]{1,120}/,
      /(?:CNI config|conflist|net\.d|\.conf\b|configuration|netconf)[^\n]{0,160}?(?:invalid character .{1,30} (?:looking for|after|in )[^\n]{0,60}|unexpected end of JSON input)/,
      /(?:invalid character .{1,30} (?:looking for|after|in )[^\n]{0,60}|unexpected end of JSON input)(?=: invalid cni config)/,
      /(?:net ?conf|network config|CNI config|IPAM config)[^\n]{0,60}: json: cannot unmarshal [^\n]{1,120}/,
      /(?:unmarshal|pars|decod|load|read)[^\n]{0,60}\b(?:Spec\.Config|conf(?:ig\w*)?|net ?conf\w*|delegates?)\b[^\n]{0,60}: (?:json: cannot unmarshal [^\n]{1,120}|invalid character .{1,30} (?:looking for|after|in )[^\n]{0,60}|unexpected end of JSON input)/,
      /configuration string is not in JSON format/,
      /JSON Parsing Error: (?:invalid character|unexpected end|json: cannot)[^\n]{1,80}/,
      /(?:DeviceID|CNIArgs)\w*(?:\(\))?: failed to (?:un|re-)marshal [^\n]{1,120}/,
    ),
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
    pattern: oneOf(
      /no net configuration lists? found|no CNI configuration (?:list )?(?:was )?found/,
      /no (?:valid )?CNI (?:conf|config|configs|configuration|configurations|network)(?: files?)? (?:was |were )?(?:found|in|available)/,
      /no networks? (?:config )?found in|no valid networks found(?<!failed to find plugin [\s\S]{0,500}|Error validating CNI config &\{[\w.-]{1,60} {1,2}(?:true|false) \[[\s\S]{0,400}) in|no net configurations? found/,
      /No CNI configuration file in|(?:open|stat) \/etc\/cni\/net\.d\/?: no such file or directory/,
      /no CNI network config found|Unable to select default cluster network\. No valid configuration file/,
      /(?:update CNI config|updating CNI config|plugin returns error|Networks? not ready|CNI monitoring)[^\n]{0,60}Missing CNI default network/,
      /cni conf dir is removed, stop watching|CNI monitoring error[^\n]{0,20}no such file or directory/,
    ),
    who: 'containerd, CRI-O, cnitool, Multus',
    meaning: 'the directory has no configuration that the runtime takes',
    causes: [
      'the network add-on was never installed, or its DaemonSet has not got as far as writing its file',
      'no name ends in .conflist, .conf or .json',
      'the runtime reads another directory than the one the file is in',
      '"is removed, stop watching": the directory was removed under containerd, which sees no new file until it ' +
        'is restarted',
    ],
    look: ['trestle lint', 'crictl info | grep -A3 -i cni'],
    cure: 'run `trestle lint` on the directory that the message names; put a configuration there',
    checks: ['dir-empty', 'dir-missing', 'wrong-extension'],
  },
  {
    id: 'no-such-network',
    pattern: oneOf(
      /no net configuration list with name|CNI network "[^"]*" not found|no network available in the name/,
      /unable to find network with name or ID[^\n]{0,80}|network "?[\w.-]+"? (?:is )?not found in CNI(?! cache)/,
      /no net configuration with name "[^"]*" in|Missing CNI default network/,
      /failed to find requested network name|getNetDelegate: cannot find network/,
      /Configuration file is missing from cni directory|CNI network config not found for name|no such network: "[^"]*"/,
      /no CNI network could be loaded from the provided network names|IPAM error: could not find network/,
      /unable to find network configuration for [\w.-]+: network not found/,
    ),
    who: 'cnitool, Multus, CRI-O',
    meaning: 'no file of the directory has a network of this name',
    causes: ['the name is another one', 'a plugin that delegates looks in another directory'],
    look: ['trestle lint'],
    cure: '`trestle lint` lists the networks of a directory; use one of these names',
    checks: ['cnitool-stops'],
  },
  {
    id: 'no-network-attachment',
    pattern:
      /cannot find (?:a )?network-attachment-definition(?! \(\))|network-attachment-definitions?\S* "[^"]*" not found/i,
    who: 'Multus',
    meaning: 'the annotation of the pod names a NetworkAttachmentDefinition that is not there',
    causes: ['it is in another namespace: write NAMESPACE/NAME', 'it was not created yet', 'its name is misspelt'],
    look: ['kubectl get network-attachment-definitions -A'],
    cure: 'create it in the namespace of the pod, or correct the annotation k8s.v1.cni.cncf.io/networks',
  },
  {
    id: 'kubelet-flag-gone',
    pattern:
      /unknown flag: --(?:network-plugin|cni-(?:bin|conf|cache)-dir|(?:configure|reconcile)-c[bi][rd]r?\w*|hairpin-mode|non-masquerade-cidr|pod-cidr|babysit-daemons|experimental-flannel-overlay)/,
    who: 'kubelet',
    meaning: 'kubelet does not start: it no longer has this flag, with which older releases set up the network of pods',
    causes: [
      'a unit file, KUBELET_EXTRA_ARGS or kubeadm-flags.env still holds the flag: --network-plugin and --cni-* went ' +
        'with 1.24, --configure-cbr0 with 1.5',
      'the tool that wrote the flag (kops, kubeadm, an image) is older than the kubelet',
    ],
    look: [
      'grep -rn -e --network-plugin -e --cni- -e cbr0 /var/lib/kubelet/kubeadm-flags.env /etc/systemd/system ' +
        '/etc/default/kubelet /etc/sysconfig/kubelet',
    ],
    cure:
      "remove the flag, `systemctl daemon-reload`, restart kubelet; the directories are in the runtime's " +
      'configuration',
  },
  {
    id: 'config-unreadable',
    pattern:
      /error reading \/\S+?: (?:open|read) \/\S+?: (?!permission denied)[a-z ]+|failed to read (?:cni|plugin) config(?: files?)? (?!.*permission denied)[^\n]{1,160}/i,
    who: 'libcni, in the runtime',
    meaning: 'a configuration file is listed in the directory and cannot be read',
    causes: [
      'a symbolic link that leads nowhere: its target was removed, or is in a place that the runtime does not see',
      'the file was removed or replaced at that moment',
    ],
    look: ['ls -l /etc/cni/net.d', 'find /etc/cni/net.d -xtype l'],
    cure: 'remove the link or put its target back; write files into the directory itself',
  },
]
