// SPDX-License-Identifier: Apache-2.0
// The .deb and the .rpm: the plugin where the distribution has its plugins, and a link to it in /opt/cni/bin. No
// configuration: what a runtime uses is the operator's choice.
import { mkdirSync, readdirSync, renameSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'

const summary = 'CNI plugin: one executable that gives a pod its whole network'
const description = `${summary}
 Interface, address, routes, masquerade, host ports, firewall, bandwidth limits
 and sysctls in one run, commands that explain what is wrong, and an agent that
 joins a Kubernetes node to its cluster.`

/** Paths of the package, from those of the staged files. `plugins`: the distribution's directory of plugins. */
function places(plugins) {
  return {
    trestle: `${plugins}/trestle`,
    LICENSE: '/usr/share/doc/trestle/LICENSE',
    'README.md': '/usr/share/doc/trestle/README.md',
    'conf-examples': '/usr/share/doc/trestle/conf-examples',
    docs: '/usr/share/doc/trestle/docs',
    'conf-examples/trestle-restore.service': '/usr/lib/systemd/system/trestle-restore.service',
    'completions/trestle.bash': '/usr/share/bash-completion/completions/trestle',
    'completions/trestle.zsh': '/usr/share/zsh/vendor-completions/_trestle',
    'completions/trestle.fish': '/usr/share/fish/vendor_completions.d/trestle.fish',
  }
}

function layOut(tree, stage, plugins, run) {
  for (const [from, to] of Object.entries(places(plugins))) {
    mkdirSync(join(tree, dirname(to)), { recursive: true })
    run('cp', '-r', join(stage, from), join(tree, to))
  }
  for (const directory of ['/opt/cni/bin', '/usr/bin']) {
    mkdirSync(join(tree, directory), { recursive: true })
    symlinkSync(relative(directory, `${plugins}/trestle`), join(tree, directory, 'trestle'))
  }
}

/** `machine`: {deb, rpm}. `run`: starts a program with the times of the commit. */
export function buildDeb({ stage, out, machine, version, run }) {
  const tree = join(out, 'stage/deb', machine.deb)
  layOut(tree, stage, '/usr/lib/cni', run)
  const depends = [
    'libc6 (>= 2.28)',
    'libstdc++6',
    'libgcc-s1',
    'iproute2',
    'nftables (>= 1.0)',
    'util-linux',
    'procps',
  ]
  if (machine.deb === 'arm64') depends.push('libatomic1')
  const control = {
    Package: 'trestle',
    Version: version,
    Architecture: machine.deb,
    Maintainer: 'trestle',
    Section: 'net',
    Priority: 'optional',
    Depends: depends.join(', '),
    Recommends: 'conntrack',
    Description: description,
  }
  mkdirSync(join(tree, 'DEBIAN'))
  const fields = Object.entries(control).map(([key, value]) => `${key}: ${value}\n`)
  writeFileSync(join(tree, 'DEBIAN/control'), fields.join(''))
  run('dpkg-deb', '--root-owner-group', '-Zgzip', '--build', tree, join(out, `trestle_${version}_${machine.deb}.deb`))
}

export function buildRpm({ stage, out, machine, version, run }) {
  const top = join(out, 'stage/rpm', machine.rpm)
  const tree = join(top, 'tree')
  layOut(tree, stage, '/usr/libexec/cni', run)
  const [, ...more] = description.split('\n')
  const requires = ['iproute', 'iproute-tc', 'nftables >= 1.0', 'util-linux', 'procps-ng', 'libstdc++', 'libgcc']
  if (machine.rpm === 'aarch64') requires.push('libatomic')
  const spec = `Name: trestle
Version: ${version}
Release: 1
Summary: ${summary}
License: Apache-2.0
AutoReqProv: no
${requires.map((name) => `Requires: ${name}\n`).join('')}Recommends: conntrack-tools

%description
${more.map((line) => line.trim()).join('\n')}

%files
/opt/cni/bin/trestle
/usr/bin/trestle
/usr/libexec/cni/trestle
/usr/share/doc/trestle
/usr/lib/systemd/system/trestle-restore.service
/usr/share/bash-completion/completions/trestle
/usr/share/zsh/vendor-completions/_trestle
/usr/share/fish/vendor_completions.d/trestle.fish
`
  writeFileSync(join(top, 'trestle.spec'), spec)
  const macros = {
    _topdir: top,
    _buildhost: 'localhost',
    // The executable must stay as it is: stripped, its bundles would be gone.
    __os_install_post: '%{nil}',
    _build_id_links: 'none',
    debug_package: '%{nil}',
    _binary_payload: 'w9.gzdio',
    use_source_date_epoch_as_buildtime: '1',
    clamp_mtime_to_source_date_epoch: '1',
  }
  const defines = Object.entries(macros).flatMap(([name, value]) => ['--define', `${name} ${value}`])
  run('rpmbuild', '-bb', '--quiet', '--target', machine.rpm, '--buildroot', tree, ...defines, join(top, 'trestle.spec'))
  const [rpm] = readdirSync(join(top, 'RPMS', machine.rpm))
  renameSync(join(top, 'RPMS', machine.rpm, rpm), join(out, rpm))
}
