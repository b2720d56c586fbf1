// SPDX-License-Identifier: Apache-2.0
// Of Calico: its plugin, its address management, and calico-node behind them.

import { type KnownError, oneOf } from '../../known/known-error.ts'

const why = "the pod's events say why: an image, a crash, no API server"

/** Errors of Calico. */
export const calicoErrors: readonly KnownError[] = [
  {
    id: 'calico-not-installed',
    pattern:
      /resource does not exist: (?:ClusterInformation|IPPool|Node)\S*|clusterinformations\S* "default" not found/,
    who: 'the calico plugin',
    meaning: "Calico's resources are not in the cluster",
    causes: [
      'its CRDs or its data were deleted: Calico was removed, and its configuration was left on the node',
      'calico-node has not yet made them: it starts still',
    ],
    look: [
      'kubectl get crds | grep projectcalico',
      'kubectl get clusterinformations.crd.projectcalico.org',
      'ls /etc/cni/net.d',
    ],
    cure:
      'apply the manifest of Calico again; where Calico is gone, remove 10-calico.conflist and calico-kubeconfig ' +
      'from /etc/cni/net.d',
  },
  {
    id: 'calico-stale-route',
    pattern: oneOf(
      /route \(Dst: [^)]*\) already exists for an interface other than/,
      /pre-?existing conflicting (?:host compute )?endpoint/,
      /error adding host side routes for interface: [^\n]{0,200}(?:already exists|file exists)[^\n]{0,60}/,
      /route \(Ifindex: [^)]*\) already exists for an interface other than/,
    ),
    who: 'the calico plugin',
    meaning: 'the address of the pod has a route to the interface of another one',
    causes: [
      'an interface of a dead pod is left (a DEL that never came, a change of the runtime)',
      'the address was given out twice: IPAM data were restored or edited',
    ],
    look: ['ip route | grep cali', 'calicoctl ipam check'],
    cure: 'ip link delete the interface that the route of this address names, when no pod of this node has the address',
  },
  {
    id: 'calico-nodename',
    pattern:
      /\/var\/lib\/calico\/(?:nodename|mtu)\b(?! exists|: permission denied)(?:: no such file or directory)?|Node name may not be detected properly/,
    who: 'the calico plugin',
    meaning: 'calico-node has not started on this node: it writes its name there when it is up',
    causes: [
      'the calico-node pod of this node waits or crashes',
      'Calico was removed, and its configuration was left in /etc/cni/net.d',
      'calico-node runs without the mount of /var/lib/calico',
    ],
    look: ['kubectl get pods -A -o wide -l k8s-app=calico-node', 'ls /etc/cni/net.d'],
    cure:
      `make the calico-node pod of this node run: ${why}. Where Calico is gone, remove 10-calico.conflist and ` +
      'calico-kubeconfig from /etc/cni/net.d',
  },
  {
    id: 'calico-unauthorized',
    pattern: oneOf(
      /Connection to the datastore is unauthorized/,
      /(?:ClusterInformation|calico)[^\n]{0,160}?connection is unauthorized: Unauthorized/,
      /network: connection is unauthorized(?!:)/,
      /type="calico[^"]*"(?: name="[^"]*")? failed \(\w+\): Unauthorized/,
    ),
    who: 'the calico plugin',
    meaning: 'the API server refuses the token of /etc/cni/net.d/calico-kubeconfig',
    causes: [
      'the token expired: calico-node renews it while it runs, and does not run, or is an older version',
      'the cluster was set up anew, or its keys changed, and the file is left from before',
      'the clock of the node is wrong',
    ],
    look: [
      'ls -l /etc/cni/net.d/calico-kubeconfig',
      'kubectl get pods -A -o wide -l k8s-app=calico-node',
      'timedatectl',
    ],
    cure:
      'restart calico-node on this node: it writes the file anew (kubectl -n calico-system rollout restart ' +
      'ds/calico-node; kube-system in older installations)',
    innermost: true,
  },
  {
    id: 'calico-full',
    pattern: oneOf(
      /unable to assign an address: no IP pools provided/,
      /Unable to reclaim any empty blocks/,
      /failed to request \d+ IPv[46] addresses|IPAM allocated only \d+|is not part of a configured pool/,
      /pools are likely exhausted|No more free affine blocks|Need to allocate an IPAM block but could not|Failed to assign IPs in newly allocated block|failed to find or claim a block/,
      /cannot allocate new block due to per host block limit|no pools match the required use/,
      /No valid IPPool\b(?! found)|Assigned 0 out of \d+ requested IPv[46] addresses[^\n]{0,120}/,
      /No IPs available in pools|no configured Calico pools\b|cannot find a qualified ippool/,
      /No IPv[46] addresses available in pool|Unable to autoassign an (?:IPv[46] )?address/,
      /No ippools with allowedUse LoadBalancer found|All addresses exhausted in pool|No free blocks found in any pool|blocks but blocks per host limit is/,
    ),
    who: 'the calico plugin',
    meaning: 'no IP pool of Calico has an address for this pod',
    causes: [
      'no enabled IPPool selects this node or namespace, or the annotation names one that does not exist',
      'the blocks are full, or leaked: with strict affinity a node cannot borrow from the blocks of others',
    ],
    look: [
      'calicoctl ipam show --show-blocks',
      'calicoctl ipam check',
      'kubectl get ippools.crd.projectcalico.org -o wide',
    ],
    cure:
      'add an IPPool, or release what `calicoctl ipam check -o report.json` finds with calicoctl ipam release ' +
      '--from-report=report.json',
  },
  {
    id: 'calico-not-ready',
    pattern: oneOf(
      /Datastore became unready, need to restart/,
      /Calico is currently not ready to process requests|datastore is locked, skipping/,
      /Upgrade may be in progress, ready flag is not set|datastore (?:stays locked|is not ready or has not been initiali[sz]ed)/,
    ),
    who: 'the calico plugin',
    meaning: "Calico's data are locked: datastoreReady of ClusterInformation is false",
    causes: [
      'a migration or an upgrade of its data runs, or was broken off (`calicoctl datastore migrate lock`)',
      'the ClusterInformation was restored from a backup that was made in such a moment',
    ],
    look: ['kubectl get clusterinformations.crd.projectcalico.org default -o yaml | grep -i ready'],
    cure: 'end the migration; when none runs: calicoctl datastore migrate unlock',
  },
  {
    id: 'calico-policy-wait',
    pattern: /timed out waiting for endpoint status file[^\n]{0,120}/,
    who: 'the calico plugin',
    meaning: 'calico-node (Felix) did not say in time that the rules of the pod are there',
    causes: [
      'calico-node of this node does not run, or is loaded: many policies, many pods at once',
      'policy_setup_timeout_seconds is short, or Felix has no endpointStatusPathPrefix',
    ],
    look: ['kubectl get pods -A -o wide -l k8s-app=calico-node', 'ls /var/run/calico/endpoint-status | wc -l'],
    cure: `make calico-node of this node run: ${why}; raise policy_setup_timeout_seconds, or set it to 0`,
  },
  {
    id: 'calico-address-refused',
    pattern: oneOf(
      /Block host affinity does not match/,
      /provided IP address (?:\S+ )?is not in a configured pool|Address already assigned in block/,
      /the given pool \([^)]*\) (?:does not exist(?:, or is not enabled)?|is (?:not enabled|disabled))/,
      /IP address \S+ is in IP pool "[^"]*", which is not allowed for use/,
      /provided IPv[46] IPPools list contains|resource already exists: (?:IPAMHandle\S*|[\da-f.:]+)/,
      /Handle already has different IP(?:\(s\)|s)? allocated/,
      /handle \S+ already has IP\(s\) allocated[^\n]{0,80}|cannot pick an IPv4 tunnel address/,
      /Requested pool \S+ is not configured or has ?wrong attributes/,
    ),
    who: 'the calico plugin',
    meaning: 'the address or the pool that the pod asks for cannot be given',
    causes: [
      'the annotation cni.projectcalico.org/ipAddrs names an address outside of every IPPool, or one that a pod has',
      'the annotation or the configuration names an IPPool that is not there, disabled, or of the other family',
    ],
    look: ['kubectl get ippools.crd.projectcalico.org -o wide', 'calicoctl ipam show --ip=ADDRESS'],
    cure: 'take a free address of an enabled pool; release one that is left: calicoctl ipam release --ip=ADDRESS',
  },
  {
    id: 'calico-ipam-busy',
    pattern:
      /update conflict: (?:IPAM|Block|WorkloadEndpoint)\S*|Hit max retries|resource already exists: BlockKey\([^)\n]{1,60}\)|IPAM block updated since|max retries hit[^\n]{0,60}|excessive concurrent IPAM requests/i,
    who: "Calico's address management",
    meaning: 'so many nodes changed the same block or handle at once that this one gave up',
    causes: ['very many pods start at once, on pools with few blocks left', 'the API server or etcd is slow'],
    look: ['calicoctl ipam show --show-blocks', 'calicoctl ipam check'],
    cure: 'the next try mostly works; when it stays: a larger IPPool, or release what `calicoctl ipam check` finds',
    needsNetwork: true,
  },
]
