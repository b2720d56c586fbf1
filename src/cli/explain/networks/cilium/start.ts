// SPDX-License-Identifier: Apache-2.0
// Of Cilium's agent or operator that ended, where no entry knows the reason.

import { type KnownError, oneOf } from '../../known/known-error.ts'

/** How a start of Cilium's agent or operator ended. */
export const ciliumStartErrors: readonly KnownError[] = [
  {
    id: 'cilium-kernel-config-unread',
    pattern: oneOf(
      /CONFIG_BPF kernel parameter[^\n]{0,20} is required|CONFIG_BPF +false +true\b/,
      /skipping kernel config, can't open \S[^\n]{0,80}|Kernel Config file not found(?:: if the agent fails to start|["']? (?:subsys|module)=)/,
    ),
    who: 'the cilium agent, or bpftool in its container',
    meaning:
      'the agent could not read with which options the kernel was built, so it takes all of them for missing: ' +
      'harmless as long as the agent runs',
    causes: [
      'the system has them in /boot/config-RELEASE alone, and not in /proc/config.gz; /boot is not mounted into the ' +
        'container',
      'Cilium 1.6 and 1.7 print it as a warning, newer releases as a note',
    ],
    look: ['grep -w CONFIG_BPF /boot/config-$(uname -r); ls /proc/config.gz', 'uname -r'],
    cure:
      'nothing where that grep says CONFIG_BPF=y. Where the agent ends, its last error is another one; a kernel that ' +
      'really lacks CONFIG_BPF is to be exchanged',
  },
  {
    id: 'cilium-start',
    pattern: oneOf(
      /Error while (?:creating|initializing) daemon|daemon creation failed|failed while reinitializing datapath/,
      /Unable to allocate router IP[^\n]{0,160}|Cilium cannot start daemon|unable to find ENI (?!that matches)\S+/,
      /Agent pipe unexpectedly closed|msg="?(?:Failed to start hive|Start hook failed)|failed to start: daemon creation failed/,
      /level=fatal msg=(?!"?(?:Timed out waiting for pre-existing|Unable to start K8s watchers))[^\n]{1,400}? subsys=[\w-]+/,
      /level=fatal [^\n]{0,200}\bmodule=(?:agent|operator)\b[^\n]{0,200}/,
      /Failed to initialize datapath, retrying later[^\n]{0,200}/,
      /Leader election lost[^\n]{0,80} subsys=cilium-operator|:9234\/healthz[^\n]{0,100}/,
      /unable to retrieve cilium status: container [^\n]{1,200}|container cilium-(?:agent|operator) is in \w{3,30}[^\n]{0,160}/,
    ),
    who: 'the cilium agent or operator',
    meaning: 'the agent of this node (or the operator) ended while it started: the words of the line say at which step',
    causes: [
      'it was killed by its startup probe while it built its programs: a slow node, a low CPU limit ("context ' +
        'canceled", "signal: killed")',
      'it found no device, no address for itself, or no interface of the cloud (ENI) yet',
      '"several interfaces found with MAC": a bridge over the card has its MAC (br-ex of OVN), and Cilium knows the ' +
        'card by that: one network only may have it',
      'the kernel lacks what a setting wants',
    ],
    look: [
      'kubectl -n kube-system get pods -o wide -l k8s-app=cilium',
      'kubectl -n kube-system logs POD -c cilium-agent --previous | grep -e level=fatal -e level=error',
      'kubectl -n kube-system get pods -o wide -l name=cilium-operator',
    ],
    cure:
      'do what the last words name; a slow node: raise startupProbe.failureThreshold and the CPU limit; an ENI that ' +
      'is late comes by itself',
    wraps: true,
  },
  {
    id: 'bpf-mount-unit',
    pattern: oneOf(
      /\bsys-fs-bpf\.mount\b[^\n]{0,80}(?:bad unit file setting|bad-setting|Cannot create mount unit for API)[^\n]{0,60}/,
      /Cannot create mount unit for API file ?system "?\/sys\/fs\/bpf[^\n]{0,40}/,
    ),
    who: 'systemd, of a unit that is to mount /sys/fs/bpf',
    meaning:
      'systemd mounts /sys/fs/bpf itself since its release 238, and refuses a unit that wants to do it once more',
    causes: [
      'the script of cilium-node-init (older than 2020) or an installer (kops) writes the unit on every system, and ' +
        'ends at this error: what it had to do after it on the node is not done',
      'the unit was written by hand, for an older system, and the node updated since',
    ],
    look: [
      'findmnt /sys/fs/bpf; systemctl --version | head -1',
      'systemctl cat sys-fs-bpf.mount',
      'kubectl -n kube-system logs -l app=cilium-node-init --tail=30',
    ],
    cure:
      'where findmnt shows bpf: remove /etc/systemd/system/sys-fs-bpf.mount, systemctl daemon-reload, and update the ' +
      'chart of Cilium, so that its script goes on',
  },
  {
    id: 'cilium-node-init',
    pattern: /Waiting on node-init to run\b/,
    who: 'the cilium agent',
    meaning: 'the agent waits for the DaemonSet cilium-node-init to have prepared this node, and that is not done',
    causes: [
      'the pod of cilium-node-init on this node waits or fails; it does not tolerate a taint of the node',
      'its script calls a program that the node lacks (date, on Bottlerocket), so the file that it writes stays empty',
    ],
    look: [
      'kubectl -n kube-system get pods -o wide -l app=cilium-node-init',
      'kubectl -n kube-system logs -l app=cilium-node-init --tail=30',
    ],
    cure: 'mend what its log says; on a system that it was not made for update it, or set nodeinit.enabled=false',
  },
]
