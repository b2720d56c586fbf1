// SPDX-License-Identifier: Apache-2.0
// Of the plugins as programs: they do not start, or end without an answer.

import { type KnownError, oneOf } from './known-error.ts'

/** Errors of starting a plugin, and of one that died. */
export const programErrors: readonly KnownError[] = [
  {
    id: 'exec-format',
    pattern: /(?:fork\/exec \S+: )?exec format error/,
    who: 'the kernel',
    meaning: 'a plugin is no program of this machine',
    causes: ['it is for another architecture', 'it is cut short, or empty', 'it is a script without #!'],
    look: ['file /opt/cni/bin/*', 'uname -m'],
    cure: 'install the build for this machine',
    checks: ['plugin-wrong-format'],
    needsNetwork: true,
  },
  {
    id: 'plugin-may-not-run',
    pattern: oneOf(
      /(?:exec|run|start)[^\n]{0,40}\/cni\/bin\/[^\s:]+: permission denied|fork\/exec \S+: permission denied/,
      /avc: +denied +\{ execute[^}\n]{0,40}\} for [^\n]{0,160}(?:name="(?:host-local|loopback|portmap|bandwidth|flannel|calico(?:-ipam)?|cilium-cni|multus\w{0,8}|istio-cni)"|path="\S{0,40}\/cni\/bin\/)[^\n]{0,120}/,
    ),
    who: 'the kernel',
    meaning: 'a plugin may not be started',
    causes: ['its mode has no x', 'its file system is mounted noexec', 'SELinux or AppArmor forbids it'],
    look: ['ls -lZ /opt/cni/bin', 'findmnt -T /opt/cni/bin', 'ausearch -m avc -ts recent'],
    cure: 'chmod 755 it; restorecon it where SELinux is on; remount without noexec',
    checks: ['plugin-not-executable'],
    needsNetwork: true,
  },
  {
    id: 'text-file-busy',
    pattern: /text file busy|failed \(\w+\): exec: already started/i,
    who: 'the kernel',
    meaning: 'a plugin was written to while it ran, or started while it was written to',
    causes: [
      'an installer copied over the file in place of moving a new one there',
      '"exec: already started": libcni tried once more after such a moment, and cannot',
    ],
    look: ['fuser -v /opt/cni/bin/*'],
    cure: 'copy to another name in the same directory, then mv over the old one; the next pod works again',
    needsNetwork: true,
  },
  {
    id: 'library-missing',
    pattern: /error while loading shared libraries: [^\s:]+/,
    who: 'ld.so',
    meaning: 'a plugin did not start, because a library that it needs is not on the node',
    causes: [
      'the words name the library; trestle needs libstdc++.so.6, and on arm64 libatomic.so.1, which minimal ' +
        'systems lack',
    ],
    look: ['ldd /opt/cni/bin/*'],
    cure: 'install the one it names: libstdc++6 or libatomic1 on Debian, libstdc++ or libatomic on RHEL',
    needsNetwork: true,
  },
  {
    id: 'loader-missing',
    pattern: /fork\/exec \/\S*cni\S*: no such file or directory/,
    who: 'the kernel',
    meaning: 'libcni found the file of the plugin, and what it is to be started with is not on the node',
    causes: [
      'it is built for glibc, and the node has musl (Alpine) or another directory for ld-linux (NixOS)',
      'it is a script, and its first line names an interpreter that is not there',
      'it was removed or replaced at that moment: an add-on that installs itself',
    ],
    look: ['file /opt/cni/bin/*', 'ldd /opt/cni/bin/*; head -c 80 /opt/cni/bin/NAME'],
    cure: 'install a build that is linked statically or for this libc, or the interpreter that it names',
  },
  {
    id: 'glibc-too-old',
    pattern: /version `GLIBC_[\d.]+' not found/,
    who: 'ld.so',
    meaning: 'a plugin (or a program that it runs) was built for a newer C library than the node has',
    causes: ['the installer image and the node are of different generations'],
    look: ['ldd --version', 'ldd /opt/cni/bin/*'],
    cure: 'use the build for this system, or a statically linked one',
    needsNetwork: true,
  },
  {
    id: 'command-not-found',
    pattern:
      /(?:failed \(\w+\)|network(?: for (?:sandbox|pod) "[^"]*")?|Command execution [^\n]{1,300} failed): exit status 127\b|nsenter --mount=\/hostproc[\s\S]{0,800}?Exit Code:\s{1,12}127\b/,
    who: 'a plugin that runs other programs',
    meaning: 'a program that the plugin runs is not on the node (a shell ends with 127 then)',
    causes: [
      'iptables, ip or nsenter is missing, or not in the PATH of the runtime',
      'a first container of the agent runs `sh` of the node (nsenter), and the node has none: Talos',
    ],
    look: ['which iptables ip nsenter', 'systemctl show containerd crio -p Environment'],
    cure:
      "install it on the node; the plugin's own log says which. On a system without a shell (Talos) use the settings " +
      'of the network for that system (Cilium: cgroup.autoMount.enabled=false, cgroup.hostRoot=/sys/fs/cgroup)',
  },
  {
    id: 'program-missing',
    pattern: oneOf(
      /exec: "[\w./-]+": executable file not found in \$PATH|requires conntrack to be installed[^\n]{0,40}/,
      /FileExisting-[\w-]+\]: [\w-]+ not found in system path|Charon daemon not found: [^\n]{1,80}|no valid charon executable found[^\n]{0,80}/,
      /fork\/exec \/?(?:[\w.-]+\/)*(?:rootlesskit[\w-]*|docker-proxy|conntrack|nsenter|modprobe|ipset|brctl|newuidmap|ovs-vsctl): no such file or directory/,
      /\b(?:ipset|ebtables|arptables|conntrack|ethtool|nsenter|socat|sysctl|modprobe|brctl|pair interface)\b(?:(?!exec: )[^\n]){0,120}: executable file not found in \$PATH/,
      /could not find (?:sysctl|nsenter|ethtool|conntrack) binary|failed to find (?:nsenter|socat|conntrack) binary/,
      /nsenter: failed to execute \S+: No such file|conntrack is not installed, this can cause|failed to find socat: /,
    ),
    who: 'a plugin that runs other programs',
    meaning: 'a program that the plugin runs is not on the node, or not in the PATH of the runtime',
    causes: ['its package is not installed', 'the unit of the runtime sets a PATH without it'],
    look: ['systemctl show containerd crio -p Environment', 'which conntrack ip nsenter tc'],
    cure: 'install the program that the message names',
    needsNetwork: true,
    // Somebody's own command in a container: docker exec, kubectl exec.
    unless: /exec failed: /,
  },
  {
    id: 'program-failed',
    pattern: oneOf(
      /(?:network(?: for (?:sandbox|pod) "[^"]*")?|failed \(\w+\)): exit status (?!127\b)\d+/,
      /failed \(\w+\): (?!netplugin failed)[^\n]{1,400}\]?: exit status (?!127\b)\d+(?=:?\s*(?:["'\],;)]|$))/,
      /\bip6?tables(?:-\w+)?\b[^\n]{0,80}signal: (?:segmentation fault|aborted) \(core dumped\) \(\)/,
      /setting up network: failed to run "[^"\n]{1,200}": exit status (?!127\b)\d+/,
      /(?:routes?|routing table|ip rule|external IP'?s?|iptables|kube-(?:bridge|dummy-if)|tunnel interface)\b[^\n]{0,120} due to:? exit status (?!127\b)\d+/,
      /External command unsuccessful \((?:\/\S{1,20}\/)?(?:ip|iptables|tc|brctl) \[[^\n]{1,200}\]: exit status (?!127\b)\d+/,
      /Command '(?:\/\S{1,20}\/)?ip netns [^'\n]{0,160}' returned non-zero exit status (?!127\b)\d+/,
    ),
    who: 'a plugin that runs other programs',
    meaning: 'a program or script that the plugin runs failed, and the plugin tells no more than its exit status',
    causes: [
      'iptables in it failed: no right, no module (3: a table could not be opened; 4: the kernel or a lock refused)',
      'a script of your own stopped at its first error',
      '"segmentation fault": the program itself crashed: its release does not understand what another one wrote',
    ],
    look: ["journalctl -u containerd -u crio -u kubelet --since '1 hour ago'", 'iptables-save | head -3'],
    cure: "the plugin's own log has the words of the program; run it by hand in the namespace of the pod",
    wraps: true,
  },
  {
    id: 'delete-not-found',
    pattern: oneOf(
      /failed \(delete\): [^\n]{0,300}?failed to (?:del|delete|remove)\b[^\n]{1,80}: no such (?:file or directory|process|device)/,
      /failed to get IP addresses for "[^"]*": <nil>/,
      /Failed to delete (?:veth pair|endpoint)\b[^\n]{0,120}(?:no such network interface|Link not found|endpoint not found)/,
      /(?:destroy network for sandbox|failed to teardown pod|failed \(del\w*\)|error (?:deleting|removing) (?:pod|container)|StopPodSandbox)[^\n]{0,300}?(?:WorkloadEndpoint|IPAMHandle|CiliumEndpoint|SpiderEndpoint|OverlappingRangeIPReservation|ips\.kubeovn)\S* "[^"]*" not found/,
    ),
    who: 'a plugin',
    meaning:
      'what the plugin wants to remove is gone already, and it takes that for an error: the pod stays Terminating',
    causes: [
      'an earlier try removed it, and failed at something after it',
      'it was removed by hand, or with a restart of the machine',
    ],
    look: ['crictl pods --state NotReady', 'ip rule; ip route show table all | head'],
    cure:
      'update the plugin: a DEL has to succeed when there is nothing left. Until then put back what is missing (an ' +
      'empty rule or table of that number), and the next try goes through',
    wraps: true,
  },
  {
    id: 'plugin-panic',
    pattern:
      /panic: |runtime error: (?:invalid memory address|index out of range|slice bounds)|SIGSEGV: segmentation violation/,
    who: 'a plugin or an agent written in Go',
    meaning: 'a plugin or its agent crashed: a defect in it, mostly met by a value that it did not expect',
    causes: [
      'a key that it needs is missing in the configuration, or its agent answered nothing',
      'an address pool without a free address (older azure-vnet)',
    ],
    look: ['journalctl -b | grep -A20 panic:', 'kubectl -n NAMESPACE logs POD --previous | grep -A20 panic:'],
    cure: 'the first lines below "goroutine" name the place; use a newer version of the plugin or agent, or report it',
    needsNetwork: true,
  },
  {
    id: 'answer-not-json',
    pattern: oneOf(
      /(?:network|failed \(\w+\)|network (?:for sandbox )?"[^"]*"): (?:unexpected end of JSON input|invalid ?character '[^\n]{1,80})/,
      /NetworkPlugin cni failed to set ?up pod ?[:-] (?:unexpected end of JSON input|invalid character '[^\n]{1,80})/,
      /cnitool\b[^\n]{0,160}: (?:unexpected end of JSON input|invalid character '[^\n]{1,80})/,
      /decoding version info: (?:unexpected end of JSON input|invalid character [^\n]{1,80})/,
      /failed to unmarshal response '[^\n]{0,400}: (?:unexpected end of JSON input|invalid character '[^\n]{1,80})/,
    ),
    who: 'libcni',
    meaning: 'the answer of a plugin is no JSON: it printed nothing, or something else',
    causes: [
      'the plugin died, or its agent did; nothing was printed',
      'it writes its log, or a debug line of a wrapper script, to stdout',
    ],
    look: ["journalctl -u containerd -u crio -u kubelet --since '1 hour ago'", 'trestle lint'],
    cure: "look at the plugin's own log; a wrapper script may print to stderr only",
    unless: /invalid cni config/,
  },
  {
    id: 'output-polluted',
    pattern:
      /(?:netplugin|plugin type=|network for (?:sandbox|pod)|failed \(\w+\)|"code":)[^\n]{0,900}\}"?: ?invalid character '.{1,4}' after top-level value|error parsing its diagnostic message "(?!")|failed to unmarshal (?:error message|plugin's result)|unmarshal(?:l)?ing (?:plugin )?result/i,
    who: 'libcni',
    meaning: 'a plugin printed more than one answer, or something that is no answer, so its error is quoted raw',
    causes: [
      'the plugin failed, and printed a result as well: its error is inside the quotes',
      "it logs to stdout: aws-cni does where its entry has no pluginLogFile (in a list of Cilium's of before 1.10)",
    ],
    look: ['the "msg" inside the quoted text'],
    cure: 'read what is behind "msg" in it and explain that; use a newer version of the plugin',
    wraps: true,
  },
  {
    id: 'no-error-message',
    pattern: oneOf(
      /netplugin failed(?: with no error message(?!: context )|: ""| but error parsing its diagnostic message "")/,
      /failed \(\w+\): signal: killed|using network plugins? "[^"]*": exit status \d{1,3}\b/,
    ),
    who: 'libcni',
    meaning: 'a plugin ended without saying why',
    causes: [
      'it was killed at the deadline of the runtime (kubelet gives 4 minutes, CRI-O and Multus less)',
      'it was killed for memory: the limit of a Multus pod that runs plugins is often too small',
      "it crashed; its stderr is in the runtime's log",
    ],
    look: ["journalctl -u containerd -u crio --since '1 hour ago'", "journalctl -k --grep 'oom|killed process'"],
    cure: "see the runtime's log and the kernel's around that time; run the same list with `trestle try`",
    wraps: true,
  },
  {
    id: 'plugin-died',
    pattern: /netplugin failed: "/,
    who: 'libcni',
    meaning: 'a plugin ended without an error in the form of the specification; what it wrote to stderr is quoted',
    causes: ['the quoted words say why'],
    look: ["journalctl -u containerd -u crio --since '1 hour ago'"],
    cure: 'look at the last of the quoted lines',
    wraps: true,
  },
]
