// SPDX-License-Identifier: Apache-2.0
// `trestle agent` on one node, from its start to its end: configuration, routes and sets follow the cluster, and only
// what is the agent's own is ever changed.

import { existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { execaSync } from 'execa'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import {
  type AgentFiles,
  type ApiServer,
  agentFiles,
  isReady,
  nodeObject,
  openApiServer,
  type Running,
  scrape,
  startAgent,
  until,
} from '../../support/cluster/cluster.ts'
import { findingOfProblem } from '../../support/cluster/problems.ts'
import { haveStrace } from '../../support/faults/strace.ts'
import { type Host, openHost, trestle } from '../../support/host.ts'
import { runLine } from '../../support/outcome.ts'
import { stateEnv } from '../../support/state-layout.ts'

const own = nodeObject('self', {
  cidrs: ['10.244.1.0/24', 'fd00:10:244:1::/64'],
  addresses: ['192.0.2.11', '2001:db8::11'],
})
const two = nodeObject('two', {
  cidrs: ['10.244.2.0/24', 'fd00:10:244:2::/64'],
  addresses: ['192.0.2.12', '2001:db8::12'],
})
const three = nodeObject('three', { cidrs: ['10.244.3.0/24'], addresses: ['192.0.2.13', '2001:db8::13'] })

let host: Host
let files: AgentFiles
let api: ApiServer
const agents: Running[] = []

beforeEach(async () => {
  host = openHost()
  files = agentFiles()
  for (const line of [
    'link set lo up',
    'link add up0 type bridge',
    'link set up0 up',
    'addr add 192.0.2.11/24 dev up0',
    'addr add 2001:db8::11/64 dev up0 nodad',
    'route add default via 192.0.2.1',
    'route add 10.250.0.0/16 via 192.0.2.99',
  ])
    runLine(host, `ip ${line}`)
  api = await openApiServer(host)
})

afterEach(async () => {
  for (const agent of agents.splice(0)) await agent.end('SIGKILL')
  await api.end('SIGKILL')
  files.remove()
  host.close()
})

function agent(...more: string[]): Running {
  const started = startAgent(host, files, more)
  agents.push(started)
  return started
}

/** Takes the routes by the uplink away, and its address of IPv6. */
function flap(): void {
  for (const state of ['down', 'up']) runLine(host, `ip link set up0 ${state}`)
}

/** Status and text of an answer of the agent. */
function asked(path: string): string {
  const fetched = `fetch('http://127.0.0.1:9917/${path}')`
  const get = `${fetched}.then(async (found) => console.log(found.status, await found.text()))`
  return host.run(process.execPath, ['-e', get]).stdout.trim()
}

/** Words before an agent that runs this shell script for a program. */
function withWrapper(program: string, script: string): readonly string[] {
  const [directory, path] = [`${files.root}/wrapped`, process.env['PATH']]
  mkdirSync(directory)
  writeFileSync(`${directory}/${program}`, `#!/bin/sh\nPATH=${path}\n${script}`, { mode: 0o755 })
  return ['env', `PATH=${directory}:${path}`]
}

/** The routes of the agent, both families. */
function routes(): readonly string[] {
  const all = [4, 6].map((family) => host.run('ip', [`-${family}`, 'route', 'show', 'proto', '116']).stdout)
  return all
    .join('')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => line.replace(/ (metric|pref|linkdown|error).*/, '').trim())
    .sort()
}

// Carrier is reported later (net/core/link_watch.c).
const foreign = () => host.run('ip', ['route', 'show', 'proto', 'boot']).stdout.replace(/ linkdown/g, '')
const toTwo = ['10.244.2.0/24 via 192.0.2.12 dev up0', 'fd00:10:244:2::/64 via 2001:db8::12 dev up0']

