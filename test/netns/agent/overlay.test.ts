// SPDX-License-Identifier: Apache-2.0
// Two nodes behind a router that forwards nothing of pods: their pods reach each other by route encapsulation, over either
// underlay, with the largest packets, and nobody else has a way in.

import { setTimeout as sleep } from 'node:timers/promises'
import { execaSync } from 'execa'
import { afterEach, describe, expect, it } from 'vitest'
import { isReady, type nodeObject, startAgent, until } from '../../support/cluster/cluster.ts'
import {
  nodesSeenBy,
  openTwoNodes,
  pings,
  type Side,
  type TwoNodes,
  type Underlay,
} from '../../support/cluster/two-nodes.ts'
import { trestle } from '../../support/host.ts'
import { runLine } from '../../support/outcome.ts'
import { stateEnv } from '../../support/state-layout.ts'
import { openDials, openStream } from '../../support/traffic/silence.ts'

let nodes: TwoNodes | undefined

afterEach(async () => {
  await nodes?.close()
  nodes = undefined
})

const options = ['--overlay', 'auto', '--mode', 'ptp', '--look', '1']

async function open(underlay: Underlay = { router: true }, more = options): Promise<readonly [Side, Side]> {
  nodes = await openTwoNodes(more, underlay)
  return [nodes.one, nodes.two]
}

const isAnswered = (from: string, size: number, to: string) =>
  execaSync('nsenter', [`--net=${from}`, 'ping', '-n', '-M', 'do', '-c', '1', '-W', '1', '-s', `${size}`, to], {
    reject: false,
  }).exitCode === 0
/** Bytes of a ping that fill a packet: what is left beside the headers of IP and ICMP. */
const pingBytes = (mtu: number, to: string) => mtu - (to.includes(':') ? 48 : 28)
const routesOf = ({ host }: Side) =>
  [4, 6].map((family) => host.run('ip', [`-${family}`, 'route', 'show', 'proto', '116']).stdout).join('')
const mtuOf = ({ host, pod }: Side) => JSON.parse(host.inPod(pod, 'ip', ['-j', 'link', 'show', 'eth0']).stdout)[0].mtu

/** Packets of the counters of a chain of ours. */
function dropped({ host }: Side): number {
  const { stdout } = host.run('nft', ['list', 'chain', 'inet', 'trestle', 'overlay'])
  return [...stdout.matchAll(/packets (\d+)/g)].reduce((sum, [, packets]) => sum + Number(packets), 0)
}

