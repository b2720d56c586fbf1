// SPDX-License-Identifier: Apache-2.0
// Of what podman and nerdctl have beside plugins: netavark, aardvark-dns, and networks without root.

import { type KnownError, oneOf } from '../known/known-error.ts'

/** Errors of netavark, aardvark-dns, slirp4netns, pasta and rootlessport. */
export const podmanErrors: readonly KnownError[] = [
  {
    id: 'netavark-missing',
    pattern: oneOf(
      /could not find "(?:netavark|aardvark-dns)" in (?:one of )?\[[^\]]*\]/,
      /(?:netavark|aardvark-dns)\S* (?:binary )?(?:not found|was not found|is not installed)/,
      /exec: "?\S*(?:netavark|aardvark-dns)"?: (?:executable file not found|stat \S+ no such file or directory)/,
      /fork\/exec \S*(?:netavark|aardvark-dns): no such file or directory/,
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
    id: 'aardvark-dns',
    pattern:
      /(?:IO error: )?aardvark-dns (?:failed to start|exited)[^\n]{0,240}|Error starting server failed to bind (?:udp|tcp) listener on \S+[^\n]{0,80}|aardvark pid not found[^\n]{0,40}/i,
    who: 'podman',
    meaning: 'aardvark-dns, which answers names on the networks of podman, does not run',
    causes: [
      'another program listens on port 53 of every address (dnsmasq, systemd-resolved, a DNS container)',
      'the bridge or its address is gone: the rules or the network were reset while containers ran',
    ],
    look: ['ss -Hlntup "sport = :53"', 'podman network inspect NETWORK | grep -i -A3 dns'],
    cure:
      'let the other program listen on its own addresses only, set dns_bind_port in containers.conf, or make the ' +
      'network with --disable-dns',
  },
  {
    id: 'rootless-helper',
    pattern: oneOf(
      /could not find (?:slirp4netns|pasta)[^\n]{0,80}/,
      /(?:slirp4netns|pasta)\b[^\n]{0,40}(?:executable file not found|failed(?: with exit code \d+)?|exited with status \d+|command not found)[^\n]{0,160}/,
      /bypass4netnsd not running\?|do_slirp(?: is exiting| failed)|\bcreate_sandbox failed|child failed\(\d+\) (?:WARNING: Support for|parent failed)|bess: (?:connect|bind)\b/,
      /unable to find network namespace handler|open\("\/dev\/net\/tun"\)[^\n]{0,60}|\/dev\/net\/tun: [a-z ]+/,
    ),
    who: 'podman, nerdctl, rootlesskit',
    meaning: 'a network without root needs slirp4netns, pasta or bypass4netns, and that is missing or does not start',
    causes: [
      'the package (passt or slirp4netns) is not installed',
      '/dev/net/tun is not there: the module tun is not loaded, or the container has no such device',
      'AppArmor or SELinux forbids it',
      '"cannot mount tmpfs", "create_sandbox failed": --enable-sandbox of slirp4netns needs mounts that it may ' +
        'not make there (a container, a chroot, a root that is a ramdisk)',
    ],
    look: ['which pasta slirp4netns; ls -l /dev/net/tun', 'journalctl -k --grep "apparmor|avc" | tail'],
    cure: 'install passt or slirp4netns; modprobe tun; in a container give it --device /dev/net/tun',
  },
  {
    id: 'rootless-port',
    pattern:
      /cannot expose port \d+, you might need to add|rootlessport (?:cannot expose privileged port \d+|[^\n]{0,60}permission denied)|cannot expose privileged port \d+/i,
    who: 'podman, rootlesskit',
    meaning: 'without root no port below net.ipv4.ip_unprivileged_port_start (1024) can be taken',
    causes: ['the host port is smaller than that'],
    look: ['sysctl net.ipv4.ip_unprivileged_port_start'],
    cure: 'use a port from 1024 on, or lower the limit: sysctl -w net.ipv4.ip_unprivileged_port_start=80',
  },
]
