// SPDX-License-Identifier: Apache-2.0
// Pods by hand: `trestle add`, `check`, `exec`, `del`, `status`, `nets` and `gc --valid`, with cnitool in turns and the
// upstream plugins in the lists.

import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { expectNothingLeft } from '../../support/allowance.ts'
import { type Hands, openHands } from '../../support/by-hand.ts'
import { missingCnitool } from '../../support/cnitool.ts'
import { snapshot } from '../../support/host.ts'
import { handsBeside } from '../../support/state-layout.ts'
import { seenBy, serve } from '../../support/traffic/traffic.ts'

const pods = {
  cniVersion: '1.1.0',
  name: 'pods',
  plugins: [
    {
      type: 'trestle',
      bridge: 'hand0',
      podcidr: '10.240.0.0/24',
      removeWhenEmpty: true,
      capabilities: { portMappings: true, bandwidth: true, mac: true },
    },
  ],
}
const hostLocal = { type: 'host-local', subnet: '10.9.0.0/24' }
/** The reference chain. */
const storage = {
  cniVersion: '1.0.0',
  name: 'storage',
  plugins: [
    { type: 'bridge', bridge: 'hand1', isGateway: true, ipMasq: true, ipam: hostLocal },
    { type: 'portmap', backend: 'nftables', capabilities: { portMappings: true } },
    { type: 'tuning', sysctl: { 'net.core.somaxconn': '500' } },
  ],
}
/** As cnitool's tutorial has it. */
const myptp = {
  cniVersion: '0.4.0',
  name: 'myptp',
  type: 'ptp',
  ipMasq: true,
  ipam: { type: 'host-local', subnet: '172.16.29.0/24', routes: [{ dst: '0.0.0.0/0' }] },
}
const slow = { type: 'slow', sysctl: { 'net.core.somaxconn': '500' } }
const lists = { '10-pods.conflist': pods, '20-storage.conflist': storage, '30-myptp.conf': myptp }

const foreign = 'CNI_COMMAND=ADD CNI_CONTAINERID=sandbox1 CNI_NETNS=/run/netns/theirs CNI_IFNAME=eth0 trestle'

const missing = missingCnitool(['bridge', 'ptp', 'host-local', 'portmap', 'tuning'])
if (missing !== undefined) console.warn(missing)