describe('two nodes behind a router', () => {
  it.each([
    ['IPv4 and IPv6', [4, 6], 1464],
    ['IPv4', [4], 1464],
    ['IPv6', [6], 1444],
  ] as const)(
    'over %s: pods, and nodes and pods, reach each other with packets of full length',
    async (_, families, mtu) => {
      const [one, two] = await open({ router: true, families })
      expect(one.files.configuration().plugins[0].mtu).toBe(mtu)
      expect(mtuOf(one)).toBe(mtu)
      for (const [from, to] of [
        [one, two],
        [two, one],
      ] as const)
        for (const address of [to.address.v4, to.address.v6]) {
          await until(() => pings(from, address), `${address} from a pod`)
          expect(isAnswered(from.pod, pingBytes(mtu, address), address), `${address} at full length`).toBe(true)
          expect(isAnswered(from.host.path, 56, address), `${address} from the node`).toBe(true)
        }
      expect(routesOf(one)).toMatch(/10\.244\.2\.0\/24 +encap ip6?(?: |.)* dev trestle0/)
      // What a pod sends comes there from the pod.
      const listen =
        "import socket; s=socket.socket(2,2); s.bind(('', 7)); s.settimeout(10); print(s.recvfrom(9)[1][0])"
      const send = `import socket,time\ns=socket.socket(2,2)\nfor _ in range(100): s.sendto(b'x',('${two.address.v4}',7)); time.sleep(0.1)`
      const shell = `nsenter --net=${one.pod} python3 -c "$1" & nsenter --net=${two.pod} python3 -c "$2"; code=$?; kill $!; exit $code`
      expect(execaSync('bash', ['-c', shell, 'sh', send, listen]).stdout.trim()).toBe(one.address.v4)
    },
  )

  it('streams and new connections go on through faults', async () => {
    const [one, two] = await open()
    await until(() => pings(one, two.address.v4), 'a ping')
    const all = {
      stream: await openStream(one.pod, two.pod, two.address.v4),
      back: await openStream(two.pod, one.pod, one.address.v6),
      new: await openDials(one.pod, two.pod, two.address.v6),
      'new back': await openDials(two.pod, one.pod, one.address.v4),
    }
    const told: string[] = []
    const during = async (what: string, isRight: () => boolean, act: () => unknown, mostMs: number) => {
      for (const each of Object.values(all)) each.start()
      await act()
      await until(() => isRight() && Object.values(all).every((each) => each.isBack()), what)
      const silent = Object.entries(all).map(([name, each]) => `${name} ${Math.round(each.longestMs())} ms`)
      told.push(`${what}: longest silence: ${silent.join(', ')}`)
      for (const each of Object.values(all)) {
        expect(each.broken(), what).toBeUndefined()
        expect(each.longestMs(), told.join('; ')).toBeLessThan(mostMs)
      }
    }
    const hasRoutes = () => routesOf(one).includes('encap')
    try {
      const kill = async () => {
        await one.agent.end('SIGKILL')
        one.agent = startAgent(one.host, one.files, options)
        await one.agent.seen(isReady, 'ready')
      }
      await during('the agent killed', hasRoutes, kill, 1000)
      // The agent looks each second.
      await during('the device deleted', hasRoutes, () => runLine(one.host, 'ip link del trestle0'), 5000)
      const hasMtu = () => one.files.configuration().plugins[0].mtu === 1364
      await during('the MTU of the uplink', hasMtu, () => runLine(one.host, 'ip link set up0 mtu 1400'), 1000)
      expect(one.host.run('ip', ['link', 'show', 'trestle0']).stdout).toContain('mtu 1364')
      // TCP sends again after 0.2, 0.6, 1.4 and 3 seconds.
      const router = nodes?.router ?? one.host
      const split = async () => {
        const chain = 'chain f { type filter hook forward priority -1; policy drop; }'
        expect(router.run('nft', ['-f', '-'], `table inet split { ${chain}; }`).stderr).toBe('')
        await sleep(2000)
        runLine(router, 'nft delete table inet split')
      }
      await during('the segments apart for 2 s', hasRoutes, split, 5000)
    } finally {
      for (const each of Object.values(all)) each.close()
      console.log(told.join('\n'))
    }
  })

  it('no packet of a stranger gets in, with whatever number and inner address; those of nodes are taken', async () => {
    const [one, two] = await open()
    await until(() => pings(one, two.address.v4), 'a ping')
    const before = dropped(one)
    expect(before).toBe(0)
    const { router } = nodes ?? {}
    if (router === undefined) throw new Error('no router')
    // An inner UDP datagram to the pod, by addresses of the other node's pod, as its node sends it.
    const script = `
import socket, struct, sys
def ip(src, dst, payload):
    head = struct.pack('!BBHHHBBH4s4s', 0x45, 0, 20 + len(payload), 1, 0, 64, 17, 0, socket.inet_aton(src), socket.inet_aton(dst))
    s = sum(struct.unpack('!10H', head)); s = (s & 0xffff) + (s >> 16); s = ~((s & 0xffff) + (s >> 16)) & 0xffff
    return head[:10] + struct.pack('!H', s) + head[12:] + payload
udp = struct.pack('!HHHH', 9, 7, 8 + 6, 0) + b'secret'
out = socket.socket(2, 2)
for vni in (0, 1, 4790, 0xffffff):
    for src in sys.argv[3:]:
        out.sendto(struct.pack('!BBBBI', 0x0c, 0, 0, 1, vni << 8) + ip(src, sys.argv[1], udp), (sys.argv[2], 4790))
`
    const inner = [two.address.v4, one.address.v4, '198.51.100.129', '8.8.8.8']
    const sendFrom = (path: string) =>
      execaSync('nsenter', [`--net=${path}`, 'python3', '-c', script, one.address.v4, '198.51.100.65', ...inner])
    const listen = "import socket; s=socket.socket(2,2); s.bind(('', 7)); s.settimeout(3); print(s.recvfrom(9)[0])"
    const received = execaSync(
      'bash',
      [
        '-c',
        `nsenter --net=${one.pod} python3 -c "$1" & sleep 0.5; "\${@:2}"; wait $!`,
        'sh',
        listen,
        'nsenter',
        `--net=${router.path}`,
        'python3',
        '-c',
        script,
        one.address.v4,
        '198.51.100.65',
        ...inner,
      ],
      { reject: false },
    )
    expect(received.stdout).toBe('')
    expect(dropped(one)).toBe(16)
    // The test of the test: node two is none.
    sendFrom(two.host.path)
    expect(dropped(one)).toBe(16)
  })

  it('the mark of kube-proxy’s masquerade does not reach the packet around', async () => {
    const [one, two] = await open()
    const table = `table ip proxy {
      chain marks { type filter hook output priority -150; ip daddr ${two.address.v4} meta mark set meta mark | 0x4000; }
      chain translate { type nat hook postrouting priority srcnat; meta mark & 0x4000 == 0x4000 counter masquerade fully-random; }
      chain see { type filter hook output priority 0; udp dport 4790 counter comment "all"; udp dport 4790 meta mark & 0x4000 != 0 counter comment "marked"; }
    }`
    expect(one.host.run('nft', ['-f', '-'], table).stderr).toBe('')
    await until(() => isAnswered(one.host.path, 56, two.address.v4), 'a ping of the node')
    const { stdout } = one.host.run('nft', ['list', 'chain', 'ip', 'proxy', 'see'])
    const packets = (name: string) =>
      Number(new RegExp(`packets (\\d+) bytes \\d+ comment "${name}"`).exec(stdout)?.[1])
    expect(packets('all')).toBeGreaterThan(0)
    expect(packets('marked')).toBe(0)
  })

  it('doctor --probe PEER tells which length passes where something on the way takes less', async () => {
    const [one, two] = await open()
    const probe = () => {
      const places = ['--config-dir', `${one.files.root}/net.d`, '--bin-dir', `${one.files.root}/bin`, '--no-runtime']
      const words = ['doctor', '--probe', two.address.v4, '--only', 'probe', ...places, '-o', 'json']
      const { stdout } = execaSync('nsenter', [`--net=${one.host.path}`, '--', trestle, ...words], {
        env: stateEnv(one.host),
        reject: false,
      })
      const { probe: found, findings } = JSON.parse(stdout)
      const step = found?.steps.find(({ target }: { target: string }) => target === 'peer')
      return { step, ids: findings.map(({ id }: { id: string }) => id) }
    }
    expect(probe().step).toMatchObject({ outcome: 'ok', detail: 'packets of 1464 bytes pass' })
    runLine(nodes?.router ?? one.host, 'nft insert rule inet router f meta length > 1400 drop')
    const { step, ids } = probe()
    expect(step).toMatchObject({ outcome: 'failed', detail: 'the longest that pass have 1364 bytes' })
    expect(ids).toContain('probe-peer')
  })

  it('a route of a cloud to all pods is left to it', async () => {
    const [one] = await open()
    expect(routesOf(one)).toContain('encap')
    const gateway = '198.51.100.66'
    runLine(one.host, `ip route add 10.244.0.0/16 via ${gateway}`)
    await until(() => !routesOf(one).includes('10.244.2.0/24'), 'no route of ours')
    expect(routesOf(one)).toContain('fd00:10:244:2::/64')
  })
})

