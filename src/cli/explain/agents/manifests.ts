// SPDX-License-Identifier: Apache-2.0
// Of networks that do not get as far as a process: the API server refuses their objects or pods, or the image lacks
// what the manifest calls.

import { type KnownError, oneOf } from '../known/known-error.ts'

/** Programs of agents, as manifests call them. */
const programs =
  /(?:cilium|calico|flannel|install[-_](?:cni|multus)|multus|kube-(?:multus|router|ovn)|ovnkube|ovn-|ovs-|ovsdb-|antrea|antctl|thin_entrypoint|start_runit|whereabouts|ip-control-loop|kindnet|weave|aws-(?:k8s|vpc|cni)|tigera|typha|spiderpool|sriov|linkerd-cni|kuma-cni|hubble|node-?init)/

/** Containers of agents that are started by a program with a name of anybody's. */
const containers =
  /(?:install-cni|upgrade-ipam|flexvol-driver|ebpf-bootstrap|mount-bpffs|calico-\S{1,30}|cilium\S{0,30}|clean-cilium-state|apply-sysctl-overwrites|mount-cgroup|mount-bpf-fs|kube-(?:flannel|multus|router)|install-cni-plugin|install-multus-binary|weave|weave-npc|antrea-\S{1,20}|ovn\S{0,30}|openvswitch|cni-server|aws-node|aws-vpc-cni-init|kindnet-cni|whereabouts)/

const made = /(?:container process|container init|OCI runtime create failed|container create failed|exec failed:)/
const noFile = /(?:executable file not found in \$PATH|(?:stat \S{1,120} )?no such file or directory)/

/** Kinds of objects that manifests of a network have. */
const kinds =
  /(?:DaemonSet|Deployment|StatefulSet|ReplicaSet|Job|CronJob|ConfigMap|Service|ServiceAccount|Secret|PodSecurityPolicy|PodDisruptionBudget|PriorityClass|(?:Cluster)?Role(?:Binding)?|CustomResourceDefinition|APIService|(?:Validating|Mutating)WebhookConfiguration|List)/

