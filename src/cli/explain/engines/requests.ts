// SPDX-License-Identifier: Apache-2.0
// Of docker and podman: what was asked for that they do not have, or cannot do with this container.

import { type KnownError, oneOf } from '../known/known-error.ts'

/** Errors of requests to container engines. */
export const engineRequestErrors: readonly KnownError[] = [
  {
    id: 'podman-network-option-unsupported',
    pattern: oneOf(
      /unsupported (?:(?:bridge|macvlan|ipvlan|vlan) )?network option:? [\w.-]{1,80}/,
      /(?:NetworkUpdate|NetworkDNSServers)[^\n]{0,30} (?:not supported|cannot be configured) for backend CNI|driver "[^"\n]{1,40}" is not supported by cni/,
    ),
    who: 'podman, of `podman network create`',
    meaning: 'the backend of podman (CNI or netavark) does not know this option (--opt), or this driver',
    causes: [
      'the option belongs to another driver: `parent` and `mode` are those of macvlan and ipvlan, `isolate` of bridge',
      'podman has the older backend CNI (or is old itself): it takes `parent` for macvlan alone, and knows fewer ' +
        'options',
      'it is an option of docker (com.docker.network.…) that podman has under another name, or not at all',
    ],
    look: ["podman info -f '{{.Host.NetworkBackend}} {{.Version.Version}}'", 'man podman-network-create'],
    cure:
      'leave the option out; with CNI make the network without it, and write `master` into its file below ' +
      '/etc/cni/net.d. netavark knows more, but a host changes to it only by podman system reset, which removes all ' +
      'containers, pods, images, networks and volumes of this user: save the data of the volumes first',
  },
  {
    id: 'docker-driver-plugin-missing',
    pattern: oneOf(
      /could not find plugin \S{1,80} in v1 plugin registry/,
      /Error response from daemon: legacy plugin: plugin not found|networks\/create returned error: [^\n]{0,80}plugin not found/,
    ),
    who: 'docker',
    meaning: 'docker has no network driver of the name that was asked for, and no plugin of that name either',
    causes: [
      'the name is misspelt, or the driver is of another system: Windows has nat, transparent and l2bridge, no bridge',
      'this docker is older than the driver (ipvlan was experimental before 19.03), or lacks the module for it',
      'the plugin that has the driver is not installed, or does not run',
    ],
    look: [
      "docker info -f '{{json .Plugins.Network}}'",
      'docker plugin ls; ls /run/docker/plugins /etc/docker/plugins',
    ],
    cure: 'use a driver that docker info lists, or install and start the plugin that has it',
    // The same registry has drivers of volumes and logs.
    unless: /error looking up \w+ plugin|\bvolumes?\b|logging driver|\bauthz/i,
  },
  {
    id: 'host-port-address-format',
    pattern: oneOf(
      /\S{1,80} has invalid format, should be <ip>:\[port\]/,
      /Invalid ip address \S{1,80}: address \S{1,80}: too many colons in address/,
    ),
    who: 'Docker Desktop or compose, of a published port',
    meaning: 'the address of a host port is not understood: an IPv6 address needs brackets before its port',
    causes: [
      'an IPv6 address stands without brackets: ::1:8092 in place of [::1]:8092',
      'the program that asked (an orchestrator) put address and port together without them',
    ],
    look: ["docker inspect -f '{{json .HostConfig.PortBindings}}' CONTAINER"],
    cure: 'write the address in brackets; where a program writes it, give it an IPv4 address or a newer release',
  },
  {
    id: 'nerdctl-hosts-store',
    pattern: oneOf(
      /\bhosts-store error\b[^\n]{0,200}|\/etchosts\/\S{1,200}\/meta\.json: no such file or directory/,
      /failed to (?:instantiate hostsstore for|remove hosts file for container)[^\n]{0,120}/,
      /(?:failed to (?:read|write)|unable to retrieve the) (?:the )?hosts file for "[^"\n]{1,120}"[^\n]{0,100}/,
    ),
    who: 'nerdctl',
    meaning: "nerdctl could not read or write its note of a container's names (meta.json below etchosts)",
    causes: [
      'a container with --net=host or none has no such note, and 2.0.0 looks for one when it removes it: harmless',
      'the note was removed by hand, or by a removal that was broken off: harmless while the container goes',
      'the disk is full, or the data root (/var/lib/nerdctl) cannot be written',
    ],
    look: ['nerdctl version; nerdctl ps -a', 'ls /var/lib/nerdctl/*/etchosts/*; df -h /var/lib/nerdctl'],
    cure: 'nothing when the container is gone (nerdctl ps -a); update nerdctl; free the disk where it is full',
    wraps: true,
  },
  {
    id: 'podman-network-mode',
    pattern: oneOf(
      /"?[\w:./-]{1,80}"? is not supported: invalid network mo/,
      /network (?:dis)?connect is not enabled for rootless containers|cannot join CNI networks if running rootless/,
    ),
    who: 'podman',
    meaning: 'the container has another network mode than bridge, so it can neither join nor leave a network',
    causes: [
      'without root podman run gives a container pasta or slirp4netns, unless --network names a network',
      'it was made with --network host, none, or that of another container',
      '"for rootless containers", "if running rootless": podman is older than 3.2, which brought this without root',
    ],
    look: ["podman inspect -f '{{.HostConfig.NetworkMode}}' CONTAINER", 'podman network ls'],
    cure:
      'make the container anew with --network NAME (several: one --network each): the mode stays as it was made. ' +
      'With docker-compose, which asks for this itself, update podman',
  },
]
