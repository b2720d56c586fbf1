// SPDX-License-Identifier: Apache-2.0
// A private machine with a containerd of its own for one contender: test/e2e/lab makes it.
import { execFileSync, spawn } from 'node:child_process'
import { copyFileSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { openCri } from '../../../src-before/cli/cri/client.ts'
import { runtimePath, trackingRules } from '../surroundings.mjs'

const lab = resolve(import.meta.dirname, '../../../test/e2e/lab')
const holder = join(import.meta.dirname, 'hold-connections.mjs')
const metricsAt = '127.0.0.1:1338'
const patienceMs = 60_000

/**
 * Starts a machine whose containerd uses `conflist`. `peers`: what scripts/peers.sh made; `trestle`: the executable.
 * Returns {cri, networkMs, close}: `networkMs` is what containerd has spent on setting networks up and on taking
 * them down so far, in ms, {up, down}. Throws when the machine does not come up, with what it printed.
 */
export async function openContainerd({ conflist, peers, trestle }) {
  const dir = mkdtempSync(join(tmpdir(), 'trestle-bench-'))
  const [bin, conf] = [join(dir, 'root/opt/cni/bin'), join(dir, 'root/etc/cni/net.d')]
  for (const each of [bin, conf]) mkdirSync(each, { recursive: true })
  for (const plugin of readdirSync(join(peers, 'cni'))) copyFileSync(join(peers, 'cni', plugin), join(bin, plugin))
  copyFileSync(trestle, join(bin, 'trestle'))
  writeFileSync(join(conf, '10-bench.conflist'), JSON.stringify(conflist))
  // A contender's database is in /var/lib: nothing of the machine's is to be written to.
  const script = 'mount -t tmpfs tmpfs /var/lib && exec bash "$@"'
  const words = [join(lab, 'enter.sh'), dir, 'bash', '-c', script, 'bash', join(lab, 'containerd-up.sh'), dir, peers]
  const machine = spawn('bash', words, {
    env: { ...process.env, PATH: runtimePath, LC_ALL: 'C', LAB_METRICS: metricsAt },
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  const ended = new Promise((done) => machine.once('close', done))
  let connections
  const close = async () => {
    connections?.stdin.end()
    machine.stdin.end()
    await ended
    rmSync(dir, { recursive: true, force: true })
  }
  try {
    await printed(machine, 'containerd ready')
    const pid = readFileSync(join(dir, 'pid'), 'utf8').trim()
    const inside = ['--target', pid, '--net', '--mount', '--pid', '--uts', '--ipc', '--cgroup', '--wd=/', '--']
    const exec = (file, args) => execFileSync('nsenter', [...inside, file, ...args], { encoding: 'utf8' })
    execFileSync('nsenter', [...inside, 'nft', '-f', '-'], { input: trackingRules })
    connections = spawn('nsenter', ['--target', pid, '--net', '--', process.execPath, holder], { stdio: 'pipe' })
    await printed(connections, 'connections open')
    const cri = openCri(join(dir, 'containerd.sock'), { timeoutMs: patienceMs })
    await networkIsReady(cri)
    const closeAll = async () => {
      cri.close()
      await close()
    }
    return { cri, networkMs: () => readNetworkMs(exec), close: closeAll }
  } catch (error) {
    await close()
    throw error
  }
}

/** Resolves when the process prints `word`; throws when it ends before. */
function printed(child, word) {
  return new Promise((resolve, reject) => {
    let text = ''
    const look = (chunk) => {
      text += chunk
      if (text.includes(word)) resolve()
    }
    child.stdout.on('data', look)
    child.stderr.on('data', look)
    child.once('close', (code) => reject(new Error(`the machine with containerd ended with ${code}: ${text}`)))
  })
}

/** containerd reads the directory of networks when it starts, and again when that changes. */
async function networkIsReady(cri) {
  for (const end = performance.now() + patienceMs; ; ) {
    const { status } = await cri.call('Status', { verbose: false })
    const network = status?.conditions.find(({ type }) => type === 'NetworkReady')
    if (network?.status) return
    if (performance.now() > end) throw new Error(`containerd's network is not ready: ${network?.message}`)
    await sleep(50)
  }
}

/** From containerd's own metrics, in seconds there (internal/cri/server/metrics.go). */
function readNetworkMs(exec) {
  const [host, port] = metricsAt.split(':')
  const get = `exec 3<>/dev/tcp/${host}/${port}; printf 'GET /v1/metrics HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3`
  const text = exec('bash', ['-c', get])
  const of = (operation) => {
    const name = 'containerd_cri_network_plugin_operations_duration_seconds_seconds_sum'
    const line = text.split('\n').find((each) => each.startsWith(`${name}{operation_type="${operation}"}`))
    // Absent until the first.
    return Number(line?.split(' ').at(-1) ?? 0) * 1000
  }
  return { up: of('set_up_pod'), down: of('tear_down_pod') }
}
