// SPDX-License-Identifier: Apache-2.0
// Who is measured: which executables, with which configuration. Executables are copied first, as they come to a node:
// how a file lies in the page cache moves its start by 1-2 ms.
import { copyFileSync, existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs'
import { homedir } from 'node:os'
import { join, resolve } from 'node:path'
import { bandwidth } from './node.mjs'

const upstream = ['bridge', 'host-local', 'portmap', 'firewall', 'bandwidth', 'tuning']
const cache = process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache')

/** Where scripts/peers.sh puts what it builds. */
export const peersCache = process.env.TRESTLE_PEERS ?? join(cache, 'trestle-peers')
const peers = join(peersCache, 'cni')

/**
 * Copies everything there is to `scratch`/bin. Returns {has(name), missing}: `missing` says for each absent
 * executable why. Throws when our own are not built.
 */
export function copyExecutables(scratch) {
  const bin = join(scratch, 'bin')
  mkdirSync(bin)
  const missing = new Map()
  const sources = {
    trestle: resolve(process.env.CNI_BIN ?? 'dist/trestle'),
    empty: resolve('dist/empty'),
    ...Object.fromEntries(upstream.map((name) => [name, firstThere([join(peers, name), `/usr/lib/cni/${name}`])])),
    'cni-kindnet': firstThere([join(peers, 'cni-kindnet')]),
  }
  for (const [name, from] of Object.entries(sources)) {
    if (from !== undefined && existsSync(from)) copyWarm(from, join(bin, name))
    else missing.set(name, `${name} is not in ${peers}${upstream.includes(name) ? ' or /usr/lib/cni' : ''}`)
  }
  if (missing.has('trestle') || missing.has('empty')) throw new Error('bench: run npm run build -- --empty first')
  const has = (name) => !missing.has(name)
  return { bin, has, missing, file: (name) => join(bin, name) }
}

function firstThere(paths) {
  return paths.find((path) => existsSync(path))
}

function copyWarm(from, to) {
  copyFileSync(from, to)
  readFileSync(to) // so that no first call reads the disk
}

const subnet = '10.88.0.0/16'
const ipamOf = (dataDir) => ({ type: 'host-local', dataDir, ranges: [[{ subnet }]] })
const bridgeKeys = { bridge: 'bench0', isGateway: true, isDefaultGateway: true }
const sysctl = { 'net.ipv4.conf.all.log_martians': '1' }

/** trestle with bridge, addresses and default route; `more`: further keys, `takes`: capabilities. */
export function trestle({ file }, more = {}, takes = undefined) {
  const conf = (state) => ({ type: 'trestle', ...bridgeKeys, ipam: ipamOf(`${state}/none`), ...more })
  return {
    name: 'trestle',
    network: 'bench',
    cniVersion: '1.1.0',
    at: (state) => ({
      env: { TRESTLE_STATE_DIR: join(state, 'run') },
      plugins: [{ file: file('trestle'), conf: conf(state), takes }],
    }),
  }
}

/** The upstream bridge with host-local. `keys`: further ones of the bridge; `after`: the plugins behind it. */
export function upstreamChain({ file }, name, { keys = {}, after = [] } = {}) {
  const rest = after.map(({ takes, ...conf }) => ({ file: file(conf.type), conf, takes }))
  const first = (state) => ({ type: 'bridge', ...bridgeKeys, ipam: ipamOf(join(state, 'ipam')), ...keys })
  return {
    name,
    network: 'bench',
    cniVersion: '1.0.0',
    at: (state) => ({ env: {}, plugins: [{ file: file('bridge'), conf: first(state) }, ...rest] }),
  }
}

/** The whole network in one plugin. */
export function wholeTrestle(found) {
  const features = { ipMasq: true, hairpinMode: true, portmap: {}, firewall: {}, bandwidth, tuning: { sysctl } }
  return trestle(found, features, ['portMappings'])
}

/** The same in mode ptp, as the agent writes it with a sysctl in its template (src/agent/configuration.ts). */
export function wholeRouted({ file }) {
  const conf = { type: 'trestle', mode: 'ptp', podcidr: subnet, tuning: { sysctl }, firewall: { hostAccept: 'auto' } }
  const plugin = { file: file('trestle'), conf, takes: ['portMappings', 'bandwidth'] }
  return {
    name: 'trestle, ptp',
    network: 'bench',
    cniVersion: '1.1.0',
    at: (state) => ({ env: { TRESTLE_STATE_DIR: join(state, 'run') }, plugins: [plugin] }),
  }
}

/** The whole network as the upstream chain, with one of its backends ('iptables' or 'nftables'). */
export function wholeReference(found, backend) {
  const after = [
    { type: 'portmap', backend, snat: true, takes: ['portMappings'] },
    // It has no nftables of its own.
    { type: 'firewall', backend: 'iptables' },
    { type: 'bandwidth', ...bandwidth },
    { type: 'tuning', sysctl },
  ]
  const keys = { ipMasq: true, hairpinMode: true, ipMasqBackend: backend }
  return upstreamChain(found, `upstream chain, ${backend}`, { keys, after })
}

/** kindnet's plugin: address, routes and one host port. Its database is in /var/lib, which is private here. */
export function kindnet({ file }) {
  const plugin = { file: file('cni-kindnet'), conf: { type: 'cni-kindnet', ranges: [subnet] }, takes: ['portMappings'] }
  return {
    name: 'cni-kindnet',
    network: 'kindnet',
    cniVersion: '0.4.0',
    startFresh: () => rmSync('/var/lib/cni-kindnet', { recursive: true, force: true }),
    at: () => ({ env: {}, plugins: [plugin] }),
  }
}

/** The configuration list of a contender, for a runtime: its state is where it is by default. */
export function conflistOf({ network, cniVersion, at }) {
  const { plugins } = at('/var/lib/cni/bench')
  const listed = plugins.map(({ conf, takes = [] }) => ({
    ...conf,
    ...(takes.length > 0 && { capabilities: Object.fromEntries(takes.map((key) => [key, true])) }),
  }))
  return { cniVersion, name: network, plugins: listed }
}

/** The empty executable, called like a plugin. */
export function empty({ file }) {
  return { name: 'empty', network: '', cniVersion: '', at: () => ({ env: {}, plugins: [{ file: file('empty') }] }) }
}