describe('trestle agent', () => {
  it('waits for the range of its node, writes the configuration last, and follows the cluster', async () => {
    const before = foreign()
    await api.order({ put: [nodeObject('self', { cidrs: [], addresses: ['192.0.2.11'] }), two] })
    const running = agent()
    await until(() => routes().length === 2, 'routes to node two')
    expect(existsSync(files.conflist)).toBe(false)
    await running.seen(({ message }) => String(message).includes('waiting for a podCIDR'), 'the waiting')

    await api.order({ put: [own] })
    await running.seen(isReady, 'ready')
    const [plugin] = files.configuration().plugins
    expect(plugin).toMatchObject({ type: 'trestle', podcidr: ['10.244.1.0/24', 'fd00:10:244:1::/64'] })
    expect(routes()).toEqual(toTwo)
    const { mtimeMs, ino } = statSync(files.conflist)

    await api.order({ put: [three] })
    await until(() => routes().length === 3, 'a route to node three')
    await api.order({ put: [nodeObject('two', { cidrs: ['10.244.2.0/24'], addresses: ['192.0.2.22'] })] })
    await until(() => routes().includes('10.244.2.0/24 via 192.0.2.22 dev up0'), 'the new address')
    const toThree = '10.244.3.0/24 via 192.0.2.13 dev up0'
    // Nobody has the other range of node two now: pods may still live in it.
    expect(routes()).toEqual(['10.244.2.0/24 via 192.0.2.22 dev up0', toThree, toTwo[1]])
    await api.order({ delete: ['two', 'three'] })
    // Long enough for a round without any other node: it changes no configuration.
    await sleep(1500)
    await api.order({ put: [nodeObject('four', { cidrs: ['10.244.2.0/24'], addresses: ['192.0.2.14'] })] })
    await until(() => routes().includes('10.244.2.0/24 via 192.0.2.14 dev up0'), 'the new owner')
    expect(routes()).toEqual(['10.244.2.0/24 via 192.0.2.14 dev up0', toThree, toTwo[1]])
    expect(statSync(files.conflist)).toMatchObject({ mtimeMs, ino })
    expect(foreign()).toBe(before)
  })

  it.skipIf(!haveStrace())('has the text of the configuration on the disk before its name', async () => {
    await api.order({ put: [own] })
    const log = `${files.root}/strace`
    const tracer = ['strace', '-f', '-qq', '-I1', '-o', log, '-e', 'trace=openat']
    const traced = startAgent(host, files, [], tracer)
    await traced.seen(isReady, 'ready')
    // The agent itself: strace would leave it running.
    execaSync('pkill', ['-TERM', '-P', String(traced.child.pid)])
    await traced.end('SIGCONT')
    const written = readFileSync(log, 'utf8').split('\n')
    const opened = written.filter((line) => line.includes(`"${files.root}/net.d/.`) && line.includes('O_CREAT'))
    expect(opened).toEqual([expect.stringContaining('O_SYNC')])
  })

  it('killed before nft has removed a node, leaves that to the next one', async () => {
    await api.order({ put: [own, two, three] })
    const first = agent()
    await first.seen(isReady, 'ready')
    const { plugins, ...list } = files.configuration()
    expect(host.cni('ADD', { ...list, ...plugins[0] }, { id: 'pod', netns: host.pod('pod') }).code).toBe(0)
    const hasThree = () => host.run('nft', ['list', 'table', 'inet', 'trestle']).stdout.includes('192.0.2.13')
    expect(hasThree()).toBe(true)
    await first.end('SIGKILL')
    await api.order({ delete: ['three'] })

    const pidFile = `${files.root}/pid`
    const wrapper = `case "$*" in *-f*) ;; *) exec nft "$@" ;; esac
      kill -KILL "$(cat ${pidFile})"; exit 1`
    const killed = startAgent(host, files, [], withWrapper('nft', wrapper))
    agents.push(killed)
    writeFileSync(pidFile, `${killed.child.pid}`)
    await until(() => killed.child.signalCode === 'SIGKILL', 'its end')
    expect(hasThree()).toBe(true)
    await agent().seen(isReady, 'ready')
    expect(hasThree()).toBe(false)
  })

  it('--uninstall has the configuration back for a pod that came meanwhile', async () => {
    await api.order({ put: [own] })
    const running = agent()
    await running.seen(isReady, 'ready')
    await running.end()
    const { plugins, ...list } = files.configuration()
    const conf = { ...list, ...plugins[0] }
    const [asks, may] = [`${files.root}/asks`, `${files.root}/may`]
    const wait = `[ -e ${files.conflist} ] || { : >${asks}; until [ -e ${may} ]; do sleep 0.05; done; }; exec ip "$@"`
    const remover = startAgent(host, files, ['--uninstall'], withWrapper('ip', wait))
    agents.push(remover)
    await until(() => existsSync(asks), 'its look')
    const netns = host.pod('late')
    expect(host.cni('ADD', conf, { netns }).stderr).toBe('')
    writeFileSync(may, '')
    await remover.seen(({ message }) => String(message).startsWith('pods are attached'), 'the pod')
    expect(existsSync(files.conflist)).toBe(true)
    expect(host.cni('DEL', conf, { netns }).stderr).toBe('')
    await remover.seen(({ message }) => String(message).startsWith('uninstalled'), 'the end')
    expect(existsSync(files.conflist)).toBe(false)
  })

  it('watches a directory of configurations that was replaced, too', async () => {
    await api.order({ put: [own] })
    await agent().seen(isReady, 'ready')
    for (const path of [dirname(files.conflist), files.conflist]) {
      rmSync(path, { recursive: true })
      await until(() => existsSync(files.conflist), `the configuration after ${path} was removed`, 15_000)
      // What else was asked for meanwhile is over.
      await sleep(3000)
    }
  })

  it('is to be started again where a directory of the node that it has mounted was removed', async () => {
    const [confDir, mount] = [dirname(files.conflist), `${files.root}/mounted`]
    mkdirSync(mount)
    await api.order({ put: [own] })
    const script = `mount --bind ${confDir} ${mount}; exec "$@"`
    const running = startAgent(host, files, ['--conf-dir', mount], ['unshare', '--mount', 'sh', '-ec', script, 'sh'])
    agents.push(running)
    await running.seen(isReady, 'ready')
    expect(asked('healthz')).toBe('200 ok')
    rmSync(confDir, { recursive: true })
    mkdirSync(confDir)
    expect(asked('healthz')).toBe(`503 ${mount} was removed on the node: the container has to start again`)
  })

  it('has nothing of the other commands in memory', async () => {
    await api.order({ put: [own, two] })
    const running = agent()
    await running.seen(isReady, 'ready')
    const status = readFileSync(`/proc/${running.child.pid}/status`, 'utf8')
    const kb = Number(/^RssAnon:\s+(\d+) kB$/m.exec(status)?.[1])
    expect(kb).toBeGreaterThan(0)
    // 25 MB with the image's settings for glibc, without which it may be 32; and 41 with the other commands.
    expect(kb).toBeLessThan(36_000)
  })

  it('tells what is wrong with its words, as every command does', () => {
    const { code, stderr } = host.run(trestle, ['agent', '--nodename', 'x'])
    expect({ code, stderr }).toEqual({
      code: 2,
      stderr: 'trestle: there is no option "--nodename"; did you mean --node-name?\nusage: trestle agent [options]\n',
    })
    expect(host.run(trestle, ['agent', '--help']).stdout).toContain('--cloud-routes')
  })

  it('leaves all as it is while the API server lists no node of its name', async () => {
    await api.order({ put: [own, two] })
    const running = agent()
    await running.seen(isReady, 'ready')
    await api.order({ delete: ['self', 'two'] })
    await running.seen(({ message }) => message === 'waiting for a Node named self', 'the waiting')
    expect(routes()).toEqual(toTwo)
    expect(existsSync(files.conflist)).toBe(true)
    flap()
    await until(() => routes().includes('10.244.2.0/24 via 192.0.2.12 dev up0'), 'the route after a flap of the link')
    const since = running.lines.length
    await api.order({ put: [own] })
    await until(() => running.lines.slice(since).some(isReady), 'ready again')
    // Node two may come back: ten minutes.
    expect(routes()).toContain(toTwo[0])
  })

  it('removes no route while it has no list', async () => {
    await api.order({ put: [own, two] })
    const first = agent()
    await first.seen(isReady, 'ready')
    await first.end()
    await api.order({ answer: 503 })
    runLine(host, 'ip route add 10.244.99.0/24 via 192.0.2.99 proto 116 metric 7')
    const second = agent('--look', '1')
    await second.seen(({ message }) => message === 'API server', 'the failure')
    await sleep(2000)
    expect(routes()).toEqual([...toTwo, '10.244.99.0/24 via 192.0.2.99 dev up0'].sort())
    await api.order({ answer: 0 })
    await second.seen(isReady, 'ready')
    expect(routes()).toEqual(toTwo)
  })

  it('tells of no problem that it is over because a change of routes failed', async () => {
    const fail = `${files.root}/fail`
    await api.order({ put: [own, nodeObject('behind', { cidrs: ['10.244.8.0/24'], addresses: ['198.51.100.8'] })] })
    const wrapper = `case "$*" in *-force*) [ ! -e ${fail} ] || exit 1 ;; esac; exec ip "$@"`
    const running = startAgent(host, files, [], withWrapper('ip', wrapper))
    agents.push(running)
    await running.seen(({ problem }) => problem === 'NotOnSegment', 'the problem')
    writeFileSync(fail, '')
    await api.order({ put: [two] })
    await running.seen(({ message }) => message === 'round failed', 'the failure')
    rmSync(fail)
    await until(() => routes().length === 2, 'routes to node two')
    expect(running.lines.filter(({ message }) => String(message).startsWith('over:'))).toEqual([])
  })

  it('says once that the network is available, and takes heartbeats for nothing', async () => {
    const unavailable = {
      ...own,
      status: { ...own.status, conditions: [{ type: 'NetworkUnavailable', status: 'True' }] },
    }
    await api.order({ put: [unavailable, two] })
    const running = agent()
    await running.seen(isReady, 'ready')
    const patched = await api.seen(({ method }) => method === 'PATCH', 'the condition')
    expect(patched).toMatchObject({
      path: '/api/v1/nodes/self/status',
      token: 'Bearer token-1',
      body: { status: { conditions: [{ type: 'NetworkUnavailable', status: 'False' }] } },
    })
    const said = running.lines.length
    for (let beat = 0; beat < 5; beat++)
      await api.order({
        put: [{ ...two, status: { ...two.status, conditions: [{ type: 'Ready', status: `${beat}` }] } }],
      })
    await api.order({ put: [three] })
    await until(() => routes().length === 3, 'a route to node three')
    // The line comes after the routes.
    const changes = () => running.lines.slice(said).filter(({ message }) => message === 'routes changed').length
    await until(() => changes() > 0, 'the line')
    expect(changes()).toBe(1)
    expect(api.lines.filter(({ method }) => method === 'PATCH')).toHaveLength(1)
  })

  it('says so again of a Node that was registered again, once for each uid', async () => {
    const registered = (uid: string) => ({
      ...own,
      metadata: { ...own.metadata, uid },
      status: { ...own.status, conditions: [{ type: 'NetworkUnavailable', status: 'True' }] },
    })
    const patches = () => api.lines.filter(({ method }) => method === 'PATCH').length
    await api.order({ put: [registered('first'), two] })
    await agent().seen(isReady, 'ready')
    await until(() => patches() === 1, 'the condition')
    await api.order({ delete: ['self'] })
    await api.order({ put: [registered('second')] })
    await until(() => patches() === 2, 'the condition of the second Node')
    // A cloud that says otherwise of a Node whose network stands knows better.
    await api.order({ put: [registered('second')] })
    await api.order({ put: [three] })
    await until(() => routes().length === 3, 'a route to node three')
    expect(patches()).toBe(2)
  })

  it.each([
    ['iptables-restore', 'iptables-nft-restore </dev/shm/fw'],
    ['its table deleted', 'nft delete table ip filter; iptables-nft-restore --noflush </dev/shm/fw'],
    [
      'a reload in steps, the drop last',
      'iptables-nft -P FORWARD ACCEPT; iptables-nft -F FORWARD; sleep 2; iptables-nft -P FORWARD DROP',
    ],
  ])('puts its accept back within ten seconds after a firewall was reloaded: %s', async (_, reload) => {
    writeFileSync(`${files.root}/pods.conflist`, JSON.stringify({ plugins: [{ type: 'trestle', firewall: {} }] }))
    const shell = (line: string) => {
      const { code, stderr } = host.run('sh', ['-ec', line.replaceAll('/dev/shm', files.root)])
      expect(code, stderr).toBe(0)
    }
    shell(
      'iptables-nft -P FORWARD DROP; iptables-nft -A FORWARD -p tcp --dport 22 -j DROP; iptables-nft-save >/dev/shm/fw',
    )
    await api.order({ put: [own, two] })
    await agent('--template', `${files.root}/pods.conflist`).seen(isReady, 'ready')
    const { cniVersion, name, plugins } = files.configuration()
    const conf = { cniVersion, name, ...plugins[0] }
    expect(host.cni('ADD', conf, { id: 'a', netns: host.pod('a') }).code).toBe(0)
    const isThere = () => host.run('iptables-nft', ['-S', 'FORWARD']).stdout.includes('trestle accept')
    expect(isThere()).toBe(true)
    shell(reload)
    await until(isThere, 'the accept', 10_000)
  })

  it('tells of a range that is nearly full before it is', async () => {
    await api.order({ put: [nodeObject('self', { cidrs: ['10.244.1.0/28'], addresses: ['192.0.2.11'] }), two] })
    const running = agent('--look', '1')
    await running.seen(isReady, 'ready')
    const { cniVersion, name, plugins } = files.configuration()
    const conf = { cniVersion, name, ...plugins[0] }
    // Of 13 addresses.
    const pods = Array.from({ length: 12 }, (_, at) => host.pod(`full${at}`))
    const added = pods.map((netns, at) => host.cni('ADD', conf, { id: `full${at}`, netns }))
    expect(added.filter(({ code }) => code !== 0)).toEqual([])
    await running.seen(({ problem }) => problem === 'PoolNearlyFull', 'the problem')
    await api.seen(({ body }) => (body as { reason?: string })?.reason === 'PoolNearlyFull', 'the event')
    expect(scrape(host)['trestle_agent_problems{id="PoolNearlyFull"}']).toBe(1)
    for (const at of [0, 1, 2]) host.cni('DEL', conf, { id: `full${at}`, netns: pods[at] ?? '' })
    await running.seen(({ message }) => String(message).startsWith('over: nine of ten'), 'the end')
  })

  it('leaves all as it is when it ends, and is right at once when it starts again', async () => {
    await api.order({ put: [own, two, three] })
    const first = agent()
    await first.seen(isReady, 'ready')
    const before = routes()
    expect(await first.end()).toBe(0)
    expect(routes()).toEqual(before)
    await api.order({ put: [nodeObject('three', { cidrs: ['10.244.3.0/24'], addresses: ['192.0.2.33'] })] })
    const second = agent()
    await second.seen(isReady, 'ready')
    expect(routes()).toEqual([...toTwo, '10.244.3.0/24 via 192.0.2.33 dev up0'].sort())
    expect(await second.end()).toBe(0)
  })

  it('keeps the pods of a node reachable that was registered again with another range', async () => {
    await api.order({ put: [own, two] })
    await agent().seen(isReady, 'ready')
    await api.order({ delete: ['two'] })
    await api.order({
      put: [nodeObject('two', { cidrs: ['10.244.9.0/24'], addresses: ['192.0.2.12', '2001:db8::12'] })],
    })
    const both = [...toTwo, '10.244.9.0/24 via 192.0.2.12 dev up0'].sort()
    await until(() => routes().length === 3, 'routes to both ranges')
    expect(routes()).toEqual(both)
    // Somebody else has the old range now.
    await api.order({ put: [nodeObject('four', { cidrs: ['10.244.2.0/24'], addresses: ['192.0.2.14'] })] })
    await until(() => routes().includes('10.244.2.0/24 via 192.0.2.14 dev up0'), 'the new owner')
  })

  it('names what is wrong with other nodes, in log, event and metric, and programs the rest', async () => {
    const bad = (name: string, cidr: string, address: string) =>
      nodeObject(name, { cidrs: [cidr], addresses: [address] })
    await api.order({
      put: [
        own,
        two,
        bad('malformed', '10.244.5.0/33', '192.0.2.15'),
        nodeObject('overlaps', {
          cidrs: ['10.244.0.0/16'],
          addresses: ['192.0.2.16'],
          created: '2026-02-01T00:00:00Z',
        }),
        nodeObject('same', { cidrs: ['10.244.2.0/24'], addresses: ['192.0.2.17'], created: '2026-02-01T00:00:00Z' }),
        bad('behind', '10.244.8.0/24', '198.51.100.8'),
        bad('foreign', '192.0.2.0/24', '192.0.2.19'),
        bad('routed', '10.250.0.0/16', '192.0.2.20'),
        bad('hostile', '$(reboot)\n10.244.1.0/24', '192.0.2.21'),
        nodeObject('nothing', { cidrs: [], addresses: [] }),
        bad('family', 'fd00:10:244:7::/64', '192.0.2.22'),
      ],
    })
    const before = foreign()
    const running = agent()
    await running.seen(isReady, 'ready')
    expect(routes()).toEqual(toTwo)
    expect(foreign()).toBe(before)
    const told = () =>
      Object.fromEntries(
        running.lines.filter(({ problem }) => problem !== undefined).map(({ node, problem }) => [node, problem]),
      )
    const wrong = {
      malformed: 'BadPodCIDR',
      overlaps: 'OverlappingPodCIDR',
      same: 'OverlappingPodCIDR',
      behind: 'NotOnSegment',
      foreign: 'BadPodCIDR',
      routed: 'ForeignRoute',
      hostile: 'BadPodCIDR',
      nothing: 'NoPodCIDR',
      family: 'NoInternalIP',
    }
    // A line each.
    await until(
      () => Object.keys(told()).length >= Object.keys(wrong).length,
      () => `the problems: ${JSON.stringify(told())}`,
    )
    expect(told()).toEqual(wrong)
    const ofNode = (id: string, name: string) =>
      api.seen(({ body }) => {
        const { reason, message = '' } = (body ?? {}) as { reason?: string; message?: string }
        return reason === id && message.startsWith(`node ${name}: `)
      }, `the event of node ${name}`)
    const metrics = scrape(host)
    for (const [name, id] of Object.entries(wrong)) {
      expect(await ofNode(id, name), name).toMatchObject({
        method: 'POST',
        body: { involvedObject: { kind: 'Node', name: 'self' }, type: 'Warning' },
      })
      const sameId = Object.values(wrong).filter((each) => each === id)
      expect(metrics[`trestle_agent_problems{id="${id}"}`], id).toBe(sameId.length)
    }
    expect(metrics['trestle_agent_ready']).toBe(1)
    // doctor on the node tells the same: readiness is silent about it.
    const words = [`--net=${host.path}`, '--', trestle, 'doctor', '--only', 'agents', '-o', 'json']
    const doctor = execaSync('nsenter', words, { env: stateEnv(host), reject: false })
    const { findings } = JSON.parse(doctor.stdout) as { findings: { id: string; on: string }[] }
    expect(findings.map(({ id, on }) => [on, id]).sort()).toEqual(
      Object.entries(wrong)
        .map(([name, id]) => [`node ${name}`, findingOfProblem(id)])
        .sort(),
    )

    // Nothing flaps: heartbeats of them change no route and are reported by nothing.
    const [said, asked] = [running.lines.length, api.lines.filter(({ method }) => method === 'POST').length]
    for (let beat = 0; beat < 3; beat++)
      await api.order({
        put: [{ ...two, status: { ...two.status, conditions: [{ type: 'Ready', status: `${beat}` }] } }],
      })
    await api.order({ put: [three] })
    await until(() => routes().length === 3, 'a route to node three')
    const isSaid = () => running.lines.slice(said).some(({ message }) => message === 'routes changed')
    await until(isSaid, 'the line')
    expect(running.lines.slice(said).filter(({ problem }) => problem !== undefined)).toEqual([])
    expect(api.lines.filter(({ method }) => method === 'POST')).toHaveLength(asked)
    expect(routes()).toEqual([...toTwo, '10.244.3.0/24 via 192.0.2.13 dev up0'].sort())
  })

  it('with another podCIDR of its own says drain, and takes the new range when its last pod has gone', async () => {
    await api.order({ put: [own, two] })
    const running = agent('--look', '1')
    await running.seen(isReady, 'ready')
    const plugin = () => {
      const { cniVersion, name, plugins } = files.configuration()
      return { cniVersion, name, ...plugins[0] }
    }
    const before = plugin()
    const [old, young] = [host.pod('old'), host.pod('young')]
    expect(host.cni('ADD', before, { id: 'old', netns: old }).code).toBe(0)
    await api.order({ delete: ['self'] })
    await api.order({ put: [nodeObject('self', { cidrs: ['10.244.77.0/24'], addresses: ['192.0.2.11'] })] })
    await running.seen(({ problem }) => problem === 'MovedPodCIDR', 'the problem')
    const { body } = await api.seen(({ body }) => (body as { reason?: string })?.reason === 'MovedPodCIDR', 'the event')
    expect(JSON.stringify(body)).toContain('drain this node, then delete its remaining pods or reboot it')
    expect(asked('readyz')).toMatch(/^503 .*drain this node/)
    const set = (name: string) => host.run('nft', ['list', 'set', 'inet', 'trestle', name]).stdout
    expect(set('masq4')).toContain('10.244.1.0/24')
    expect(host.inPod(old, 'ping', ['-n', '-c', '1', '-W', '5', '10.244.1.1']).code).toBe(0)
    expect(host.cni('DEL', before, { id: 'old', netns: old }).code).toBe(0)
    await running.seen(({ message }) => message === 'removed what was for earlier ranges', 'the end')
    await until(() => asked('readyz') === '200 ok', 'readiness')
    expect(plugin().podcidr).toBe('10.244.77.0/24')
    const added = host.cni('ADD', plugin(), { id: 'young', netns: young })
    expect(added.json?.ips?.[0]?.address, added.stdout + added.stderr).toBe('10.244.77.2/24')
    expect(set('masq4')).not.toContain('10.244.1.0')
    expect(host.inPod(young, 'ping', ['-n', '-c', '1', '-W', '5', '10.244.77.1']).code).toBe(0)
  })

  it('with another podCIDR and no pods gives the range of before free, for a node that has it by now', async () => {
    await api.order({ put: [own, two] })
    const running = agent('--look', '1')
    await running.seen(isReady, 'ready')
    const plugin = () => {
      const { cniVersion, name, plugins } = files.configuration()
      return { cniVersion, name, ...plugins[0] }
    }
    const [conf, netns] = [plugin(), host.pod('p')]
    expect(host.cni('ADD', conf, { id: 'p', netns }).code).toBe(0)
    expect(host.cni('DEL', conf, { id: 'p', netns }).code).toBe(0)
    await api.order({
      put: [
        nodeObject('self', { cidrs: ['10.244.77.0/24'], addresses: ['192.0.2.11'] }),
        nodeObject('three', { cidrs: ['10.244.1.0/24'], addresses: ['192.0.2.13'] }),
      ],
    })
    await until(() => routes().includes('10.244.1.0/24 via 192.0.2.13 dev up0'), 'the route to the new owner')
    await until(() => plugin().podcidr === '10.244.77.0/24', 'the new range')
    const young = host.pod('young')
    expect(host.cni('ADD', plugin(), { id: 'young', netns: young }).json?.ips?.[0]?.address).toBe('10.244.77.2/24')
    expect(host.cni('DEL', plugin(), { id: 'young', netns: young }).code).toBe(0)
  })

  it('counts addresses, and says when pods have another MTU than the uplink', async () => {
    await api.order({ put: [own, two] })
    const running = agent('--look', '1')
    await running.seen(isReady, 'ready')
    const { cniVersion, name, plugins } = files.configuration()
    const conf = { cniVersion, name, ...plugins[0] }
    const [a, b] = [host.pod('a'), host.pod('b')]
    const mtuOf = (pod: string) => JSON.parse(host.inPod(pod, 'ip', ['-j', 'link', 'show', 'eth0']).stdout)[0].mtu
    expect(host.cni('ADD', conf, { id: 'a', netns: a }).code).toBe(0)
    expect(host.cni('ADD', conf, { id: 'a', netns: a }).json?.code).toBe(103)
    const first = scrape(host)
    expect(first).toMatchObject({
      'trestle_pool_addresses_taken{range="10.244.1.0/24"}': 1,
      'trestle_pool_addresses{range="10.244.1.0/24"}': 253,
    })

    host.run('ip', ['link', 'set', 'up0', 'mtu', '1400'])
    await running.seen(({ problem }) => problem === 'MtuChanged', 'the problem')
    await api.seen(({ body }) => (body as { reason?: string })?.reason === 'MtuChanged', 'the event')
    expect(scrape(host)['trestle_agent_problems{id="MtuChanged"}']).toBe(1)
    const renewed = { cniVersion, name, ...files.configuration().plugins[0] }
    expect(host.cni('ADD', renewed, { id: 'b', netns: b }).code).toBe(0)
    expect([mtuOf(a), mtuOf(b)]).toEqual([1500, 1400])
    expect(host.cni('DEL', conf, { id: 'a', netns: a }).code).toBe(0)
    await running.seen(({ message }) => String(message).startsWith('over: new pods get MTU'), 'the end of it')
    expect(scrape(host)).toMatchObject({
      'trestle_pool_addresses_taken{range="10.244.1.0/24"}': 1,
    })
  })

  it('in ptp mode sends what is for no pod nowhere, and with --cloud-routes makes no routes at all', async () => {
    await api.order({ put: [own, two] })
    const routed = agent('--mode', 'ptp')
    await routed.seen(isReady, 'ready')
    expect(routes()).toEqual([...toTwo, 'unreachable 10.244.1.0/24', 'unreachable fd00:10:244:1::/64 dev lo'].sort())
    await api.seen(({ method }) => method === 'PATCH', 'the condition')
    await routed.end()
    const cloudy = agent('--cloud-routes')
    await cloudy.seen(isReady, 'ready')
    expect(routes()).toEqual([])
    expect(files.configuration().plugins[0].mode).toBeUndefined()
    expect(api.lines.filter(({ method }) => method === 'PATCH')).toHaveLength(1)
  })

  it('an API server that takes no events keeps no route waiting, and has each event when it is back', async () => {
    await api.order({ put: [own, two], slowMs: 3_600_000 })
    const running = agent()
    await running.seen(isReady, 'ready')
    // A problem of the own node is reported at once: the event is under way, and no answer comes.
    writeFileSync(`${files.root}/net.d/05-other.conf`, '{}')
    await running.seen(({ problem }) => problem === 'OtherConfiguration', 'the problem')
    await api.order({ put: [three] })
    await until(() => routes().length === 3, 'a route to node three')
    await api.end('SIGKILL')
    api = await openApiServer(host)
    await api.order({ put: [own, two, three] })
    await api.seen(({ method }) => method === 'PATCH', 'the condition')
    await api.seen(({ body }) => (body as { reason?: string })?.reason === 'OtherConfiguration', 'the event')
  })

  it('leaves a connection that carries nothing any more within half a minute', async () => {
    await api.order({ put: [own, two] })
    const running = agent()
    await running.seen(isReady, 'ready')
    const { stdout } = host.run('ss', ['-Htn', 'state', 'established', 'dport', '=', ':6443'])
    const ports = [...stdout.matchAll(/:(\d+)\s+\S+:6443/g)].map(([, port]) => port)
    expect(ports.length).toBeGreaterThan(0)
    const hole = [...ports].flatMap((port) => [`tcp sport ${port} drop`, `tcp dport ${port} drop`])
    const chain = `chain in { type filter hook input priority -300; ${hole.join('; ')}; }`
    expect(host.run('nft', ['-f', '-'], `table inet hole { ${chain}; }\n`).stderr).toBe('')
    await api.order({ put: [three] })
    await running.seen(({ message, error }) => message === 'API server' && /ETIMEDOUT/.test(String(error)), 'the end')
    await until(() => routes().length === 3, 'the route to node three')
  })

  it('says in its readiness why it has no list of nodes', async () => {
    await api.order({ answer: 403 })
    agent()
    const readiness = () => asked('readyz')
    await until(() => readiness().includes('to list the nodes: GET /api/v1/nodes: 403 the double'), readiness)
  })

  it('reads its token again after it was rotated and refused', async () => {
    await api.order({ put: [own] })
    const running = agent()
    await running.seen(isReady, 'ready')
    // As `kubectl create token … >file` writes it.
    writeFileSync(files.token, 'token-2\n')
    await api.order({ answer: 401, cut: true })
    await running.seen(({ message }) => message === 'API server', 'the failure')
    await api.order({ answer: 0, put: [two] })
    await until(() => routes().length === 2, 'routes to node two')
    await api.seen(({ token }) => token === 'Bearer token-2', 'the new token')
  })
})
