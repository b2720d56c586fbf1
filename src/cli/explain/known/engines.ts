// SPDX-License-Identifier: Apache-2.0
// Of docker and podman: their own networks and their own address management, where no plugin gives addresses.

import type { KnownError } from './known-error.ts'

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
    id: 'docker-endpoint-left',
    pattern: /endpoint with name \S+ already exists in network|network \S+ (?:id \S+ )?has active endpoints/i,
    who: 'docker',
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
    pattern:
      /IPAM error: (?:failed to (?:get|find) (?:ips?|addresses) for container|failed to open database)[^\n]{0,160}/i,
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
    pattern:
      /failed to (?:mount|create|write|set ?up|open) [^\n]{0,60}\brootless[- ](?:netns|cni)\b[^\n]{0,160}|(?:error|failed) (?:creating|to create|reading|to (?:open|join|enter)) (?:the )?rootless[- ](?:cni |network )?(?:netns|namespace|network)\b[^\n]{0,160}/i,
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
]
