// SPDX-License-Identifier: Apache-2.0
// `npm run release`: what is published, installed on Debian nodes that have nothing but Debian's packages, with a pod of
// Debian's containerd, and removed again.
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { execaSync } from 'execa'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { missingParts, peers } from './lab/lab.ts'

const missing = missingParts(['images/lab.tar'], 'containerd')
const tools = ['mmdebstrap', 'rpmbuild'].filter((name) => execaSync('which', [name], { reject: false }).failed)
missing.push(...tools)
if (missing.length > 0) console.warn(`skipped, missing: ${missing.join(', ')}`)

describe.skipIf(missing.length > 0)('the release', () => {
  const scratch = mkdtempSync(join(tmpdir(), 'trestle-release-'))
  const release = join(scratch, 'clone/dist/release')
  const { version } = JSON.parse(readFileSync('package.json', 'utf8')) as { version: string }
  beforeAll(() => {
    execaSync('git', ['clone', '--quiet', '.', join(scratch, 'clone')])
    execaSync('cp', ['-a', resolve('node_modules'), join(scratch, 'clone/node_modules')])
    const ran = execaSync('npm', ['run', '-s', 'release'], { cwd: join(scratch, 'clone'), reject: false })
    expect(ran.exitCode, ran.stderr).toBe(0)
  }, 600_000)
  afterAll(() => rmSync(scratch, { recursive: true }))

  /** Runs lines of shell on a Debian node. Each prints what it does; one that fails ends the node. */
  function onDebian(suite: string, lines: readonly string[]): string {
    const script = join(scratch, 'script.sh')
    writeFileSync(script, `set -x\n${lines.join('\n')}\n`)
    const words = [suite, release, join(peers, 'images/lab.tar'), script]
    const { all, exitCode } = execaSync('test/e2e/lab/debian-node.sh', words, { all: true, reject: false })
    expect(exitCode, all).toBe(0)
    return all
  }

  it('has the same bytes from another clone, by another user, with another umask and time zone', () => {
    const other = join(scratch, 'another clone')
    const line = [
      `cd '${scratch}' && chmod 755 . && cp -a clone '${other}' && rm -r '${other}/dist' && chown -R nobody '${other}'`,
      `cd '${other}' && export HOME="$PWD" TZ=Pacific/Kiritimati && umask 077`,
      'setpriv --reuid nobody --regid nogroup --clear-groups npm run -s release',
    ].join('\n')
    const ran = execaSync('bash', ['-ec', line], { reject: false, all: true })
    expect(ran.exitCode, ran.all).toBe(0)
    const sums = (clone: string) => readFileSync(join(scratch, clone, 'dist/release/SHA256SUMS'), 'utf8')
    expect(sums('another clone')).toBe(sums('clone'))
  }, 600_000)

  const examples = { tar: `/tmp/trestle-${version}-linux-amd64`, deb: '/usr/share/doc/trestle' }
  const ways = {
    tar: [
      `tar -xzf /release/trestle-${version}-linux-amd64.tar.gz -C /tmp`,
      `cp ${examples.tar}/trestle /usr/local/bin/`,
      `sh /release/install.sh ${examples.tar}/conf-examples/pod-network.conflist`,
    ],
    deb: [
      `dpkg -i /release/trestle_${version}_amd64.deb`,
      `trestle install ${examples.deb}/conf-examples/pod-network.conflist`,
    ],
  } as const

  it.each([
    ['bookworm', 'tar'],
    ['bookworm', 'deb'],
    ['trixie', 'tar'],
    ['trixie', 'deb'],
  ] as const)('on %s by the .%s: a pod of containerd, doctor, update, uninstall, nothing left', (suite, way) => {
    const said = onDebian(suite, [
      ...ways[way],
      // ctr looks in /opt/cni/bin alone, whatever containerd's own configuration says.
      'own=; [ -e /opt/cni/bin/trestle ] || { own=/opt/cni/bin/trestle; mkdir -p /opt/cni/bin; ln -s /usr/lib/cni/trestle $own; }',
      'ctr image import /image.tar',
      'ctr run -d --cni --snapshotter native --cgroup "$GROUP" lab.local/busybox:1 pod sleep 100',
      'trestle ps',
      'ctr task exec --exec-id ping pod ping -c 1 -W 2 10.241.0.1',
      'trestle doctor',
      ways[way].at(-1) ?? '',
      'ctr task kill -s 9 pod; sleep 1; ctr task rm -f pod || true',
      'trestle uninstall --apply',
      'rm -f $own',
      ...(way === 'deb' ? ['dpkg -P trestle'] : ['rm /usr/local/bin/trestle']),
      'find /opt/cni /usr/lib/cni /etc/cni /run/trestle /var/lib/trestle ! -type d -printf "left: %p\\n" 2>/dev/null || true',
      'nft list ruleset | sed "s/^/left: /"; ip -o link | sed "s/^/link: /"',
    ])
    expect(said).toContain('10.241.0.2')
    expect(said).toContain('1 received, 0% packet loss')
    expect(said).toMatch(/^nothing found/m)
    expect(said).not.toMatch(/^left: /m)
    expect(said.match(/^link: .*/gm)).toHaveLength(1)
  })

  it("refuses Debian 11's nft by name, and a download that is not whole", () => {
    const said = onDebian('bullseye', [
      '! sh /release/install.sh /none.conflist',
      `! dpkg -i /release/trestle_${version}_amd64.deb`,
      'dpkg -P trestle',
      'mkdir /tmp/part && cp /release/install.sh /release/SHA256SUMS /tmp/part',
      `head -c 1000000 /release/trestle-${version}-linux-amd64.tar.gz >/tmp/part/trestle-${version}-linux-amd64.tar.gz`,
      'printf "#!/bin/sh\\necho nftables v1.0.6\\n" >/usr/local/sbin/nft; chmod 755 /usr/local/sbin/nft',
      '! sh /tmp/part/install.sh',
      'printf "#!/bin/sh\\necho glibc 2.17\\n" >/usr/local/sbin/getconf; chmod 755 /usr/local/sbin/getconf',
      '! sh /release/install.sh',
      'printf "#!/bin/sh\\necho riscv64\\n" >/usr/local/sbin/uname; chmod 755 /usr/local/sbin/uname',
      '! sh /release/install.sh',
      'find /opt/cni /etc/cni /var/lib/trestle ! -type d -printf "left: %p\\n" 2>/dev/null || true',
    ])
    expect(said).toContain('install.sh: nftables 0.9.8 is too old')
    expect(said).toContain('trestle depends on nftables (>= 1.0)')
    expect(said).toContain('has not the checksum of SHA256SUMS')
    expect(said).toContain('install.sh: glibc 2.17 is too old')
    expect(said).toContain('install.sh: there is no trestle for riscv64')
    expect(said).not.toMatch(/^left: /m)
  })

  it('installs the .rpm into an empty root, and removes it', () => {
    const root = join(scratch, 'rpm-root')
    mkdirSync(root)
    const rpm = (...words: readonly string[]) => execaSync('rpm', ['--root', root, ...words])
    rpm('--initdb')
    rpm('--install', '--nodeps', join(release, `trestle-${version}-1.x86_64.rpm`))
    expect(rpm('--verify', '--nodeps', 'trestle').stdout).toBe('')
    expect(execaSync(join(root, 'opt/cni/bin/trestle'), ['version']).stdout).toContain(`trestle ${version}`)
    rpm('--erase', '--nodeps', 'trestle')
    expect(execaSync('find', [root, '-name', '*trestle*']).stdout).toBe('')
  })

  it('has a sum of every file', () => {
    execaSync('sha256sum', ['--check', '--strict', 'SHA256SUMS'], { cwd: release })
    const named = readFileSync(join(release, 'SHA256SUMS'), 'utf8').match(/\S+$/gm)
    expect([...(named ?? []), 'SHA256SUMS'].toSorted()).toEqual(readdirSync(release).toSorted())
  })
})
