// SPDX-License-Identifier: Apache-2.0
// A node: a network namespace with a worker in it, and the namespaces of its pods. All of it lives in the private
// namespaces of scripts/in-netns.sh and goes with them.
import { execFileSync, spawn } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'

let opened = 0

/** What `ip` prints. */
export function ip(...args) {
  return execFileSync('ip', args, { encoding: 'utf8' })
}

/**
 * Opens a node for one contender (contenders.mjs). `call` runs a verb, `fill` attaches so many pods unmeasured,
 * `exec` runs a command in the node. Each rejects when a plugin fails.
 */
export function openNode(contender, scratch) {
  opened += 1
  const name = `node${opened}`
  ip('netns', 'add', name)
  // An uplink with a default route, as every node has one.
  execFileSync('ip', ['-n', name, '-batch', '-'], { input: uplink })
  const state = join(scratch, name)
  mkdirSync(state)
  const own = { ...contender, ...contender.at?.(state), path: join(scratch, 'bin') }
  const worker = startWorker(name)
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
  const exec = (file, args, input = '') =>
    execFileSync('nsenter', [`--net=/run/netns/${name}`, '--', file, ...args], { input, maxBuffer: 1e9 }).toString()
  const storm = (list, atOnce) => worker.ask({ pods: list, atOnce, contender: own })
  return { name, contender: own, pod, call, fill, exec, storm, close: worker.end }
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

function startWorker(name) {
  const script = join(import.meta.dirname, 'worker.mjs')
  const child = spawn('nsenter', [`--net=/run/netns/${name}`, '--', process.execPath, script], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  })
  const ask = (job) =>
    new Promise((resolve, reject) => {
      child.once('message', ({ done, error }) => (error === undefined ? resolve(done) : reject(new Error(error))))
      child.send(job)
    })
  return { ask, end: () => child.disconnect() }
}