describe('two nodes on one segment', () => {
  it('from auto to always: plain routes, then all through the overlay, while a stream goes on', async () => {
    const [one, two] = await open({}, options)
    expect(routesOf(one)).toContain('via 192.0.2.12')
    expect(one.files.configuration().plugins[0].mtu).toBe(1500)
    const stream = await openStream(one.pod, two.pod, two.address.v4)
    stream.start()
    for (const side of [one, two]) {
      await side.agent.end()
      side.agent = startAgent(side.host, side.files, ['--overlay', 'always', '--mode', 'ptp', '--look', '1'])
      await side.agent.seen(isReady, 'ready')
      expect(routesOf(side)).not.toContain(' via ')
    }
    await until(() => stream.isBack(), 'the stream')
    stream.close()
    expect(stream.broken()).toBeUndefined()
    // Strict rp_filter drops what comes by the way that this node has left, until the other has left it, too.
    const mostMs = process.env['TRESTLE_TEST_NODE'] === 'docker' ? 15_000 : 1000
    expect(stream.longestMs()).toBeLessThan(mostMs)
    expect(one.files.configuration().plugins[0].mtu).toBe(1464)
  })

  it('a peer whose agent says that this node is on none of its links is encapsulated to', async () => {
    const [one] = await open({}, options)
    const [, peer] = nodesSeenBy(1)
    const publish = (subnets: string) => ({
      ...peer,
      metadata: { ...peer?.metadata, annotations: { 'trestle/subnets': subnets } },
    })
    const asNode = (value: object) => value as ReturnType<typeof nodeObject>
    await one.api.order({ put: [asNode(publish('198.51.100.0/24 2001:db8:9::/64'))] })
    await until(() => routesOf(one).match(/encap/g)?.length === 2, 'routes through the overlay')
    await one.api.order({ put: [asNode(publish('192.0.2.0/24 2001:db8::/64'))] })
    await until(() => !routesOf(one).includes('encap'), 'plain routes again')
    const isSubnets = (line: object) => JSON.stringify(line).includes('192.0.2.0/24')
    await one.api.seen((line) => line['method'] === 'PATCH' && isSubnets(line), 'the own subnets')
  })
})
