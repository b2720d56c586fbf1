// SPDX-License-Identifier: Apache-2.0
// npm run bench:agent: what `trestle agent` costs in a large cluster, with a real API server. Runs itself in private
// namespaces; needs root, kubectl, etcd and kube-apiserver.
//   --nodes N       nodes of the cluster (default 1000)
//   --changes N     measured changes (default 20)
//   --rest S        seconds of rest that are measured (default 30)
//   --overlay WHEN  as the agent's option (default auto: all are on one segment)
//   -o json         the figures as JSON
import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, readlinkSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { openControlGroup } from './bench/cluster/control-group.mjs'
import { agentToken, missingPrograms, startControlPlane } from './bench/cluster/control-plane.mjs'
import { addressOf, heartbeats, rangesOf, readdress, register } from './bench/cluster/nodes.mjs'
import { quantile } from './bench/statistics.mjs'
import { allocatorSettings } from './image/environment.mjs'

const { values } = parseArgs({
  options: {
    nodes: { type: 'string', default: '1000' },
    changes: { type: 'string', default: '20' },
    rest: { type: 'string', default: '30' },
    overlay: { type: 'string', default: 'auto' },
    output: { type: 'string', short: 'o', default: 'text' },
  },
})
const [nodes, changes, restS] = ['nodes', 'changes', 'rest'].map((name) => {
  const number = Number(values[name])
  if (Number.isInteger(number) && number >= 2 && number <= 20_000) return number
  throw new Error(`bench: --${name} takes a number from 2 to 20000`)
})

/** The network of the measured node: all others are on its segment. */
function makeNode() {
  const lines = [
    'link set lo up',
    'link add up0 type bridge',
    'link set up0 up',
    `addr add ${addressOf(1)}/12 dev up0`,
    'addr add fd00:99::1/64 dev up0 nodad',
    'route add default via 172.31.255.254',
  ]
  execFileSync('ip', ['-batch', '-'], { input: `${lines.join('\n')}\n` })
}