/** Errors before the first line of an agent's log. */
export const manifestErrors: readonly KnownError[] = [
  {
    id: 'priority-class-namespace',
    pattern: oneOf(
      /pods with \S{1,40} priorityClass is not permitted in \S{1,63} namespace/,
      /insufficient quota to match these scopes: \[\{PriorityClass [^\n]{0,120}/,
      /no PriorityClass with name \S{1,60} was found/,
    ),
    who: 'the API server, of the pods of a DaemonSet or Deployment',
    meaning: 'no pod of the network is made: its namespace may not use the priority class that its manifest names',
    causes: [
      'system-node-critical and system-cluster-critical are for kube-system alone in this cluster: before Kubernetes ' +
        '1.17, and where a quota limits these classes (GKE)',
      'a class of your own that is not there',
    ],
    look: [
      'kubectl get priorityclasses; kubectl get resourcequotas -A',
      'kubectl -n NAMESPACE get ds NAME -o yaml | grep priorityClassName',
    ],
    cure:
      'install it into kube-system; or allow the class in its namespace: a ResourceQuota with a scopeSelector for ' +
      'PriorityClass In [system-node-critical]',
    needsNetwork: true,
  },
  {
    id: 'agent-pod-forbidden',
    pattern: oneOf(
      /(?:violates|would violate) PodSecurity "[^"\n]{1,40}": [^\n]{0,300}/,
      /unable to validate against any (?:security context constraint|pod security policy)[^\n]{0,300}|PodSecurityPolicy: unable to admit pod[^\n]{0,160}/,
      /Error creating: pods "[^"\n]{1,63}-" is forbidden: (?:failed quota|exceeded quota|error looking up service account|\[?(?:minimum|maximum) \w{3,8} usage)[^\n]{0,200}/,
    ),
    who: 'the API server, of the pods of a DaemonSet or Deployment',
    meaning:
      'no pod of the network is made: the rules of its namespace (Pod Security, SCC, quota) do not allow what an ' +
      'agent needs: the network of the host, directories of the host, privilege',
    causes: [
      'its namespace has no label pod-security.kubernetes.io/enforce=privileged, or lost it',
      'OpenShift: its service account has no SCC (privileged, hostnetwork)',
      'up to Kubernetes 1.24: no PodSecurityPolicy that its service account may use',
      'a quota or a limit of the namespace, or its service account is not there (yet)',
    ],
    look: [
      'kubectl get ns NAMESPACE --show-labels; kubectl -n NAMESPACE get resourcequotas,limitranges,sa',
      'kubectl -n NAMESPACE describe ds NAME | tail',
    ],
    cure:
      'kubectl label ns NAMESPACE pod-security.kubernetes.io/enforce=privileged; on OpenShift oc adm policy ' +
      'add-scc-to-user privileged -z ACCOUNT -n NAMESPACE; for the namespace of the network alone. A quota: raise ' +
      'it; a service account that is missing: apply the whole manifest',
    needsNetwork: true,
  },
  {
    id: 'agent-not-root',
    pattern: /container has runAsNonRoot and (?:image will run as root|image has non-numeric user)[^\n]{0,120}/,
    who: 'kubelet, of a container of an agent',
    meaning: 'the container of the agent is to run as root, and its securityContext forbids that: it is not started',
    causes: [
      'the manifest was changed, or a policy engine adds runAsNonRoot: true to the pods of its namespace',
      'the user of the image has a name instead of a number, so kubelet cannot tell whether it is root',
    ],
    look: [
      "kubectl -n NAMESPACE get pod POD -o jsonpath='{.spec.securityContext} {.spec.containers[*].securityContext}'",
    ],
    cure: 'set runAsNonRoot: false for it in the manifest, and except its namespace from the policy that adds the key',
    needsNetwork: true,
  },
  {
    id: 'manifest-invalid',
    pattern: oneOf(
      /\b(?:DaemonSet|Deployment|StatefulSet|ConfigMap|ReplicaSet|Job|CronJob|Service|ServiceAccount|(?:Cluster)?Role(?:Binding)?|CustomResourceDefinition|APIService|PodDisruptionBudget|PriorityClass|Secret|(?:Validating|Mutating)WebhookConfiguration)(?:\.[a-z0-9.]{2,40})? "[^"\n]{1,80}" is invalid: (?:\* )?\[?(?:spec|metadata|data|roleRef|subjects|webhooks|rules|aggregationRule|value|type)\b[^\n]{0,200}/,
      new RegExp(`\\b${kinds.source} in version "[^"\\n]{1,40}" cannot be handled as an? [^\\n]{1,200}`),
      new RegExp(
        `\\bno kind "${kinds.source}" is registered for (?:version|the internal version of group) "[^"]{1,60}"`,
      ),
      /the API version in the data \([^)\n]{1,60}\) does not match the expected API version \([^)\n]{1,60}\)/,
      /Apply failed with \d{1,3} conflicts?: conflicts? with "[^\n]{1,200}/,
      /no matches for kind "(?:DaemonSet|Deployment|StatefulSet|ReplicaSet|PodSecurityPolicy|CustomResourceDefinition|PodDisruptionBudget|(?:Cluster)?Role(?:Binding)?|CronJob|Ingress|NetworkPolicy|APIService|(?:Validating|Mutating)WebhookConfiguration)" in version "[^"\n]{1,60}"/,
      /error validating "[^"\n]{1,160}": error validating data: [^\n]{1,160}|ValidationError\(\w{2,40}[^)\n]{0,80}\): (?:unknown field|missing required field|invalid type)[^\n]{0,120}/,
      /cannot be imported into the current release: invalid ownership metadata[^\n]{0,160}|rendered manifests contain a resource that already exists[^\n]{0,160}/,
      /execution error at \([\w./-]{1,100}:\d{1,5}:\d{1,5}\): [^\n]{1,200}|values don't meet the specifications of the schema\(s\)[^\n]{0,200}|: template: [\w./-]{1,100}:\d{1,5}:\d{1,5}: executing [^\n]{1,200}/,
      /error parsing \S{1,160}\.ya?ml: error converting YAML to JSON: [^\n]{1,120}/,
    ),
    who: 'kubectl or helm, of the manifest of a network',
    meaning:
      'an object of the manifest or chart is refused, so the network, or a part of it, is not installed or updated',
    causes: [
      'the manifest is of another time than the cluster: DaemonSet in extensions/v1beta1 went with 1.16, ' +
        'PodSecurityPolicy with 1.25; or it names a group and version that there never was (extensions/v1beta2)',
      'a part was edited or left out: a volumeMount without its volume, a label that its selector does not have',
      '"field is immutable": the selector of a workload cannot be changed',
      '"exactly one of url or service": the hook that is there names the one, the new one the other, and merged it ' +
        'has both',
      '"Apply failed with conflicts": another tool (helm, an operator) has written the same fields',
      '"invalid ownership metadata": the network was installed in another way before (kubectl, cilium-cli, k3s)',
      '"execution error", "schema": a value is of an older chart, or two values do not go together',
      '"Too long" of a CustomResourceDefinition: kubectl apply writes it into an annotation once more',
    ],
    look: ['kubectl version; kubectl api-resources | head', 'kubectl apply --dry-run=server -f FILE'],
    cure:
      'take the manifest or chart of a release for this Kubernetes; a large CRD: kubectl apply --server-side; an ' +
      'immutable selector: kubectl delete ds NAME --cascade=orphan, apply again, and at once delete the pods of ' +
      'before (kubectl delete pod -l LABELS-OF-BEFORE): the new DaemonSet does not take them over, and two agents ' +
      'run on a node until then; a hook that would have both: keep it with kubectl get -o yaml, delete it, and the ' +
      'operator makes it again; fields of another tool: change them with that tool; helm: correct the ' +
      'value, or update the network in the way in which it was installed',
    needsNetwork: true,
  },
  {
    id: 'agent-image-command',
    pattern: oneOf(
      /Image:\s{1,12}\S{0,80}\/(?:cilium|calico|flannel|multus|cni|kube-ovn|antrea)(?:(?!Image:|nsenter --mount)[\s\S]){0,800}?Exit Code:\s{1,12}127\b/,
      calledBy(new RegExp(`(?:/[^"\\s]{0,80}/)?${programs.source}[^"\\n]{0,60}`)),
      calledBy(/\/[^"\s]{0,60}(?:cni|cilium|calico|flannel|multus|ovn|antrea)[^"\n]{0,60}/),
      new RegExp(`\\bexec (?:/\\S{0,80}/)?${programs.source}[\\w-]{0,30}: no such file or directory`),
      /\b(?:ba|da|a)?sh: (?:(?:line )?\d{1,4}: )?\/[^\s:]{0,60}(?:cni|cilium|calico|flannel|multus|ovn|antrea)[^\s:]{0,40}: (?:not found|No such file or directory)/,
      new RegExp(`start container "?${containers.source}"?: [^\\n]{0,300}?exec: "[^"\\n]{1,100}": ${noFile.source}`),
    ),
    who: 'runc, for a container of a network',
    meaning: 'the image of the agent does not have the program that its manifest or chart calls',
    causes: [
      'the manifest or chart is of another release than the image: programs are renamed and moved (`cilium` of the ' +
        'agent is `cilium-dbg` since 1.15, the scripts of Multus are programs since 4.0)',
      'the image is another one: of a mirror, of a fork, or for another system',
      'a volume is mounted over the directory of the program',
    ],
    look: [
      'kubectl -n NAMESPACE get ds NAME -o jsonpath=\'{..image}{"\\n"}{..command}{"\\n"}\'',
      'crictl images | grep -i -e cni -e cilium -e calico -e multus',
    ],
    cure: 'apply manifest and image of one release; with helm, leave the tag of the image out of the values',
  },
  {
    id: 'agent-capability-refused',
    pattern: oneOf(
      /(?:\.sh|ovs-ctl|ovs-lib|ovn-ctl): (?:line )?\d{1,5}: (?:\/\S{0,60}\/)?(?:ov[ns][\w-]{2,20}|\w{2,20}-cni|calico-\w{2,20}|cilium-\w{2,20}): Operation not permitted/,
      new RegExp(`\\bexec:? "?(?:/\\S{0,80}/)?${programs.source}[\\w-]{0,30}"?: operation not permitted`),
      /(?:unable to apply caps|can't apply capabilities): [^\n]{0,60}operation not permitted/,
      /(?:fork\/exec|exec:?) "?\/(?:usr\/)?s?bin\/(?:xtables-\w{3,6}-multi|ip6?tables|ipset|ethtool|conntrack|ip)"?: operation not permitted/,
    ),
    who: 'the kernel, to the container of an agent',
    meaning:
      'the program of the agent (or of another pod) may not be started: its manifest or its file wants a capability ' +
      'that the container cannot have',
    causes: [
      'Talos gives no container SYS_MODULE: manifests name it, and files of Open vSwitch have it (setcap)',
      'capabilities of the container were cut down in the manifest, while its image has files with more of them',
      'the node is a container itself, or its runtime runs without root: it has no more to give than it has',
    ],
    look: [
      'kubectl -n NAMESPACE get ds NAME -o yaml | grep -A20 securityContext',
      'kubectl -n NAMESPACE exec POD -- getcap /usr/sbin/ovs-vswitchd',
    ],
    cure:
      'use the settings of the network for this system (Kube-OVN: a chart that knows Talos, with ' +
      'DISABLE_MODULES_MANAGEMENT=true; Cilium: securityContext.capabilities without SYS_MODULE), or give the ' +
      'container the capability that getcap shows',
    needsNetwork: true,
  },
]

/** A container whose program is not in its image. */
function calledBy(program: RegExp): RegExp {
  return new RegExp(`${made.source}[^\\n]{0,200}?exec: "${program.source}"(?:: |,? ?"?)${noFile.source}`)
}
