// SPDX-License-Identifier: Apache-2.0
// A node: a network namespace with a worker in it, and the namespaces of its pods. All of it lives in the private
// namespaces of scripts/in-netns.sh and goes with them.
import { execFileSync, spawn } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { openControlGroup } from './cluster/control-group.mjs'
import { trackingRules } from './surroundings.mjs'

let opened = 0

/** What `ip` prints. */
export function ip(...args) {
  return execFileSync('ip', args, { encoding: 'utf8' })
}

/**
 * Opens a node for one contender (contenders.mjs), with connections as every node has them. `call` runs a verb (worker.mjs), `fill` attaches so many pods
 * unmeasured, `exec` runs a command in the node. Each rejects when a plugin fails.
 */
export function openNode(contender, scratch) {
  opened += 1
  const name = `node${opened}`
  ip('netns', 'add', name)
  // An uplink with a default route, as every node has one.
  execFileSync('ip', ['-n', name, '-batch', '-'], { input: uplink })
  const exec = (file, args, input = '') =>
    execFileSync('nsenter', [`--net=/run/netns/${name}`, '--', file, ...args], { input, maxBuffer: 1e9 }).toString()
  exec('nft', ['-f', '-'], trackingRules)
  const state = join(scratch, name)
  mkdirSync(state)
  contender.startFresh?.()
  const own = { ...contender, ...contender.at?.(state), path: join(scratch, 'bin') }
  const group = groupBelow(state)
  const worker = startWorker(name, state, group)
  let pods = 0
  const pod = () => {
    pods += 1
    const label = `${name}-p${pods}`
    ip('netns', 'add', label)
    const port = { hostPort: 20_000 + pods, containerPort: 80, protocol: 'tcp' }
    return {
      id: `${name}c${pods}`,
      netns: `/run/netns/${label}`,
      ifName: 'eth0',
      runtimeConfig: { portMappings: [port], bandwidth },
    }
  }
  const call = (verb, job = {}) => worker.ask({ ...job, verb, contender: own })
  const fill = async (count) => {
    while (pods < count) await call('ADD', { pod: pod() })
  }
  const storm = (list, atOnce) => worker.ask({ pods: list, atOnce, contender: own })
  const close = async () => {
    await worker.end()
    remove(group)
  }
  return { name, contender: own, hasGroup: group !== undefined, pod, call, fill, exec, storm, close }
}

const uplink = `link add uplink0 type veth peer name uplink1
link set lo up
link set uplink0 up
link set uplink1 up
addr add 192.0.2.10/24 dev uplink0
route add default via 192.0.2.1
`

/** 100 Mbit/s, 10 Mbit burst: far from what any call here moves. */
const rate = { ingressRate: 1e8, ingressBurst: 1e7, egressRate: 1e8, egressBurst: 1e7 }
export const bandwidth = rate

const groups = new Set()
// Control groups are the machine's: they are gone when the bench is, however it ends.
process.on('exit', () => {
  for (const group of groups) {
    for (const pid of processesIn(group)) end(pid)
    remove(group)
  }
})

function processesIn({ files }) {
  if (!existsSync(files.processes)) return []
  return readFileSync(files.processes, 'utf8').split('\n').filter(Boolean).map(Number)
}

/** A worker whose bench was ended, or what it called: nobody else is in its group. */
function end(pid) {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // It has gone by itself.
  }
}

/** Where a container has no right to make one, CPU is not measured. */
function groupBelow(state) {
  try {
    const group = openControlGroup(state)
    groups.add(group)
    return group
  } catch {
    return undefined
  }
}

/** The kernel may be about to let the last process go. */
function remove(group) {
  if (!groups.delete(group)) return
  for (const end = performance.now() + 5000; ; ) {
    try {
      return group.remove()
    } catch (error) {
      if (performance.now() > end) return console.error(`bench: a control group is left: ${error.message}`)
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 20)
    }
  }
}

function startWorker(name, state, group) {
  const script = join(import.meta.dirname, 'worker.mjs')
  const words = [...(group?.join ?? []), 'nsenter', `--net=/run/netns/${name}`, '--', process.execPath, script]
  const child = spawn(words[0], words.slice(1), {
    env: { ...process.env, BENCH_STATE: state, ...(group && { BENCH_GROUP: JSON.stringify(group.files) }) },
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  })
  const ended = new Promise((done) => child.once('exit', done))
  const ask = (job) =>
    new Promise((resolve, reject) => {
      child.once('message', ({ done, error }) => (error === undefined ? resolve(done) : reject(new Error(error))))
      child.send(job)
    })
  const end = async () => {
    child.disconnect()
    await ended
  }
  return { ask, end }
}