describe.skipIf(missing !== undefined)('by hand', () => {
  let hands: Hands
  afterEach(() => hands?.close())

  const ok = (line: string, env = {}) => {
    const ran = hands.shell(line, env)
    expect([ran.code, ran.stderr], `${line}: ${ran.stdout}`).toEqual([0, ''])
    return ran
  }

  it('a pod with a host port and a second network, in a list of upstream plugins, and nothing left', async () => {
    hands = openHands(lists)
    const { host, names, entries } = hands
    const before = snapshot(host)
    const added = ok(`trestle add pods web --port 8080:80 --cap 'mac="02:00:00:00:00:09"'`).stdout
    expect(added).toMatch(/^web +pods +eth0 +10\.240\.0\.2\/24 +10\.240\.0\.1$/m)
    expect(added).toContain('made the namespace /var/run/netns/web')
    ok('trestle add storage web --ifname net1', { CNI_ARGS: 'IgnoreUnknown=1;IP=10.9.0.77' })
    expect(ok('trestle exec web ip -br -4 addr').stdout).toMatch(
      /eth0@\S+ +UP +10\.240\.0\.2\/24[\s\S]*net1@\S+ +UP +10\.9\.0\.77\/24/,
    )
    expect(ok('trestle exec web ip link show eth0').stdout).toContain('02:00:00:00:00:09')
    const nets = ok('trestle nets').stdout
    expect(nets).toMatch(/^storage +1\.0\.0 +bridge, portmap, tuning +portMappings +\S+20-storage\.conflist$/m)
    expect(nets).toMatch(/^web +storage +net1 +10\.9\.0\.77\/24 +cnitool-3993dc6bfc7ca7d2ea3c$/m)
    for (const each of ['pods', 'storage']) ok(`trestle check ${each} web`)
    expect(ok('trestle status pods').stdout).toBe('network pods is ready for pods: trestle\n')
    expect(ok('trestle del storage web').stdout).toBe('removed net1 of network storage from web\n')
    expect(ok('trestle del pods web').stdout).toContain('and the namespace web that add had made')
    expect([names(), entries(), existsSync(handsBeside(host))]).toEqual([[], [], false])
    // The upstream plugins leave their bridge and chains.
    ok('ip link del hand1 && nft delete table ip nat')
    expectNothingLeft(host, before)
  })

  it('a host port is reached', async () => {
    hands = openHands(lists)
    const { host } = hands
    ok('trestle add pods web --port 8080:8080')
    const far = host.pod('far')
    const end = await serve('/run/netns/web')
    try {
      ok(`ip link add up0 type veth peer name far0 netns ${far.slice('/run/netns/'.length)}`)
      ok('ip addr add 198.51.100.2/24 dev up0 && ip link set up0 up')
      for (const words of [
        ['addr', 'add', '198.51.100.1/24', 'dev', 'far0'],
        ['link', 'set', 'far0', 'up'],
      ]) {
        expect(host.inPod(far, 'ip', words).code).toBe(0)
      }
      expect(seenBy(host, far, '198.51.100.2')).toBe('198.51.100.1')
    } finally {
      end()
    }
    ok('trestle del pods web')
  })

  it("cnitool's tutorial with both in turns: each sees what the other has made", () => {
    hands = openHands(lists)
    const { entries, names } = hands
    ok('ip netns add testing')
    const path = '/var/run/netns/testing'
    for (const [add, check, del] of [
      [`cnitool add myptp ${path}`, `trestle check myptp testing`, `trestle del myptp ${path}`],
      ['trestle add myptp testing', `cnitool check myptp ${path}`, `cnitool del myptp ${path}`],
      [`trestle add myptp ${path}`, `cnitool check myptp ${path}`, 'trestle del myptp testing'],
      ['cnitool add myptp /run/netns/testing', 'trestle check myptp testing', 'trestle del myptp testing'],
    ] as const) {
      ok(add)
      expect(ok('trestle exec testing ip -br -4 addr show eth0').stdout).toMatch(/172\.16\.29\.\d+\/24/)
      expect(entries().length).toBe(1)
      ok(check)
      ok(del)
      expect([entries(), ok('trestle exec testing ip -br link').stdout]).toEqual([
        [],
        expect.not.stringContaining('eth0'),
      ])
    }
    expect(names()).toEqual(['testing'])
  })

  it('keeps of an attachment what libcni keeps', () => {
    hands = openHands(lists)
    ok('ip netns add testing')
    const entry = () => {
      const file = '/var/lib/cni/results/storage-cnitool-77383ca0a0715733ca6f-eth0'
      const kept = JSON.parse(hands.host.run('cat', [file]).stdout)
      const volatile = ({ mac: _, name, ...rest }: { mac: string; name: string }) => ({
        ...rest,
        name: name.slice(0, 4),
      })
      const result = { ...kept.result, interfaces: kept.result.interfaces.map(volatile), ips: kept.result.ips.length }
      return { ...kept, result, mode: hands.host.run('stat', ['-c', '%a', file]).stdout }
    }
    const env = {
      CNI_ARGS: 'IgnoreUnknown=1;A=b',
      CAP_ARGS: '{"portMappings":[{"hostPort":8081,"containerPort":80,"protocol":"tcp"}]}',
    }
    ok('cnitool add storage /var/run/netns/testing', env)
    const libcnis = entry()
    ok('cnitool del storage /var/run/netns/testing', env)
    ok('trestle add storage testing', env)
    expect(entry()).toEqual(libcnis)
    ok('trestle del storage testing')
    ok('trestle add storage testing --port 8081:80', { CNI_ARGS: env.CNI_ARGS })
    expect(entry()).toEqual(libcnis)
    ok('trestle del storage testing')
  })

  it('del takes the list of the ADD, also when its file has changed or is gone', () => {
    hands = openHands(lists)
    ok('trestle add pods web')
    writeFileSync(join(hands.directory, '10-pods.conflist'), '{"cniVersion": "1.1.0"')
    ok('trestle check pods web')
    ok('trestle del pods web')
    expect(hands.names()).toEqual([])
  })

  it('a failed ADD is told with plugin, cause and cure, and undone to the namespace', () => {
    hands = openHands(lists)
    ok('trestle add pods web --port 8080:80')
    const before = snapshot(hands.host)
    const failed = hands.shell('trestle add pods other --port 8080:80')
    expect([failed.code, failed.stdout]).toEqual([1, ''])
    expect(failed.stderr).toMatch(/^trestle: ADD of pods in other: plugin trestle, code 104: .* \[port-reserved\]$/m)
    expect(failed.stderr).toMatch(
      /^ {2}by eth0 of container cnitool-.*\n {2}cause: .*\n {2}cure: {2}use another host port/m,
    )
    expect(failed.stderr).toMatch(/nothing is left of this ADD\n {2}the namespace other .* is gone again\n$/)
    expect([hands.names(), hands.entries().length]).toEqual([['web'], 1])
    expectNothingLeft(hands.host, before)
    const json = hands.shell('trestle add pods other --port 8080:80 -o json').json as unknown
    const details = expect.stringMatching(/DEL was run[\s\S]*is gone again$/)
    expect(json).toMatchObject({
      exitCode: 1,
      error: { code: 104, msg: expect.stringMatching('port-reserved'), details },
    })
    ok('trestle del pods web')
  })

  it('check tells what differs, and passes with exit code 1', () => {
    hands = openHands(lists)
    ok('trestle add pods web')
    ok('trestle exec web ip addr flush dev eth0')
    const { code, stderr } = hands.shell('trestle check pods web')
    expect([code, stderr]).toEqual([
      1,
      expect.stringMatching(/CHECK of pods in web: .* \[attachment-differs\][\s\S]*10\.240\.0\.2/),
    ])
    ok('trestle del pods web')
  })

  it('exec gives the exit code of the program, and its options', () => {
    hands = openHands(lists)
    ok('trestle add pods web')
    expect(hands.shell('trestle exec web sh -c "exit 42"').code).toBe(42)
    expect(hands.shell('trestle exec web no-such-program').code).toBe(127)
    expect(ok('trestle exec web ip --json -o link show lo').stdout).toMatch(/^\[\{/)
    expect(hands.shell('trestle exec nobody true')).toMatchObject({
      code: 3,
      stderr: expect.stringContaining('no namespace nobody'),
    })
    // The option is the other program's, and no document of trestle stands before its output.
    expect(hands.shell('trestle exec nobody kubectl get pods -o json').stdout).toBe('')
    expect(hands.shell('trestle exec -o json web true')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('there is no option "-o"; options are --help'),
    })
    ok('trestle del pods web')
  })

  it('gc --valid keeps what is valid and removes the rest, cnitool and trestle alike; first it only lists', () => {
    hands = openHands(lists)
    for (const name of ['a', 'b']) ok(`trestle add pods ${name}`)
    ok('ip netns add c && cnitool add pods /var/run/netns/c')
    ok('trestle add storage a --ifname net1')
    const [valid = ''] = /cnitool-[\da-f]{20}/.exec(ok('trestle nets | grep ^b').stdout) ?? []
    const listed = hands.shell(`trestle gc pods --valid ${valid}/eth0`)
    expect([listed.code, listed.stdout.match(/^ {2}\w+/gm)]).toEqual([1, ['  remove', '  remove', '  valid']])
    const document = (name: string) => hands.shell(`trestle gc ${name} --valid ${valid}/eth0 -o json`).json as unknown
    expect(document('pods')).toMatchObject({ applied: false, isDisabled: false, asksPlugins: true })
    expect(document('storage')).toMatchObject({ asksPlugins: false })
    expect(hands.entries().length).toBe(4)
    ok(`trestle gc pods --valid ${valid}/eth0 --apply`)
    expect(hands.entries().filter((name) => name.startsWith('pods-'))).toEqual([`pods-${valid}-eth0`])
    expect(ok('trestle exec a ip -br link').stdout).toMatch(/net1(?![\s\S]*eth0)/)
    expect(hands.names()).toEqual(['a', 'b', 'c'])
    ok('trestle check pods b')
    for (const line of ['trestle del storage a', 'trestle del pods b', 'ip netns del c']) ok(line)
  })

  it.each(['SIGINT', 'SIGTERM'])('an add that is ended by %s leaves nothing, at whatever moment', async (signal) => {
    hands = openHands({ ...lists, '40-slow.conflist': { ...pods, name: 'slow', plugins: [...pods.plugins, slow] } })
    const { host, directory, names, entries } = hands
    const path = ok('echo $CNI_PATH').stdout.trim()
    // The second plugin of the list tells that it runs, and goes on for a while.
    const script = `#!/bin/sh\n[ $CNI_COMMAND = ADD ] && touch ${directory}/runs && sleep 1\nexec ${path}/tuning\n`
    writeFileSync(join(path, 'slow'), script, { mode: 0o755 })
    const before = snapshot(host)
    for (const wait of [
      `until [ -e ${directory}/runs ]; do sleep 0.01; done`,
      // The namespace is there, and not yet noted.
      'until [ -e /run/netns/web ]; do :; done',
      'sleep 0.15',
      'sleep 0.25',
      'sleep 0.4',
    ]) {
      const ended = hands.shell(`set -m; trestle add slow web & ${wait}; kill -s ${signal.slice(3)} $!; wait $!`)
      ok(`rm -f ${directory}/runs`)
      if (wait.startsWith('until') || ended.code === 3) expect(ended.stderr).toContain(`ended by ${signal}`)
      expect([names(), entries()], `${wait}: ${ended.stdout}${ended.stderr}`).toEqual([[], []])
      expectNothingLeft(host, before)
    }
  })

  it('a directory without a network says how to begin', () => {
    hands = openHands({})
    for (const line of ['trestle nets', 'trestle add pods web'])
      expect(Object.values(hands.shell(line)).join(''), line).toContain('conf-examples/pod-network.conflist')
  })

  describe('bad input', () => {
    const cases: readonly (readonly [string, number, RegExp])[] = [
      ['add nothing web', 3, /no network "nothing" in .*: there is "pods", "storage", "myptp" [\s\S]*NETCONFPATH/],
      ['add pod web', 3, /did you mean "pods"\?/],
      ['add pods /etc/passwd', 3, /POD \/etc\/passwd is not a network namespace file/],
      ['add pods /run/netns/nobody', 0, /made the namespace \/run\/netns\/nobody/],
      ['add pods /nowhere', 3, /POD \/nowhere does not exist/],
      ['add pods /proc/self/ns/net', 3, /POD \/proc\/self\/ns\/net is the network namespace/],
      ['add pods /proc/1/ns/net', 3, /POD \/proc\/1\/ns\/net/],
      ['exec /proc/self/ns/net ip link', 3, /is the network namespace/],
      ['add pods a/b', 2, /POD "a\/b": use a name/],
      ['add pods ..', 2, /POD "\.\.": use a name/],
      ['add pods -- -x', 2, /POD "-x": use a name/],
      ['add pods web --ifname a/b', 2, /--ifname "a\/b"/],
      ['add storage web --cap bandwidth={}', 2, /"capabilities": \{"bandwidth": true\}/],
      ['add pods web --cap ips=10.240.0.7', 2, /--cap ips=10\.240\.0\.7: use NAME=JSON/],
      [
        'add pods theirs',
        3,
        /POD theirs has eth0 of network pods by another caller \[pod-of-a-runtime\][\s\S]*sandbox1/,
      ],
      ['del pods theirs', 3, /pod-of-a-runtime/],
      ['check pods theirs', 3, /pod-of-a-runtime/],
      ['check pods empty', 3, /empty is not attached: it has no network by hand/],
      ['check storage mine', 3, /mine is not attached: it has "pods" \(eth0\)/],
      ['add storage mine', 3, /mine has eth0 already, of network pods [\s\S]*--ifname net1/],
      ['status storage', 3, /STATUS came with CNI 1\.1\.0/],
      ['gc pods --valid x', 2, /--valid "x": use ID\/IFNAME/],
      ['gc --valid x/eth0', 2, /trestle gc NET --valid/],
    ]

    it('is refused with a clear error, and nothing is run on the host', () => {
      hands = openHands(lists)
      const { host } = hands
      ok('ip netns add theirs && ip netns add empty')
      ok(`${foreign} <<<'${JSON.stringify({ ...pods.plugins[0], name: 'pods', cniVersion: '1.1.0' })}'`)
      ok('trestle add pods mine')
      for (const [words, expected, said] of cases) {
        const before = snapshot(host)
        const { code, stdout, stderr } = hands.shell(`trestle ${words}`)
        expect([code, stdout + stderr], words).toEqual([expected, expect.stringMatching(said)])
        if (expected === 0) ok(words.replace('add', 'trestle del'))
        expectNothingLeft(host, before)
        expect([hands.names(), hands.entries().length], words).toEqual([['empty', 'mine', 'theirs'], 1])
      }
    })

    it('an add beside another one of the same pod, or without the kept result of it, harms nothing', () => {
      hands = openHands(lists)
      const add = '{ trestle add pods web >>/run/adds.out 2>&1; echo $? >>/run/adds.codes; }'
      const { stdout: codes } = hands.shell(`${add} & ${add} & wait; sort /run/adds.codes; rm /run/adds.*`)
      expect(codes).toMatch(/^0\n[13]\n$/)
      ok('trestle check pods web')
      ok('mv /var/lib/cni/results/* /run/')
      expect(hands.shell('trestle add pods web').code).not.toBe(0)
      ok('mv /run/pods-* /var/lib/cni/results/')
      ok('trestle check pods web')
      ok('trestle del pods web')
      expect(hands.names()).toEqual([])
    })

    it('a plugin that is missing is told before anything is made', () => {
      hands = openHands({ '10-x.conflist': { ...storage, name: 'x', plugins: [{ type: 'no-such-plugin' }] } })
      expect(hands.shell('trestle add x web')).toMatchObject({
        code: 3,
        stderr: expect.stringContaining('the plugin "no-such-plugin" is not in'),
      })
      expect(hands.names()).toEqual([])
    })

    it('trestle is told where a runtime would not find it, and is not ready', () => {
      hands = openHands(lists)
      const empty = { CNI_PATH: hands.directory }
      const said = `"trestle" is not in ${hands.directory}`
      expect(hands.shell('trestle add pods web', empty)).toMatchObject({
        code: 0,
        stderr: `trestle: ${said}: this program runs in its place; a runtime's ADD would fail\n`,
      })
      const status = hands.shell('trestle status pods', empty)
      expect([status.code, status.stderr]).toEqual([3, expect.stringContaining(`the plugin ${said} [plugin-missing]`)])
      ok('trestle del pods web', empty)
    })
  })
})
