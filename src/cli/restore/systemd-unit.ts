// SPDX-License-Identifier: Apache-2.0
// The unit that runs `trestle restore` whenever a firewall was started, restarted or reloaded (systemd.unit(5)).
//
// `After=` orders it behind the firewall's job, a reload included. `WantedBy=` starts it with the firewall, `PartOf=`
// restarts it with the firewall, `ReloadPropagatedFrom=` reloads it: for the last two it has to be active, hence
// `RemainAfterExit=`. Units that are not installed are passed over.

/** Services that flush or rebuild rules of others when they start, restart or reload. */
const firewalls = ['nftables.service', 'firewalld.service', 'docker.service']

/** The text of trestle-restore.service. `words`: the command line, the program's absolute path first. */
export function restoreUnit(words: readonly string[]): string {
  const command = words.map(quoted).join(' ')
  const all = firewalls.join(' ')
  return `[Unit]
Description=Pod networks made again after a firewall flushed their rules
After=${all}
PartOf=${all}
ReloadPropagatedFrom=${all}

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=${command}
ExecReload=${command}
# Exit code 1: a pod's own interface is gone. The rest is restored.
SuccessExitStatus=1

[Install]
WantedBy=multi-user.target ${all}
`
}

/** A word of a command line: quoted where it must be, specifiers and variables taken literally (systemd.service(5)). */
function quoted(word: string): string {
  const literal = word.replaceAll('%', '%%').replaceAll('$', '$$$$')
  return /^[\w./%:@+=-]+$/.test(literal) ? literal : `"${literal.replace(/[\\"]/g, '\\$&')}"`
}