/** The agent in a control group. `lines`: its log. */
function startAgent({ scratch, group, plane, token }) {
  const [bin, conf, program] = ['bin', 'net.d', 'trestle'].map((name) => join(scratch, name))
  for (const directory of [bin, conf]) mkdirSync(directory)
  copyFileSync(resolve(process.env.CNI_BIN ?? 'dist/trestle'), program)
  // Where it is to be already: a copy would be counted as the group's page cache.
  execFileSync('cp', [program, join(bin, 'trestle')])
  writeFileSync(join(scratch, 'token'), token, { mode: 0o600 })
  const args = ['agent', '--node-name', 'node-1', '--api-server', plane.url, '--ca-file', plane.caFile, '--gc', '0']
  args.push('--overlay', values.overlay)
  const files = ['--token-file', join(scratch, 'token'), '--bin-dir', bin, '--conf-dir', conf, '--listen', 'off']
  const image = Object.fromEntries(allocatorSettings.map((each) => each.split('=')))
  const env = { PATH: process.env.PATH, TRESTLE_STATE_DIR: join(scratch, 'state'), ...image }
  const [shell, ...words] = group.join
  const child = spawn(shell, [...words, join(bin, 'trestle'), ...args, ...files], {
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const lines = []
  const ended = new Promise((done) => child.once('exit', done))
  createInterface(child.stdout).on('line', (line) => lines.push(JSON.parse(line)))
  const isReady = () => lines.some(({ message }) => message === 'ready')
  // Not every kernel counts the pages of a program's file for its control group.
  const programMb = () => {
    const [, kb = '0'] = /^RssFile:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8')) ?? []
    return (Number(kb) * 1024) / 1e6
  }
  return { lines, isReady, programMb, end: () => child.kill('SIGTERM'), ended }
}

/** Every line of `ip monitor route`, as it comes. */
function followRoutes() {
  const child = spawn('ip', ['-o', 'monitor', 'route'], { stdio: ['ignore', 'pipe', 'ignore'] })
  const waiting = new Set()
  createInterface(child.stdout).on('line', (line) => {
    for (const each of waiting) if (each.test(line)) each.found()
  })
  const seen = (words) =>
    new Promise((resolve, reject) => {
      const limit = setTimeout(() => reject(new Error(`no route with ${words.join(' ')} within 20 s`)), 20_000)
      const test = (line) => !line.startsWith('Deleted') && words.every((word) => line.includes(word))
      const found = () => {
        clearTimeout(limit)
        waiting.delete(each)
        resolve()
      }
      const each = { test, found }
      waiting.add(each)
    })
  return { seen, end: () => child.kill('SIGKILL') }
}

/** Milliseconds from the request that changes a node to its route. */
async function measureChanges(plane) {
  const routes = followRoutes()
  const took = []
  await sleep(500)
  for (let n = 0; n < changes; n++) {
    const [at, other] = [2 + (n % (nodes - 1)), nodes + 1 + n]
    const came = routes.seen([rangesOf(at)[0], addressOf(other)])
    const started = performance.now()
    await Promise.all([readdress(plane, at, other), came.then(() => took.push(performance.now() - started))])
    // Changes of a cluster are not in step with the agent's own looks.
    await sleep(700 + (n % 7) * 150)
  }
  routes.end()
  return took
}

async function until(test, what) {
  for (const limit = performance.now() + 60_000; !test(); await sleep(20))
    if (performance.now() > limit) throw new Error(`bench: no ${what()} within 60 s`)
}

async function cpuPerSecond(group, seconds) {
  const [cpu, started] = [group.cpuMs(), performance.now()]
  await sleep(seconds * 1000)
  return (group.cpuMs() - cpu) / ((performance.now() - started) / 1000)
}

/** A pod, so that there are rules whose sets the cluster is in. */
function addPod(scratch) {
  execFileSync('ip', ['netns', 'add', 'pod'])
  const conf = JSON.stringify({ cniVersion: '1.1.0', name: 'pods', type: 'trestle', mode: 'ptp', podcidr: rangesOf(1) })
  const env = {
    ...{
      PATH: process.env.PATH,
      TRESTLE_STATE_DIR: join(scratch, 'state'),
      CNI_COMMAND: 'ADD',
      CNI_CONTAINERID: 'pod',
    },
    ...{ CNI_NETNS: '/run/netns/pod', CNI_IFNAME: 'eth0', CNI_PATH: join(scratch, 'bin') },
  }
  execFileSync(resolve(process.env.CNI_BIN ?? 'dist/trestle'), [], { env, input: conf })
}

async function measure() {
  const scratch = mkdtempSync(join(tmpdir(), 'trestle-bench-'))
  const say = (text) => process.stderr.write(`bench: ${text}\n`)
  const group = openControlGroup(scratch)
  makeNode()
  addPod(scratch)
  const plane = await startControlPlane(scratch)
  const ends = [plane.end]
  try {
    const token = await agentToken(plane, plane.caFile)
    say(`registers ${nodes} nodes`)
    await register(plane, 1, nodes)
    const stop = heartbeats(plane, nodes, 5)
    ends.push(stop)
    say('first sync')
    const started = performance.now()
    const agent = startAgent({ scratch, group, plane, token })
    ends.push(agent.end)
    await until(agent.isReady, () => `ready agent: ${agent.lines.map((line) => JSON.stringify(line)).join('\n')}`)
    const sync = { wallMs: performance.now() - started, cpuMs: group.cpuMs(), memory: group.memory() }
    const batches = agent.lines.filter(({ message }) => message === 'routes changed').map(({ count }) => count)
    say('changes')
    const took = await measureChanges(plane)
    // Three looks later nothing of the changes is left to see.
    await sleep(20_000)
    say('rest')
    const busy = await cpuPerSecond(group, restS)
    await stop()
    const idle = await cpuPerSecond(group, restS)
    const memory = { ...group.memory(), program: agent.programMb() }
    agent.end()
    await agent.ended
    return { nodes, sync, batches, took, busy, idle, memory, lines: agent.lines.length }
  } catch (error) {
    say(error.stack)
    throw error
  } finally {
    for (const end of ends.reverse()) await end()
    await until(group.isEmpty, () => 'empty control group')
    group.remove()
    rmSync(scratch, { recursive: true, force: true })
  }
}

function print({ sync, batches, took, busy, idle, memory }) {
  const mb = ({ peak, anonymous, mapped, cached }) =>
    `${anonymous.toFixed(0)} MB its own, ${mapped.toFixed(0)} MB mapped files, ${cached.toFixed(0)} MB page cache; peak of all ${peak.toFixed(0)} MB`
  const at = (fraction) => `${quantile(took, fraction).toFixed(0)} ms`
  console.log(
    [
      `${nodes} nodes:`,
      `  first sync: ${sync.cpuMs.toFixed(0)} ms of CPU, ${sync.wallMs.toFixed(0)} ms; batches of routes: ${batches.join(', ')}; ${mb(sync.memory)}`,
      `  a node's change to its route: median ${at(0.5)}, least ${at(0)}, 90 % ${at(0.9)}`,
      `  at rest, five status updates a second: ${busy.toFixed(1)} ms of CPU a second; none: ${idle.toFixed(1)} ms`,
      `  after all: ${mb(memory)}; pages of the program's file: ${memory.program.toFixed(0)} MB`,
    ].join('\n'),
  )
}

if (process.env.TRESTLE_TEST_NETNS === readlinkSync('/proc/self/ns/net')) {
  const missing = missingPrograms()
  if (missing !== undefined) throw new Error(`bench: ${missing}`)
  const figures = await measure()
  if (values.output === 'json') console.log(JSON.stringify(figures))
  else print(figures)
} else {
  const inside = join(import.meta.dirname, 'in-netns.sh')
  const { status } = spawnSync(inside, [process.execPath, ...process.argv.slice(1)], { stdio: 'inherit' })
  process.exitCode = status ?? 1
}
