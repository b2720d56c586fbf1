// SPDX-License-Identifier: Apache-2.0
// Errors of kubelet, containerd, CRI-O, libcni, Go and the kernel by their words, the telling ones first: what they
// mean, why they come and what to do. A table, so that one more is one more entry.

import type { CheckId } from '../lint/checks.ts'

export interface KnownError {
  /** Stable, and none of lint's. */
  readonly id: string
  readonly pattern: RegExp
  readonly who: string
  readonly meaning: string
  readonly cause: string
  readonly cure: string
  /** Findings of `trestle lint` that go with it. */
  readonly checks?: readonly CheckId[]
}

/** Of the configuration and the programs: no pod gets a network. */
const ofConfiguration: readonly KnownError[] = [
  {
    id: 'plugin-not-found',
    pattern: /failed to find plugin "[^"]*" in path/,
    who: 'libcni',
    meaning: 'a `type` or `ipam.type` of the configuration is no file in the directories of the plugins',
    cause: 'the plugin is not installed, was removed, or `type` is misspelt; the directories are in the brackets',
    cure: 'install the plugin into one of these directories, or correct `type`; `trestle lint` names each missing one',
    checks: ['plugin-missing', 'bin-dir-missing'],
  },
  {
    id: 'no-plugins',
    pattern: /no 'plugins' key|no plugin configs found|no plugins in list/,
    who: 'libcni',
    meaning: 'a .conflist file has no list of plugins',
    cause: 'it holds one plugin and not a list, or `plugins` is misspelt or empty',
    cure: 'put the plugin into "plugins": [ … ], or rename the file to .conf',
    checks: ['plugins-missing'],
  },
  {
    id: 'no-type',
    pattern: /network type not found in|missing 'type'|no plugin name provided/,
    who: 'containerd, libcni',
    meaning: 'a plugin has no `type`',
    cause: 'the key is missing, or a list of plugins is in a file whose name ends in .conf or .json',
    cure: 'add "type": "trestle", or rename the file to .conflist',
    checks: ['type-missing', 'list-in-conf'],
  },
  {
    id: 'config-not-json',
    pattern:
      /invalid character .{1,30} (?:looking for|after|in )|unexpected end of JSON input|error parsing configuration/,
    who: 'Go',
    meaning: 'a configuration is not JSON, or has a value of a wrong type',
    cause: 'a comma, quote or bracket too many or too few, or a file that is being written',
    cure: '`trestle lint` shows line and column; write beside the file, under a name that ends in .new, and move that into place',
    checks: ['json-syntax', 'file-empty', 'wrong-type'],
  },
  {
    id: 'no-network-config',
    pattern:
      /no networks? (?:config )?found in|no valid networks found in|no net configurations? found|No CNI configuration file in/i,
    who: 'containerd, CRI-O, cnitool',
    meaning: 'the directory has no configuration that the runtime takes',
    cause: 'it is empty, no name ends in .conflist, .conf or .json, or the runtime reads another directory',
    cure: 'run `trestle lint` on the directory that the message names',
    checks: ['dir-empty', 'dir-missing', 'wrong-extension'],
  },
  {
    id: 'no-such-network',
    pattern: /no net configuration with name "[^"]*" in/,
    who: 'cnitool, Multus',
    meaning: 'no file of the directory has a network of this name',
    cause: 'the name is another one, or a plugin that delegates looks in another directory',
    cure: '`trestle lint` lists the networks of a directory',
    checks: ['cnitool-stops'],
  },
  {
    id: 'exec-format',
    pattern: /exec format error/,
    who: 'the kernel',
    meaning: 'a plugin is no program of this machine',
    cause: 'it is for another architecture, a text without #!, or cut short',
    cure: 'install the build for this machine',
    checks: ['plugin-wrong-format'],
  },
  {
    id: 'plugin-may-not-run',
    pattern: /fork\/exec \S+: permission denied/,
    who: 'the kernel',
    meaning: 'a plugin may not be started',
    cause: 'its mode has no x, its file system is mounted noexec, or SELinux forbids it',
    cure: 'chmod 755 it; restorecon it where SELinux is on; see `findmnt -T` for noexec',
    checks: ['plugin-not-executable'],
  },
  {
    id: 'text-file-busy',
    pattern: /text file busy/,
    who: 'the kernel',
    meaning: 'a plugin was written to while it ran',
    cause: 'an installer copied over the file in place of moving a new one there',
    cure: 'copy to another name in the same directory, then mv over the old one',
  },
  {
    id: 'version-not-supported',
    pattern: /incompatible CNI versions|does not support config version|unsupported CNI (?:result )?version/i,
    who: 'a plugin, CRI-O',
    meaning: 'a plugin does not speak the cniVersion of the configuration',
    cause: 'the plugin is older than the configuration, or cniVersion is misspelt',
    cure: 'use a cniVersion that every plugin of the list has, or newer plugins',
    checks: ['plugin-version', 'cni-version-unknown'],
  },
  {
    id: 'cni-not-initialized',
    pattern: /cni plugin not initialized|cni config load failed|cni config uninitialized/i,
    who: 'containerd',
    meaning: 'containerd has no network configuration, so no pod can start or be removed',
    cause: 'no file in /etc/cni/net.d, a broken first file, or a directory that was replaced while containerd ran',
    cure: '`trestle lint` names the reason; containerd loads a corrected file at once, a replaced directory after a restart',
    checks: ['dir-missing', 'dir-empty', 'containerd-stops', 'dir-not-watched'],
  },
  {
    id: 'network-not-ready',
    pattern:
      /NetworkPluginNotReady|NetworkReady=false|network (?:plugin )?is not ready|container runtime network not ready/i,
    who: 'kubelet',
    meaning: 'the runtime says that it has no network; the node is not ready',
    cause:
      'the words after it say why; most often "cni plugin not initialized", or a plugin that answers STATUS with 50',
    cure: 'run `trestle lint`; for a STATUS of trestle see the message itself',
    checks: ['dir-empty', 'containerd-stops'],
  },
]

