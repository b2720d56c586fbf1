// SPDX-License-Identifier: Apache-2.0
// Of what podman and nerdctl have beside plugins: netavark, aardvark-dns, and networks without root.

import { type KnownError, oneOf } from '../known/known-error.ts'

const helperFailed =
  /(?:slirp4netns|pasta)\b[^\n]{0,40}(?:executable file not found|failed(?: with exit code \d+)?|exited with status \d+|command not found)/

/** What pasta and slirp4netns say of a cause that has an entry of its own; without their first word. */
const ownEntries = oneOf(
  /External interface not usable|Couldn't pick external interface|netlink: Too many routes/,
  /Couldn't (?:open|create|enter) (?:network|user) namespace(?!\s\S*rootless-netns)|Couldn't switch to pasta namespaces/,
  /to (?:join network namespace|clone process with detached namespaces|detach isolating namespaces)/,
  /Couldn't set IPv[46] (?:routes?|address)|to bind (?:any )?port|L4 socket: Address family/,
  /add_hostfwd failed|setns\(CLONE_NEW/,
)

/** Errors of netavark, aardvark-dns, slirp4netns, pasta and rootlessport. */
export const podmanErrors: readonly KnownError[] = [
  {
    id: 'netavark-missing',
    pattern: oneOf(
      /could not find "(?:netavark|aardvark-dns)" in (?:one of )?\[[^\]]*\]/,
      /(?:netavark|aardvark-dns)\S* (?:binary )?(?:not found|was not found|is not installed)/,
      /exec: "?\S*(?:netavark|aardvark-dns)"?: (?:executable file not found|stat \S+ no such file or directory)/,
      /fork\/exec \S*(?:netavark|aardvark-dns): no such file or directory/,
      /dns disabled because aardvark-dns path does not exists?/,
    ),
    who: 'podman',
    meaning: 'podman wants netavark (or aardvark-dns) for its networks, and does not find it',
    causes: [
      'the package is not installed: distributions only recommend it beside podman 4 and later',
      'it is in a directory that helper_binaries_dir of containers.conf does not name',
    ],
    look: ['podman info -f "{{.Host.NetworkBackend}}"', 'ls -l /usr/lib/podman /usr/libexec/podman'],
    cure: 'install netavark and aardvark-dns; or name their directory in helper_binaries_dir',
  },
  {
    id: 'netavark-older-than-kernel',
    pattern:
      /(?:(?:failed to|unable to) (?:delete|remove|del)|delete|remove)\b[^\n]{0,120}: Received a netlink error message (?:Operation )?not supported[^\n]{0,20}/,
    who: 'netavark 1.0, or another program with its netlink library of that time',
    meaning: 'the kernel refuses the way in which this netavark asks it to delete an interface, a route or an address',
    causes: ['netavark is 1.0, and the kernel 5.19 or newer: since then that flag of a deletion means something else'],
    look: ['netavark --version || /usr/libexec/podman/netavark --version; uname -r', 'ip -br link | grep podman'],
    cure:
      'update netavark to 1.1 or newer (with aardvark-dns and podman); what was left goes with ip link delete ' +
      'podman1, when no container is on it',
  },
  {
    id: 'netavark-newer-than-kernel',
    pattern:
      /netlink socket(?: in netns)?: [^\n]{0,60}Protocol not available(?: \(os error 92\))?|netavark: [^\n]{0,80}Protocol not available \(os error 92\)/,
    who: 'netavark 1.17 or newer',
    meaning: 'the kernel does not know an option that this netavark sets on its netlink sockets, so no network is made',
    causes: ['the kernel is older than 4.20 (that of RHEL 7, of a NAS, of a rented container): NETLINK_GET_STRICT_CHK'],
    look: ['uname -r', 'netavark --version || /usr/libexec/podman/netavark --version || /usr/lib/podman/netavark -V'],
    cure:
      'boot a kernel from 4.20 on (better 5 or newer, which podman expects); else go back to netavark 1.15 or 1.16 ' +
      'with the podman of that time',
  },
  {
    id: 'netavark-version-skew',
    pattern: oneOf(
      /failed to load network (?:options|create): (?:IO error: |JSON Decoding error: )?(?:invalid (?:type|value|length)|missing field|unknown (?:field|variant)|data did not match)[^\n]{0,120}/,
      /netavark\b[^\n]{0,80}\b(?:unrecognized subcommand ['"]\w[\w-]{2,20}['"]|subcommand ['"]\w[\w-]{2,20}['"] wasn't recognized)/,
    ),
    who: 'netavark',
    meaning: 'netavark does not understand what podman or buildah hands over: the two are not of the same time',
    causes: [
      'podman 6 or buildah 1.44 (built by hand, or of another repository) beside netavark 1: they need 2.0 or newer',
      'netavark 2 beside an older podman or buildah, with which it is not meant to work',
      'another netavark is found first: helper_binaries_dir of containers.conf, /usr/local',
    ],
    look: [
      "podman info -f '{{.Version.Version}} {{.Host.NetworkBackendInfo}}'",
      'buildah --version; ls -l /usr/libexec/podman /usr/lib/podman /usr/local/libexec/podman 2>/dev/null',
    ],
    cure:
      'install netavark and aardvark-dns of the same generation as podman and buildah, from the same repository; ' +
      'until it has them, stay with the earlier podman or buildah',
  },
  {
    id: 'aardvark-dns',
    pattern: oneOf(
      /(?:IO error: )?aardvark-dns (?:failed to start|exited)[^\n]{0,240}/,
      /(?:Error starting server )?failed to bind (?:udp|tcp) listener on \S+[^\n]{0,80}/,
      /aardvark pid not found[^\n]{0,40}|failed to get aardvark pid[^\n]{0,80}|remove aardvark entries: [^\n]{1,80}/,
      /error while applying dns entries(?: [^\n]{1,160})?|failed to create aardvark-dns directory[^\n]{0,80}/,
      /start aardvark-dns: \[[^\]]{0,400}\] (?:Failed to (?:connect to bus|start transient)|Running scope as unit)[^\n]{0,80}/,
      /unable to start container[^\n]{0,200}\bFailed to connect to bus: No medium found/,
      /has no usable IP addresses\. Aardvark-dns requires at least one address[^\n]{0,60}/,
      /communications error to 10\.8[89]\.\d{1,3}\.1#53: connection refused/,
    ),
    who: 'podman',
    meaning: 'aardvark-dns, which answers names on the networks of podman, does not run',
    causes: [
      'another program listens on port 53 of every address (dnsmasq, systemd-resolved, a DNS container)',
      'the bridge or its address is gone: the rules or the network were reset while containers ran',
      '"Failed to connect to bus": the user has no systemd of its own, by which podman starts it (a session by su or ' +
        'sudo, a user without linger)',
    ],
    look: ['ss -Hlntup "sport = :53"', 'podman network inspect NETWORK | grep -i -A3 dns'],
    cure:
      'let the other program listen on its own addresses only, set dns_bind_port in containers.conf, or make the ' +
      'network with --disable-dns; where the bus is missing log in as that user, and loginctl enable-linger USER',
  },
  {
    id: 'rootless-helper',
    pattern: oneOf(
      /could not find (?:slirp4netns|pasta)[^\n]{0,80}/,
      new RegExp(`${helperFailed.source}(?![\\s\\S]{0,500}?(?:${ownEntries.source}))[^\\n]{0,160}`),
      /setting up tap \S+: executing [^\n]{1,240}exit status \d+|failed to setup network &\{[^\n]{1,200}(?:executable file not found|exit status \d+)/,
      /bypass4netnsd not running\?|do_slirp(?: is exiting| failed)|\bcreate_sandbox failed|child failed\(\d+\) (?:WARNING: Support for|parent failed)|bess: (?:connect|bind)\b/,
      /\[rootlesskit:child ?\] error: executing \[\[ip (?:tuntap|link|addr|route)[^\n]{1,300}/,
      /(?<!open: No such device )\[rootlesskit:parent\] error: failed to setup network[^\n]{1,900}/,
      /unable to find network namespace handler|open\("\/dev\/net\/tun"\)[^\n]{0,60}|(?<!TUN device: open )\/dev\/net\/tun: [a-z ]+/,
      /(?:slirp4netns|pasta|vpnkit) binary "[^"]*" is not installed|got empty (?:slirp4netns|pasta) binary/,
      /slirp4netns seems older than v[\d.]+|this version of slirp4netns does not support --[\w-]+/,
      /unsupported slirp4netns version: lacks \w+|slirp4netns support has been removed[^\n]{0,80}/,
      /slirp4netns has to be compiled against \w+ [\d.]+|TUNSETIFF ioctl on \/dev\/net\/tun failed[^\n]{0,60}/,
      /ip tuntap add name \w+ mode tap\][^\n]{0,300}exit status \d+/,
      /waiting for slirp4n?ets to create the api socket[^\n]{0,120}/,
      /apparmor="DENIED"[^\n]{0,80}profile="(?:passt|pasta|slirp4netns)\b(?![^\n]{0,120}(?:netns|\/ns\/(?:net|user)))[^\n]{0,120}/,
    ),
    who: 'podman, nerdctl, rootlesskit',
    meaning: 'a network without root needs slirp4netns, pasta or bypass4netns, and that is missing or does not start',
    causes: [
      'the package (passt or slirp4netns) is not installed',
      '/dev/net/tun is not there: the module tun is not loaded, or the container has no such device',
      'AppArmor or SELinux forbids it',
      '"cannot mount tmpfs", "create_sandbox failed": --enable-sandbox of slirp4netns needs mounts that it may ' +
        'not make there (a container, a chroot, a root that is a ramdisk)',
      'it is of another age than podman: "unrecognized option"; podman 6 has no slirp4netns any more',
    ],
    look: ['which pasta slirp4netns; ls -l /dev/net/tun', 'journalctl -k --grep "apparmor|avc" | tail'],
    cure: 'install passt or slirp4netns; modprobe tun; in a container give it --device /dev/net/tun',
  },
  {
    id: 'rootless-port',
    pattern: oneOf(
      /cannot expose port \d+, you might need to add|rootlessport (?:cannot expose privileged port \d+|[^\n]{0,60}permission denied)|cannot expose privileged port \d+/,
      /cannot listen on the (?:TCP|UDP) port: listen \S+ \S* ?bind: permission denied/,
      /to bind port \d+ \(Permission denied\) for option[^\n]{0,40}/,
      /Failed to bind any port for '-[tu] (?:[\d.]+\/)?\d{1,3}(?![\d.])[^\n]{0,40}|Port\(s\) already bound: \d{1,3}: Permission denied/,
      /(?:PortManager\.AddPort|failed to expose port)[^\n]{0,160}: permission denied/,
      /listen (?:tcp|udp)[46]? (?:\d{1,3}(?:\.\d{1,3}){3}|\[[\da-f:]{2,39}\]):\d{1,3}: bind: permission denied(?=[^\n]{0,200}\b(?:podman|rootless|port mappings?)\b)/,
      /\b(?:podman|rootless\w*)\b[^\n]{0,200}?listen (?:tcp|udp)[46]? (?:\d{1,3}(?:\.\d{1,3}){3}|\[[\da-f:]{2,39}\]):\d{1,3}: bind: permission denied/,
    ),
    who: 'podman, rootlesskit',
    meaning: 'without root no port below net.ipv4.ip_unprivileged_port_start (1024) can be taken',
    causes: [
      'the host port is smaller than that',
      'an old podman-compose gives the pod the ports of its containers as well',
    ],
    look: ['sysctl net.ipv4.ip_unprivileged_port_start'],
    cure: 'use a port from 1024 on, or lower the limit: sysctl -w net.ipv4.ip_unprivileged_port_start=80',
  },
  {
    id: 'rootlesskit-api-mismatch',
    pattern: oneOf(
      /failed to call info API, probably RootlessKit binary is too old[^\n]{0,160}/,
      /error while connecting to RootlessKit API socket[^\n]{0,200}/,
      /error while calling PortManager\.\w+\(\): [^\n]{0,60}(?:unexpected HTTP status|404 page|EOF|connection refused|no such file)[^\n]{0,60}/,
    ),
    who: 'rootlesskit-docker-proxy, which docker without root runs for each published port',
    meaning:
      'the RootlessKit that runs is of another release than the program that asks it for a port, or does not answer',
    causes: [
      'docker was updated, and the daemon of the user still runs below the old rootlesskit',
      'two are installed: one of the distribution in /usr/bin, another in ~/bin',
    ],
    look: ['rootlesskit --version; which -a rootlesskit rootlesskit-docker-proxy', 'systemctl --user status docker'],
    cure: 'install docker-rootless-extras of the same release as docker, then systemctl --user restart docker',
  },
]
