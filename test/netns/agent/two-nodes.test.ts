// SPDX-License-Identifier: Apache-2.0
// Two nodes on one segment, an agent on each: pods reach each other by their own addresses, in both families, and what
// others take away is made again within seconds while a stream goes on.

import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { execaSync } from 'execa'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { nodeObject, until } from '../../support/cluster/cluster.ts'
import { addresses, openTwoNodes, pings, type Side, type TwoNodes } from '../../support/cluster/two-nodes.ts'

let nodes: TwoNodes

beforeEach(async () => {
  nodes = await openTwoNodes()
})

afterEach(async () => {
  await nodes?.close()
})

const pair = (): readonly [Side, Side] => [nodes.one, nodes.two]

/** The source that a UDP datagram from one pod has where the other receives it. */
function sourceSeen(from: Side, to: Side, family: 4 | 6): string {
  const address = family === 4 ? to.address.v4 : to.address.v6
  const script = [
    `import socket,sys`,
    `s=socket.socket(socket.AF_INET${family === 4 ? '' : '6'},socket.SOCK_DGRAM); s.bind(('${address}',7)); s.settimeout(30)`,
    `print(s.recvfrom(9)[1][0])`,
  ].join('\n')
  // Until the other has one: it may begin to listen late.
  const send = `import socket,time\ns=socket.socket(socket.AF_INET${family === 4 ? '' : '6'},socket.SOCK_DGRAM)\nfor _ in range(600):\n  s.sendto(b'x',('${address}',7)); time.sleep(0.1)`
  const shell = `nsenter --net=${from.pod} python3 -c "$1" & nsenter --net=${to.pod} python3 -c "$2"; code=$?; kill $!; exit $code`
  return execaSync('bash', ['-c', shell, 'sh', send, script]).stdout.trim()
}

describe('two nodes with trestle agent', () => {
  it('pods of both reach each other by their own addresses, and are masqueraded beyond', async () => {
    const [one, two] = pair()
    for (const to of [two.address.v4, two.address.v6]) await until(() => pings(one, to), `${to} from node 1`)
    for (const to of [one.address.v4, one.address.v6]) await until(() => pings(two, to), `${to} from node 2`)
    expect(sourceSeen(one, two, 4)).toBe(one.address.v4)
    expect(sourceSeen(two, one, 6)).toBe(two.address.v6)
    // The other node itself is beyond: it may know no way to a pod.
    const [, gateway = ''] = addresses(2)
    await until(() => pings(one, gateway), 'the other node')
    const rules = one.host.run('nft', ['list', 'table', 'inet', 'trestle']).stdout
    expect(rules).toContain('10.244.2.0/24')
    expect(rules).toContain('192.0.2.12')
  })

  it.each([
    ['the table flushed', ['nft flush ruleset']],
    ['its rules flushed', ['nft flush table inet trestle']],
    ['the bridge removed', ['ip link del cni0']],
    ['forwarding off', ['sysctl -qw net.ipv4.ip_forward=0', 'sysctl -qw net.ipv6.conf.all.forwarding=0']],
    ['routes flushed', ['ip route flush proto 116', 'ip -6 route flush proto 116']],
    [
      'the uplink down and up',
      ['ip link set up0 down', 'ip link set up0 up', 'ip addr add 2001:db8::11/64 dev up0 nodad'],
    ],
  ])('%s: right again within seconds', async (_, lines) => {
    const [one, two] = pair()
    const base = () => one.host.run('nft', ['list', 'table', 'inet', 'trestle']).stdout.replace(/ct .*|handle.*/g, '')
    const before = base()
    for (const line of lines) one.host.run(line.split(' ')[0] ?? '', line.split(' ').slice(1))
    const isRight = () => base() === before && pings(one, two.address.v4) && pings(one, two.address.v6)
    await until(isRight, 'the network')
    expect(sourceSeen(one, two, 4)).toBe(one.address.v4)
  })

  it('the configuration removed or changed, the executable removed or another: right again within seconds', async () => {
    const [{ files, host }] = pair()
    const text = readFileSync(files.conflist, 'utf8')
    const isThere = () => {
      try {
        return readFileSync(files.conflist, 'utf8') === text
      } catch {
        return false
      }
    }
    rmSync(files.conflist)
    await until(isThere, 'the configuration')
    writeFileSync(files.conflist, '{}')
    await until(isThere, 'the configuration')
    const runs = () => host.run(files.program, ['version']).code === 0
    rmSync(files.program)
    await until(runs, 'the executable')
    writeFileSync(files.program, '#!/bin/false\n')
    await until(runs, 'the executable')
  })

  it('a configuration that sorts first is told, and left alone', async () => {
    const [{ files, agent }] = pair()
    const other = `${files.root}/net.d/05-other.conf`
    writeFileSync(other, '{}')
    await agent.seen(({ problem }) => problem === 'OtherConfiguration', 'the problem')
    expect(readFileSync(other, 'utf8')).toBe('{}')
    rmSync(other)
    await agent.seen(({ message }) => String(message).startsWith('over: '), 'the end of it')
  })

  it('pods keep their network while the API server fails in every way, and the agent goes on when it is back', async () => {
    const [one, two] = pair()
    const routes = () => one.host.run('ip', ['route', 'show', 'proto', '116']).stdout
    for (const [at, order] of [
      { answer: 401 },
      { answer: 429 },
      { answer: 500 },
      { garbage: true },
      { forget: true },
    ].entries()) {
      const before = routes()
      const failures = one.agent.lines.filter(({ message }) => message === 'API server').length
      await one.api.order({ ...order, cut: true })
      if (!('forget' in order))
        await until(
          () => one.agent.lines.filter(({ message }) => message === 'API server').length > failures,
          'the failure',
        )
      expect(routes()).toBe(before)
      await until(() => pings(one, two.address.v4), 'a ping while the API server fails')
      await one.api.order({ answer: 0, garbage: false })
      const name = `late-${at}`
      const late = nodeObject(name, { cidrs: [`10.244.${100 + at}.0/24`], addresses: [`192.0.2.${100 + at}`] })
      await one.api.order({ put: [late] })
      await until(() => routes().includes(`10.244.${100 + at}.0/24 via 192.0.2.${100 + at}`), 'the late node', 60_000)
    }
  })
})