/** Of pods and the node: the configuration works, and something else is wrong. */
const ofPods: readonly KnownError[] = [
  {
    id: 'no-pod-address',
    pattern: /failed to find network info for sandbox/,
    who: 'containerd',
    meaning: 'the result of ADD has no address on eth0',
    cause: 'no IPAM is configured, the plugin names another interface, or `ips` has no `interface` index of eth0',
    cure: "use podcidr or ipam in the first plugin; see the plugin's result with cnitool add",
  },
  {
    id: 'probe-times-out',
    pattern:
      /(?:liveness|readiness|startup) probe failed[^\n]*(?:i\/o timeout|context deadline exceeded|Client\.Timeout|connection timed out|no route to host)/i,
    who: 'kubelet',
    meaning: 'the node gets no answer from a pod that may be well',
    cause:
      'the kernel drops the answer: rp_filter 1 where the way back is another interface, or a firewall of the node',
    cure: '`nstat -az TcpExtIPReversePathFilter` counts up: sysctl -w net.ipv4.conf.all.rp_filter=2; else look at nft and iptables drops',
  },
  {
    id: 'martian-source',
    pattern: /martian (?:source|destination)/i,
    who: 'the kernel',
    meaning: 'a packet was dropped because its source address is not to be expected on its interface',
    cause: 'rp_filter is 1 and the route to the source leads elsewhere; or an address of the pods is also outside',
    cure: 'sysctl -w net.ipv4.conf.all.rp_filter=2, and of the interface in the message; check for overlapping subnets',
    checks: ['subnets-overlap'],
  },
  {
    id: 'host-local-duplicate',
    pattern: /has been allocated to \S+, duplicate allocation is not allowed/,
    who: 'the reference host-local',
    meaning: 'the container has a reservation from an ADD that did not finish',
    cause: 'a call was killed, and no DEL came',
    cure: "remove the file with the container's id below /var/lib/cni/networks; `trestle adopt` clears such leaks",
  },
  {
    id: 'netns-gone',
    pattern: /failed to open netns|failed to Statfs "[^"]*netns|unknown FS magic on "[^"]*netns/,
    who: 'a plugin',
    meaning: 'the network namespace of the pod is gone or no namespace',
    cause: 'the pod ended meanwhile, or the caller runs in another mount namespace',
    cure: 'nothing when it is one pod; else see that /run/netns is mounted shared into the caller',
  },
  {
    id: 'ipv6-disabled',
    pattern: /failed to add IP addr .*:.*permission denied/,
    who: 'a reference plugin',
    meaning: 'an IPv6 address cannot be set',
    cause: 'net.ipv6.conf.all.disable_ipv6 or that of the interface is 1 in the pod or on the node',
    cure: 'set it to 0, or take the IPv6 range out of the configuration',
  },
  {
    id: 'bridge-full',
    pattern: /exchange full|Xchange full/i,
    who: 'the kernel',
    meaning: 'the bridge has no port left',
    cause: 'a Linux bridge has 1023 ports',
    cure: 'give new pods a network with another `bridge`, or `mode: ptp`, which has no bridge',
  },
  {
    id: 'xtables-lock',
    pattern: /holding the xtables lock|CHAIN_USER_ADD failed/,
    who: 'iptables',
    meaning: 'two programs changed iptables at once, or wait for each other',
    cause: 'plugins that use iptables run in parallel with kube-proxy or with each other',
    cure: '`trestle convert` makes a list without iptables of it',
  },
  {
    id: 'library-missing',
    pattern: /error while loading shared libraries: /,
    who: 'ld.so',
    meaning: 'a plugin did not start, because a library that it needs is not on the node',
    cause:
      'the words name the library; trestle needs libstdc++.so.6, and on arm64 libatomic.so.1, which minimal systems lack',
    cure: 'install the one it names: libstdc++6 or libatomic1 on Debian, libstdc++ or libatomic on RHEL',
  },
  {
    id: 'no-error-message',
    pattern: /netplugin failed(?: with no error message|: "")/,
    who: 'libcni',
    meaning: 'a plugin ended without saying why',
    cause: "it was killed (a deadline, no memory), or crashed; its stderr is in the runtime's log",
    cure: "see the runtime's log and `dmesg` around that time; run the same list with `trestle try`",
  },
  {
    id: 'call-too-long',
    pattern:
      /(?:RunPodSandbox|StopPodSandbox|setup network|plugin type="[^"]*")[^\n]*(?:context deadline exceeded|signal: killed)/,
    who: 'kubelet, containerd',
    meaning: 'a call took longer than its caller waits',
    cause: 'the node is loaded, a plugin waits for a lock, or iptables has very many rules',
    cure: 'look at the load of the node; a trestle that was killed is put right by the next call on the network',
  },
]

/** An error of trestle with none of the words that are known: what to make of it. Looked for last. */
export const ownError: KnownError = {
  id: 'trestle-failed',
  pattern: /type=\\?"trestle\\?"(?: name=\S+)? failed \(\w+\): \S/,
  who: 'trestle',
  meaning: 'trestle refused the call, or something that it runs failed',
  cause:
    'the words behind "failed (…): " name what failed and on what; those behind the first semicolon are its details',
  cure: 'do what the details say; `trestle explain` without words lists all codes',
}

export const knownErrors: readonly KnownError[] = [...ofConfiguration, ...ofPods]
