// SPDX-License-Identifier: Apache-2.0
// Runs inside the network namespace that plays a node, one for each contender: calls plugins as libcni does and
// times them. Jobs come over the IPC channel, so that series of several contenders can be interleaved. It is in a control
// group of its own, whose other processes are those of the calls: BENCH_GROUP has the files of the group, BENCH_STATE is a
// folder of its own.
import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { closeSync, constants, mkdirSync, openSync, readFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { readCpuMs } from './cluster/control-group.mjs'
import { openConnections, runtimePath } from './surroundings.mjs'

/** Calls that may run at once: each has a pipe. */
const mostAtOnce = 32

const group = process.env.BENCH_GROUP ? JSON.parse(process.env.BENCH_GROUP) : undefined

/** What a call has left at work is waited for, so that it slows no other: no longer than this. */
const longestTailMs = 20_000

const directory = join(process.env.BENCH_STATE, 'pipes')
mkdirSync(directory)
const pipes = Array.from({ length: mostAtOnce }, (_, at) => join(directory, `${at}`))
execFileSync('mkfifo', pipes)

/**
 * Runs `body` with a descriptor to read `input` from: a pipe, as runtimes give it. Node's own spawn gives a socket,
 * which no runtime does.
 */
function withPipe(input, body) {
  const path = pipes.pop()
  // Held while the other ends are opened, which would wait for each other.
  const both = openSync(path, constants.O_RDWR)
  const [reader, writer] = [openSync(path, constants.O_RDONLY), openSync(path, constants.O_WRONLY)]
  writeSync(writer, input)
  closeSync(writer)
  closeSync(both)
  const done = () => {
    closeSync(reader)
    pipes.push(path)
  }
  return body(reader, done)
}

/** CPU of all that the calls have started so far, in ms; undefined without control groups. */
function callsCpuMs() {
  if (group === undefined) return undefined
  // Our own first: that brings the kernel's account of us up to date in the group, too.
  const { user, system } = process.cpuUsage()
  return readCpuMs(group) - (user + system) / 1000
}

/** Waits until nothing of a call is at work any more, also what it has not waited for itself. */
function untilAlone() {
  if (group === undefined) return
  const end = performance.now() + longestTailMs
  while (readFileSync(group.processes, 'utf8').trim().includes('\n')) {
    if (performance.now() > end) throw new Error('a call has left processes behind')
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 0.5)
  }
}

/** The call of one plugin of a chain. `pod`: {id, netns, ifName, runtimeConfig}. */
function callOf({ verb, contender, pod }, plugin, prevResult) {
  const runtimeConfig = Object.fromEntries((plugin.takes ?? []).map((key) => [key, pod.runtimeConfig?.[key]]))
  const conf = {
    cniVersion: contender.cniVersion,
    name: contender.network,
    ...plugin.conf,
    ...(plugin.takes ? { runtimeConfig } : {}),
    ...(prevResult ? { prevResult } : {}),
  }
  const env = {
    PATH: runtimePath,
    CNI_COMMAND: verb,
    CNI_CONTAINERID: pod?.id ?? '',
    CNI_NETNS: pod?.netns ?? '',
    CNI_IFNAME: pod?.ifName ?? '',
    CNI_PATH: contender.path,
    ...contender.env,
  }
  return { file: plugin.file, args: plugin.args ?? [], env, input: verb === 'EMPTY' ? '' : JSON.stringify(conf) }
}

/** The plugins in the order of the verb: a DEL goes backwards (CNI spec 1.1.0, section 3). */
function orderOf({ verb, contender }) {
  return verb === 'DEL' ? contender.plugins.toReversed() : contender.plugins
}

/**
 * A call, or with verb CHURN an ADD, a DEL and an ADD of the same names without a pause. {ms, cpuMs, goneMs, startUs,
 * result}: `ms` until the answer, `goneMs` until the last process has gone, CPU until then; `startUs` of CLOCK_MONOTONIC.
 */
function measure({ verb, ...job }) {
  const cpuBefore = callsCpuMs()
  const [start, startUs] = [performance.now(), Number(process.hrtime.bigint() / 1000n)]
  let result = job.prevResult
  for (const each of verb === 'CHURN' ? ['ADD', 'DEL', 'ADD'] : [verb]) {
    result = runChain({ ...job, verb: each, prevResult: each === 'ADD' ? undefined : result })
  }
  const ms = performance.now() - start
  untilAlone()
  const goneMs = performance.now() - start
  return { ms, goneMs, cpuMs: cpuBefore === undefined ? undefined : callsCpuMs() - cpuBefore, startUs, result }
}

/** Runs the plugins one after the other. Returns the last result. */
function runChain(job) {
  let result = job.prevResult
  for (const plugin of orderOf(job)) {
    const { file, args, env, input } = callOf(job, plugin, result)
    const done = withPipe(input, (stdin, end) => {
      const ended = spawnSync(file, args, { env, stdio: [stdin, 'pipe', 'pipe'] })
      end()
      return ended
    })
    if (done.status !== 0) {
      throw new Error(`${file} ${job.verb}: exit ${done.status ?? done.signal}: ${done.stdout}${done.stderr}`)
    }
    if (job.verb === 'ADD') result = JSON.parse(done.stdout)
  }
  return result
}

function runOne({ file, args, env, input }) {
  return new Promise((resolve, reject) => {
    withPipe(input, (stdin, end) => {
      const child = spawn(file, args, { env, stdio: [stdin, 'pipe', 'pipe'] })
      const printed = []
      child.stdout.on('data', (chunk) => printed.push(chunk))
      child.stderr.on('data', (chunk) => printed.push(chunk))
      child.on('error', reject)
      child.on('close', (code) => {
        end()
        const text = Buffer.concat(printed).toString('utf8')
        code === 0 ? resolve(text) : reject(new Error(`${file}: exit ${code}: ${text}`))
      })
    })
  })
}

async function attachOne(job) {
  const start = performance.now()
  let result
  for (const plugin of orderOf(job)) result = JSON.parse(await runOne(callOf(job, plugin, result)))
  return { ms: performance.now() - start, result }
}

/** ADDs of many pods, `atOnce` at a time. Returns the whole time, each call's time and result, and what failed. */
async function storm({ pods, atOnce, ...job }) {
  const waiting = [...pods]
  const [calls, errors] = [[], []]
  const start = performance.now()
  const lane = async () => {
    for (let pod = waiting.shift(); pod; pod = waiting.shift()) {
      await attachOne({ ...job, verb: 'ADD', pod }).then(
        (call) => calls.push(call),
        (error) => errors.push(error.message),
      )
    }
  }
  await Promise.all(Array.from({ length: atOnce }, lane))
  const ms = performance.now() - start
  untilAlone()
  return { ms, calls, errors }
}

const connected = openConnections()
process.on('message', async (job) => {
  try {
    await connected
    process.send({ done: job.pods ? await storm(job) : measure(job) })
  } catch (error) {
    process.send({ error: error.message })
  }
})
