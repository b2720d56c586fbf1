// SPDX-License-Identifier: Apache-2.0
// Of docker and podman: their own networks and their own address management, where no plugin gives addresses.

import { type KnownError, oneOf } from './known-error.ts'

/** Errors of container engines that make their networks themselves. */
export const engineErrors: readonly KnownError[] = [
  {
    id: 'docker-gateway',
    pattern: /failed to allocate (?:secondary )?gateway \([^)]*\): [^\n]{1,60}/i,
    who: 'docker',
    meaning: 'docker could not take the address of the gateway for a network of its own',
    causes: [
      "docker's own list of networks (local-kv.db) still has it: a daemon was killed, or bip was changed",
      '--bip or --gateway names the address of the network itself (192.168.17.0), or one outside of the range',
    ],
    look: ['docker network ls; ip -br addr show docker0', 'ls -l /var/lib/docker/network/files'],
    cure:
      'give bip as an address within the range (192.168.17.1/24); where the list is stale: stop docker, move ' +
      '/var/lib/docker/network/files/local-kv.db away, start it',
  },
  {
    id: 'docker-network-state',
    pattern: oneOf(
      /networks have same bridge name|local-kv\.db: [^\n]{1,80}/,
      /failed to update (?:the )?store for object type \*?libnetwork\.\w+[^\n]{0,120}/,
      /failed to init\w* (?:vxlan id manager|bit sequence handler|libkv)[^\n]{0,120}(?:not found in store|timeout|unexpected)/,
      /could not (?:find|get) endpoint count for network \S+[^\n]{0,80}/,
      /getNetworkFromStore for nid (?:\S+ )?failed while trying to build sandbox[^\n]{0,80}/,
      /failed getting network for ep (?:\S+ )?during sandbox (?:\S+ )?delete[^\n]{0,60}/,
      /could not cleanup all the endpoints in container \S+ ?\/ sandbox|Failed to cleanup up stale network sandbox/,
      /datastore for scope "\w+" is not initialized|(?:bridge|ipvlan|macvlan) store not initialized|boltdb file \S+ is already open/,
      /failed to (?:save|update) (?:bridge|ipvlan|macvlan) (?:endpoint|store|network)[^\n]{0,100}/,
      /failed to perform atomic write \([^)\n]*\)/,
      /error (?:deleting|marking|rolling back) (?:network|endpoint|id) [^\n]{0,60}(?:from (?:data)?store|for deletion)/,
    ),
    who: 'docker',
    meaning: "docker's own list of networks (local-kv.db) contradicts itself, or cannot be read or written",
    causes: [
      'the machine lost power, or the daemon was killed, while it made a network: one is in the list twice',
      'the disk is full, or the data directory was moved or restored while docker ran',
      'two networks of your own were given one bridge name (com.docker.network.bridge.name)',
    ],
    look: [
      'docker network ls; ip -br link show type bridge',
      'ls -l /var/lib/docker/network/files; df -h /var/lib/docker',
    ],
    cure:
      'stop docker, move /var/lib/docker/network/files/local-kv.db away, start it: it makes its own networks anew; ' +
      'then make yours again (compose does)',
  },
  {
    id: 'docker-network-gone',
    pattern: oneOf(
      /failed to get network during CreateEndpoint: [^\n]{1,100}/,
      /failed to get (?:network|endpoint) from store during \w+: [^\n]{1,100}/,
      /(?:Error response from daemon|set up container networking|Cannot start service \S+|start container \S+): network \S+ not found/,
      /(?<!CNI )\bnetwork "?(?=[a-z]{0,63}\d)(?:[\da-f]{8,64}|[\da-z]{25})"? not found|unknown network \S+ id [\da-z]{8,64}/,
      /\bnetwork (?=[a-z]{0,63}\d)(?:[\da-f]{8,64}|[\da-z]{25}) does not exist|desc = network \S+ not found/,
      /joining network namespace of container: No such container|service binding for [^\n]{1,200}network \S+ not found/,
      /could not find a network matching network mode \S+|could not find network \S+ while trying to leave/,
      /network \S+ declared as external, but could not be found/,
      /could not attach to network \S+: [^\n]{0,80}not found/,
    ),
    who: 'docker',
    meaning: 'the network that the container was made with is not (or no longer) there',
    causes: [
      'it was removed and made anew (compose down, network prune): the container has the id of the old one',
      'a network of a swarm, which a node has only while something of it runs there: docker before 20.10 lost it ' +
        'when a container was restarted',
      'an external network of compose was never made',
    ],
    look: ['docker network ls --no-trunc', "docker inspect -f '{{json .NetworkSettings.Networks}}' CONTAINER"],
    cure:
      'make the container anew (docker compose up --force-recreate); for an external network docker network create ' +
      'NAME first',
  },
  {
    id: 'docker-ip-needs-subnet',
    pattern: oneOf(
      /user[- ]specified IP address is supported (?:on|only when)[^\n]{0,80}/,
      /network-scoped alias(?:es)? (?:is|are) (?:only )?supported (?:only )?for[^\n]{0,60}/,
    ),
    who: 'docker',
    meaning:
      'docker gives an address or alias that is asked for only on a network that was made by you, with a --subnet',
    causes: [
      'no --network was given, or bridge: the default network does not have it',
      'the network was made without --subnet: docker chose the range itself',
    ],
    look: ['docker network ls', "docker network inspect -f '{{json .IPAM}}' NETWORK"],
    cure: 'docker network create --subnet 10.89.1.0/24 NAME, then run with --network NAME --ip 10.89.1.5',
  },
  {
    id: 'docker-dns',
    pattern: oneOf(
      /\[resolver\] (?:failed to (?:query|read from) (?:external )?DNS server|connect failed)[^\n]{0,240}/,
      /\[resolver\] more than \d+ concurrent queries[^\n]{0,60}/,
    ),
    who: 'docker',
    meaning: 'the name server that docker gives containers (127.0.0.11) got no answer from the one behind it',
    causes: [
      'the name server in /etc/resolv.conf of the host (or of --dns) does not answer, or not to this address',
      'the container is on an --internal network, or a VPN or firewall drops its queries',
      'the network of the host came up after docker, and resolv.conf changed since',
    ],
    look: ['cat /etc/resolv.conf; resolvectl dns 2>/dev/null', 'docker exec CONTAINER cat /etc/resolv.conf'],
    cure: 'name a server that answers ("dns" in /etc/docker/daemon.json, --dns), let port 53 pass, restart it',
  },
  {
    id: 'docker-swarm-gossip',
    pattern: oneOf(
      /\bbulk sync (?:to|on|failed on) node \S+ (?:timed out|failed)[^\n]{0,160}|periodic bulk sync failure for network[^\n]{0,200}/,
      /NetworkDB stats [^\n]{0,80}healthscore:\d+ \(connectivity issues\)|failed to send a TCP message during bulk sync[^\n]{0,120}/,
      /Failed to join the cluster at neigh(?:bor)? IP[^\n]{0,120}/,
    ),
    who: 'docker, in a swarm',
    meaning: 'nodes of the swarm do not tell each other which containers are on their overlay networks',
    causes: [
      'port 7946 (TCP and UDP) does not pass between all nodes in both directions',
      'a node advertises an address that the others do not reach: a second card, NAT, a VPN',
      'a node is down or overloaded, so that it answers late',
    ],
    look: ['docker node ls', 'ss -Hlntup "sport = :7946"; nc -vz NODE 7946'],
    cure:
      'open 7946 (TCP, UDP) and 4789/udp between the nodes; join a node anew with --advertise-addr where its address ' +
      'is the wrong one',
  },
  {
    id: 'docker-link',
    pattern: /Cannot link to (?:a non running container|\S+, as it does not belong to the default network)[^\n]{0,60}/i,
    who: 'docker',
    meaning: 'a container is linked (--link) to one that does not run, or that is on another network',
    causes: [
      'the other container ended, or was made later',
      'links work on the default bridge only: the other one is on a network of its own (compose makes one)',
    ],
    look: ['docker ps -a', "docker inspect -f '{{json .HostConfig.Links}} {{.HostConfig.NetworkMode}}' CONTAINER"],
    cure:
      'put both on one network that you made (docker network create) and use the name of the other one; no link is ' +
      'needed there',
  },
  {
    id: 'docker-swarm-scope',
    pattern: oneOf(
      /network \S+ not manually attachable|cannot create a swarm scoped network when swarm is not active/,
      /(?:This node is not a swarm manager|Cannot create a multi-host network from a worker node)[^\n]{0,120}network/,
      /Cannot create a multi-host network from a worker node|Only networks scoped to the swarm can be used/,
      /cannot be used with services\. Only networks|Multi-Host overlay networking requires cluster-advertise/,
    ),
    who: 'docker',
    meaning: 'the network belongs to the swarm, or does not, and the command wants the other',
    causes: [
      'a container of its own cannot join an overlay network that was made without --attachable',
      'a service takes overlay networks only, which managers of the swarm make; this node is a worker, or in no swarm',
    ],
    look: ["docker info -f '{{json .Swarm}}'", 'docker network ls'],
    cure: 'make the network on a manager: docker network create -d overlay --attachable NAME',
  },
  {
    id: 'docker-endpoint-left',
    pattern: oneOf(
      /endpoint with name \S+ already exists(?: in network)?|network \S+ (?:id \S+ )?has active endpoints?/,
      /endpoint with name \S+ (?:id \S+ )?has active containers|container \S+ is already present in sandbox/,
      /a(?:nother)? container (?:has already joined the|is attached to the same network) endpoint/,
      /\(Only one endpoint allowed\)|"[\w.-]{1,80}" has associated containers with it/,
      /network "[^"\n]{1,60}" is in use by container/,
    ),
    who: 'docker, podman',
    meaning: 'docker still has an endpoint of a container that is gone, on this network',
    causes: [
      'the daemon or the machine ended while the container ran',
      'a container is still connected, stopped or not',
    ],
    look: ['docker network inspect NETWORK', 'docker ps -a'],
    cure: 'docker network disconnect -f NETWORK NAME; when it stays, restart docker',
  },
  {
    id: 'podman-full',
    pattern: /failed to find free IP in range: [^\n]{1,100}/i,
    who: 'podman, with netavark',
    meaning: "every address of the network's range is given to a container",
    causes: ['as many containers as addresses', 'entries of containers that are gone are left in its ipam.db'],
    look: ['podman network inspect NETWORK', 'ls -l /run/containers/networks/ipam.db'],
    cure: 'remove containers, or make the network with a larger --subnet; entries that are left go with a restart',
  },
  {
    id: 'podman-ipam',
    pattern: oneOf(
      /failed to parse ipam options: no static ips provided|IPAM error: (?:failed to (?:get|find) (?:ips?|addresses) for |failed to (?:open database|(?:create\/)?get \w+ bucket|store|unmarshal|remove))[^\n]{0,160}/,
      /failed to open database \S*ipam\.db: timeout/,
    ),
    who: 'podman, with netavark',
    meaning: 'podman does not find the addresses of a container in its own list (ipam.db)',
    causes: [
      'the container ended with the machine, or /run was emptied while it ran',
      'two storages or users share one run directory; an error at the start came before, and this is its clean-up',
    ],
    look: ['podman info | grep -i -e runRoot -e networkBackend', 'ls -l /run/containers/networks'],
    cure: 'start the container again, which takes a new address; else remove it with podman rm -f',
    wraps: true,
  },
  {
    id: 'rootless-netns',
    pattern: oneOf(
      /rootless netns: (?!setup network: pasta)[^\n]{1,160}|rootless netns ref counter out of sync[^\n]{0,60}/,
      /failed to (?:mount|create|write|set ?up|open) [^\n]{0,60}\brootless[- ](?:netns|cni)\b[^\n]{0,160}/,
      /(?:error|failed) (?:creating|to create|reading|to (?:open|join|enter)) (?:the )?rootless[- ](?:cni |network )?(?:netns|namespace|network)\b[^\n]{0,160}/,
    ),
    who: 'podman, without root',
    meaning: 'the namespace in which podman makes networks without root cannot be made, or what it is made of is gone',
    causes: [
      'files below $XDG_RUNTIME_DIR were removed while containers ran: the last session of the user ended, tmpfiles',
      '/var/lib/cni or another directory that it covers with one of its own does not exist',
      'podman ran with sudo or su, and XDG_RUNTIME_DIR names the directory of another user',
    ],
    look: ['echo $XDG_RUNTIME_DIR; ls -l $XDG_RUNTIME_DIR', 'loginctl show-user $USER | grep Linger'],
    cure:
      'stop all containers of the user and remove $XDG_RUNTIME_DIR/rootless-*, or podman system migrate; ' +
      'loginctl enable-linger keeps the directory',
    wraps: true,
  },
  {
    id: 'crio-directories',
    pattern: /invalid (?:plugin_dirs(?: entry)?|network_dir): [^\n]{1,160}/i,
    who: 'CRI-O',
    meaning: 'CRI-O does not start: a directory of its section [crio.network] is not there, and it cannot make it',
    causes: [
      '/usr is read-only (Fedora CoreOS, Flatcar), and the package of the upstream plugins, which brought ' +
        '/usr/libexec/cni, is gone',
      'a file stands where the directory should be',
    ],
    look: ['crio config 2>/dev/null | grep -A12 "crio.network"', 'ls -ld /usr/libexec/cni /opt/cni/bin /etc/cni/net.d'],
    cure:
      'install the package with the plugins, or set plugin_dirs to directories that can be written (/opt/cni/bin) ' +
      'in a file of /etc/crio/crio.conf.d; start crio: containers that run go on',
  },
]
