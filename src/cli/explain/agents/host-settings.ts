// SPDX-License-Identifier: Apache-2.0
// Of the machine below kubelet and the agents: its name, its localhost, its processor, and what containers on it may
// not do.

import { type KnownError, oneOf } from '../known/known-error.ts'

/** Errors of kubelet and of agents that meet a setting of the machine, or of the cluster's policy. */
export const hostSettingErrors: readonly KnownError[] = [
  {
    id: 'sysctl-unsafe',
    pattern: oneOf(
      /forbidden sysctls?:? \(?"?net[./][^\n]{0,120}|\bSysctlForbidden\b/,
      /(?:unsafe )?sysctl "net[./][^"\n]{1,80}" is not allowed(?! in host)/,
      /Invalid value: "net[./][^"\n]{1,80}": may not be specified when 'hostNetwork' is true/,
      /the sysctls? "net[./][^"\n]{1,80}" are not known to be namespaced/,
      /"net[./][^"\n]{1,80}" (?:not (?:whitelisted|allowlisted)|not allowed with host net enabled)/,
    ),
    who: 'kubelet, or the API server by its policy for pods',
    meaning: 'the pod asks for a sysctl that kubelet of this node, or the policy of its namespace, does not allow',
    causes: [
      'kubelet takes only a few sysctls as safe; all others have to be in its allowedUnsafeSysctls',
      'the pod has the network of the node (hostNetwork): no sysctl of the network may be set by it',
      'Pod Security (or PodSecurityPolicy, SCC) of the namespace allows the safe ones only',
    ],
    look: [
      'grep -A4 -i unsafeSysctls /var/lib/kubelet/config.yaml; systemctl cat kubelet | grep -i unsafe-sysctls',
      'kubectl get ns NAMESPACE --show-labels; kubectl get pods -A | grep SysctlForbidden',
    ],
    cure:
      'add the name to allowedUnsafeSysctls (--allowed-unsafe-sysctls) on nodes meant for such pods, restart kubelet ' +
      'there, and make the pod anew: kubelet does not try it again. Or let the tuning plugin set it for a network',
    unless: /SysctlForbidden[^\n]{0,120}"(?:kernel|fs|vm)\./,
  },
  {
    id: 'node-name-invalid',
    pattern: oneOf(
      /(?:startup\S* \d+:|[Nn]ode'? (?:resource|conf\w+))[^\n]{0,160}error with field (?:Metadata\.)?Name = '[^']{1,120}' \((?:name must consist|invalid)[^\n]{0,60}/,
      /\b(?:Cilium)?Node(?:\.cilium\.io)? "[^"]{1,120}" is invalid: \[?metadata\.name: Invalid value[^\n]{0,60}/,
      /nodeRegistration\.name: Invalid value[^\n]{0,60}|invalid node name format "[^"]{1,120}"[^\n]{0,60}/,
      /(?<![\w.\]])name: Invalid value: "[^"\n]{1,120}": an? (?:DNS-1123|lowercase RFC 1123) subdomain must[^\n]{0,60}/,
      /Hostname must consist of lower case alphanumeric characters, '\.' or '-'[^\n]{0,80}/,
      /hostname contains capital letters and\/or underscores|uppercase letters in the hostname/,
    ),
    who: 'calico-node, kubelet, kubeadm or another that registers the node',
    meaning: 'the name under which this machine is to be registered is none that a node can have',
    causes: [
      'the host name has a capital letter or an underscore, and no other name was given for the node',
      'a file or variable with the name ends with a line break or a blank (/var/lib/calico/nodename)',
      'the cloud or the DNS gives the name in capital letters',
    ],
    look: ['hostname; hostname -f; kubectl get nodes', 'od -c /var/lib/calico/nodename'],
    cure:
      'make the host name lower case (hostnamectl set-hostname), or give a name: --node-name of kubeadm, ' +
      '--hostname-override of kubelet, NODENAME of calico-node (from spec.nodeName), the same for all of them, ' +
      'before the node joins. Do not rename a node of the cluster: give kubelet its name of before ' +
      '(--hostname-override), or drain it, kubectl delete node, and join it anew',
  },
  {
    id: 'localhost-resolves-elsewhere',
    pattern: oneOf(
      /Health endpoint failed[^\n]{0,80}listen tcp[46]?(?: \S{1,60})?: (?:bind: cannot assign requested address|lookup \S{1,60})[^\n]{0,80}/,
      /listen tcp[46]?: lookup localhost\b[^\n]{0,120}/,
      /(?:localhost:(?:909[89]|10248|10249|10256|9879|6784)|felix|calico|typha|weave|cilium)\b[^\n]{0,200}lookup localhost\b[^\n]{0,120}/,
    ),
    who: 'calico-node, Typha, kubelet and others that listen on localhost',
    meaning: 'the name localhost does not lead to 127.0.0.1 on this node, so the agent cannot listen there or be asked',
    causes: [
      '/etc/hosts of the node (or of the image) has no line for localhost: the name server is asked for it then',
      'a name server, or a search domain with a wildcard, answers localhost with another address',
      '/etc/nsswitch.conf asks DNS before files, or /etc/hosts cannot be read',
      'FELIX_HEALTHHOST or TYPHA_HEALTHHOST names an address that the node does not have',
    ],
    look: ['getent ahosts localhost; grep localhost /etc/hosts', 'grep hosts /etc/nsswitch.conf; cat /etc/resolv.conf'],
    cure:
      'put "127.0.0.1 localhost" into /etc/hosts of the node, and restart the agent; or FELIX_HEALTHHOST=127.0.0.1 ' +
      'and TYPHA_HEALTHHOST=127.0.0.1',
  },
  {
    id: 'cpu-too-old',
    pattern: oneOf(
      /Fatal glibc error: CPU (?:does not support x86-64-v[234]|lacks \S{1,40})[^\n]{0,40}|CPU ISA level is lower than required/,
      /This program can only be run on \w{3,8} processors with [^\n]{1,40} support|\bSIGILL: illegal instruction\b/,
      /\b(?:ov[ns]|calico|cilium|felix|bird|flannel|multus|kube|cni|antrea|weave|vpp|envoy|charon|pluto|coredns)[\w./-]{0,30}\[\d{1,9}\]:? trap invalid opcode\b[^\n]{0,160}/,
      /\bIllegal instruction\b(?: {0,12}\(core dumped\))?[^\n]{0,80}|\bcode=(?:dumped|killed), status=4\/ILL\b/,
      /This system does not support "[\w.]{2,16}"\.|EAL: FATAL: unsupported cpu type/,
      /Image:\s{1,12}\S{0,80}(?:cilium|calico|flannel|multus|kube-router|antrea|kube-ovn|ovn|weave)(?:(?!Image:)[\s\S]){0,600}?Exit Code:\s{1,12}132\b/,
    ),
    who: 'the kernel, or the C library or Go in the image of an agent',
    meaning: 'the processor of the node lacks instructions that the image of the agent was built for',
    causes: [
      'a virtual machine with an old kind of processor (kvm64, qemu64, "QEMU Virtual CPU"), on newer hardware',
      'a machine of before 2009 (x86-64-v2) or 2013 (v3), and an image on a newer base (UBI 9)',
      'Open vSwitch in an image of Kube-OVN or in DPDK is built for AVX2 or AVX512, which this processor lacks',
    ],
    look: [
      '/lib64/ld-linux-x86-64.so.2 --help | grep x86-64-v; lscpu | grep "Model name"',
      'grep -c avx512f /proc/cpuinfo; journalctl -k --grep "invalid opcode" | tail -5',
    ],
    cure:
      'drain the node, shut its virtual machine down, give it the processor of the host (cpu: host, x86-64-v2-AES), ' +
      'and start it; or use an image for older processors (Kube-OVN without AVX512: -no-avx512), or with an older base',
    needsNetwork: true,
  },
  {
    id: 'agent-capability',
    pattern: oneOf(
      /nsenter: (?:(?:setns\(\): )?can't )?reassociate to namespace '(?:ns\/)?(?!net\b|ns\b)\w+'(?: failed)?: (?:Operation not permitted|Permission denied)/,
      /nsenter: cannot open \S*\/ns\/(?!net\b)\w+: (?:Operation not permitted|Permission denied)/,
      /\bmount(?:ing)?\b[^\n]{0,60}(?:\/run\/cilium\/cgroupv2|\/sys\/fs\/bpf)[^\n]{0,40}(?:operation not permitted|permission denied)/,
      /mounting "\/proc\/1\/ns[^\n]{0,200}(?:operation not permitted|permission denied)/,
      /apparmor="DENIED"[^\n]{0,160}comm="(?:nsenter|cilium-mount|cilium-agent|calico-node|flanneld|kube-router)"[^\n]{0,120}/,
      /nsenter: failed to execute \S*\/(?:cilium-mount|cilium-sysctlfix): (?:Operation not permitted|Permission denied)/,
    ),
    who: "a container of the network's agent, mostly one that prepares the node",
    meaning: 'the agent may not enter namespaces of the node: its container lacks a right that this needs',
    causes: [
      'the manifest does not name a capability, and the runtime does not give it by itself: CRI-O gives no ' +
        'SYS_CHROOT and no NET_RAW, containerd and docker do',
      'AppArmor or SELinux forbids it (the profile cri-containerd.apparmor.d refuses the ptrace that nsenter needs)',
      'a policy of the cluster took privileged or capabilities out of the pod, or the runtime itself is in a container',
    ],
    look: [
      'kubectl -n kube-system get ds NAME -o yaml | grep -B2 -A14 securityContext',
      'journalctl -k --grep "apparmor|avc" | tail',
    ],
    cure:
      'apply a newer manifest of the network, which names SYS_ADMIN, SYS_CHROOT and SYS_PTRACE where needed; for ' +
      'Cilium with helm securityContext.privileged=true; where AppArmor refuses, the profile Unconfined for this pod',
  },
]
