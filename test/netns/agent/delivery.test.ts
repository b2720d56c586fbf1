// SPDX-License-Identifier: Apache-2.0
// The agent brings its executable to a host that has little more than glibc, tells of a host that cannot run it or lacks
// its tools before a pod fails, and takes everything away again.

import { chmodSync, copyFileSync, existsSync, mkdirSync, readdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { basename, dirname } from 'node:path'
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
  startAgent,
  until,
  withEmptyEtc,
} from '../../support/cluster/cluster.ts'
import { type Host, openHost, trestle } from '../../support/host.ts'

const own = nodeObject('self', { cidrs: ['10.244.1.0/24'], addresses: ['192.0.2.11'] })
const two = nodeObject('two', { cidrs: ['10.244.2.0/24'], addresses: ['192.0.2.12'] })
const bundledNames = ['libgcc_s.so.1', 'libstdc++.so.6']

let host: Host
let files: AgentFiles
let api: ApiServer
/** The root of a host, and the directory of its plugins in it. */
let root: string
let bin: string
const agents: Running[] = []

beforeEach(async () => {
  host = openHost()
  files = agentFiles()
  for (const line of [
    'link set lo up',
    'link add up0 type bridge',
    'link set up0 up',
    'addr add 192.0.2.11/24 dev up0',
  ])
    expect(host.run('ip', line.split(' ')).stderr).toBe('')
  api = await openApiServer(host)
  await api.order({ put: [own, two] })
  root = `${files.root}/host`
  bin = `${root}/opt/cni/bin`
  makeRoot()
})

afterEach(async () => {
  for (const agent of agents.splice(0)) await agent.end('SIGKILL')
  await api.end('SIGKILL')
  // Before anything below it is removed; whatever an agent started there may be at its end.
  execaSync('umount', ['--lazy', `${root}/proc`])
  files.remove()
  host.close()
})

const librariesOf = (file: string) => execaSync('ldd', [file]).stdout.match(/\/\S+/g) ?? []

function addFile(path: string): void {
  mkdirSync(dirname(`${root}${path}`), { recursive: true })
  copyFileSync(path, `${root}${path}`)
}

/** A program of the machine, and its libraries. */
function addProgram(name: string): void {
  const file = execaSync('which', [name]).stdout
  for (const path of [file, ...librariesOf(file)]) if (!existsSync(`${root}${path}`)) addFile(path)
}

/** glibc as the executable needs it, /proc, nft, and the names of the other tools. */
function makeRoot(): void {
  const libraries = librariesOf(trestle)
  const glibc = libraries.filter((path) => !bundledNames.some((name) => path.endsWith(name)))
  expect(glibc.length).toBe(libraries.length - 2)
  for (const path of glibc) addFile(path)
  for (const path of ['proc', 'usr/sbin', 'opt/cni/bin']) mkdirSync(`${root}/${path}`, { recursive: true })
  for (const tool of ['ip', 'tc']) writeFileSync(`${root}/usr/sbin/${tool}`, '', { mode: 0o755 })
  addProgram('nft')
  // The bridge has a MAC of the machine's, not of the container's.
  mkdirSync(`${root}/etc`)
  if (existsSync('/etc/machine-id')) copyFileSync('/etc/machine-id', `${root}/etc/machine-id`)
  chmodSync(`${root}/lib64/ld-linux-x86-64.so.2`, 0o755)
  execaSync('mount', ['--bind', '/proc', `${root}/proc`])
}

/** What an agent leaves that is killed while it writes. */
function leaveTemporary(directory: string): void {
  mkdirSync(directory, { recursive: true })
  // Older than any call; what others keep there stays.
  for (const name of ['.4711.1234567.1', '.keep']) {
    writeFileSync(`${directory}/${name}`, 'half')
    utimesSync(`${directory}/${name}`, 0, 0)
  }
}

function agent(...more: string[]): Running {
  const started = startAgent(host, files, ['--host-root', root, '--bin-dir', bin, ...more], withEmptyEtc)
  agents.push(started)
  return started
}

const onHost = () => execaSync('chroot', [root, '/opt/cni/bin/trestle', 'version'], { reject: false })
const get =
  "fetch('http://127.0.0.1:9917/readyz').then((answer) => answer.text()).then((text) => console.log(text.trim()))"
/** What the agent says of its readiness. */
const readiness = () => host.run(process.execPath, ['-e', get]).stdout

describe('the executable on a host with glibc alone', () => {
  it('runs there with the libraries beside it, which come back when they are removed', async () => {
    for (const directory of [bin, `${files.root}/net.d`]) leaveTemporary(directory)
    const running = agent()
    await running.seen(isReady, 'ready')
    expect(readdirSync(bin).sort()).toEqual(['.keep', ...bundledNames, 'trestle'])
    expect(readdirSync(`${files.root}/net.d`)).toEqual(['.keep', basename(files.conflist)])
    expect(onHost().stdout).toMatch(/^trestle /)
    rmSync(`${bin}/libstdc++.so.6`)
    expect(onHost().stderr).toContain('libstdc++.so.6')
    await until(() => existsSync(`${bin}/libstdc++.so.6`), 'the library')
    expect(onHost().stdout).toMatch(/^trestle /)
  })

  it('does not take the place of one that runs where the host cannot run it, and that is told', async () => {
    rmSync(`${root}/lib64`, { recursive: true })
    writeFileSync(`${bin}/trestle`, 'the version before', { mode: 0o755 })
    const running = agent()
    await running.seen(({ problem }) => problem === 'ProgramFails', 'the problem')
    expect(readdirSync(bin)).toEqual(['trestle'])
    expect(existsSync(files.conflist)).toBe(false)
    await api.seen(({ body }) => (body as { reason?: string })?.reason === 'ProgramFails', 'the event')
    expect(readiness()).toContain('the host cannot run this version')
  })
})

it('a host without nft is told by readiness and event, and has no configuration until it has nft', async () => {
  rmSync(`${root}/usr/sbin/nft`)
  const running = agent('--look', '1')
  await api.seen(({ body }) => (body as { reason?: string })?.reason === 'NoProgram', 'the event')
  expect(readiness()).toContain('the host has no nft')
  expect(existsSync(files.conflist)).toBe(false)
  expect(api.lines.filter(({ method }) => method === 'PATCH')).toEqual([])
  addProgram('nft')
  await running.seen(isReady, 'ready')
  expect(files.configuration().plugins[0].type).toBe('trestle')
})

describe('programs whose files or formats others on the host share', () => {
  /** Words before the agent: in its container are programs of these names that end at once. */
  const withBroken = (...names: readonly string[]) => {
    const broken = `${files.root}/image`
    mkdirSync(broken)
    for (const name of names) writeFileSync(`${broken}/${name}`, '#!/bin/sh\nexit 139\n', { mode: 0o755 })
    return [...withEmptyEtc, 'env', `PATH=${broken}:${process.env['PATH']}`]
  }
  const start = (tracer: readonly string[]) => {
    const options = ['--host-root', root, '--bin-dir', bin]
    const running = startAgent(host, files, options, tracer)
    agents.push(running)
    return running
  }
  const attach = () => {
    const { cniVersion, name, plugins } = files.configuration()
    const added = host.cni('ADD', { cniVersion, name, ...plugins[0] }, { id: 'p', netns: host.pod('p') })
    expect(added.stderr).toBe('')
  }

  it('sets and repairs rules with the nft of the host, whatever that of the image can read', async () => {
    const running = start(withBroken('nft'))
    await running.seen(isReady, 'ready')
    attach()
    const isRepaired = () => running.lines.some(({ message }) => message === 'repaired')
    // The monitor may have to begin first: a table is removed until the agent has heard of it.
    for (let turn = 0; turn < 4 && !isRepaired(); turn++) {
      host.run('nft', ['add', 'table', 'inet', 'trestle'])
      host.run('nft', ['delete', 'table', 'inet', 'trestle'])
      await running.seen(({ message }) => message === 'repaired', 'the repair').catch(() => undefined)
    }
    expect(isRepaired()).toBe(true)
    expect(host.run('nft', ['list', 'table', 'inet', 'trestle']).code).toBe(0)
    await api.order({ put: [nodeObject('three', { cidrs: ['10.244.3.0/24'], addresses: ['192.0.2.13'] })] })
    const peers = () => host.run('nft', ['list', 'table', 'inet', 'trestle']).stdout
    await until(() => peers().includes('10.244.3.0/24'), 'the range of node three in a set')
  })
})

describe('trestle agent --uninstall', () => {
  it('waits for the last pod, then leaves nothing', async () => {
    // Carrier is reported later (net/core/link_watch.c).
    const routes = () => host.run('ip', ['route', 'show']).stdout.replace(/ linkdown/g, '')
    const links = () => host.run('ip', ['-br', 'link']).stdout.replace(/^(\S+).*$/gm, '$1')
    const [before, rules, there] = [routes(), host.run('nft', ['list', 'ruleset']).stdout, links()]
    const running = agent()
    await running.seen(isReady, 'ready')
    await running.end()
    const netns = host.pod('p')
    const { cniVersion, name, plugins } = files.configuration()
    const conf = { cniVersion, name, ...plugins[0] }
    expect(host.cni('ADD', conf, { netns }).stderr).toBe('')
    expect(routes()).toContain('proto 116')

    const remover = agent('--uninstall')
    await remover.seen(({ message }) => String(message).startsWith('pods are attached'), 'the pod')
    expect(readiness()).toContain('pods are attached')
    expect(existsSync(files.conflist) && existsSync(`${bin}/trestle`)).toBe(true)
    expect(host.cni('DEL', conf, { netns }).stderr).toBe('')

    await remover.seen(({ message }) => String(message).startsWith('uninstalled'), 'the end')
    expect(readiness()).toBe('ok\n')
    expect(existsSync(files.conflist)).toBe(false)
    expect(readdirSync(bin)).toEqual([])
    expect(routes()).toBe(before)
    expect(links()).toBe(there)
    expect(host.run('nft', ['list', 'ruleset']).stdout).toBe(rules)
    expect(existsSync(host.stateDir) ? readdirSync(host.stateDir) : []).toEqual([])
    expect(await remover.end()).toBe(0)
  })

  it.each(['rw', 'ro'])(
    'can do without removing a directory that is mounted in a container, whose root is %s',
    async (mode) => {
      const above = `${files.root}/run`
      const inContainer = { ...host, stateDir: `${above}/trestle` }
      mkdirSync(above)
      execaSync('mount', ['-t', 'tmpfs', 'tmpfs', above])
      mkdirSync(inContainer.stateDir)
      execaSync('mount', ['--bind', host.stateDir, inContainer.stateDir])
      execaSync('mount', ['-o', `remount,bind,${mode}`, above])
      try {
        const options = ['--host-root', root, '--bin-dir', bin]
        const running = startAgent(inContainer, files, options)
        agents.push(running)
        await running.seen(isReady, 'ready')
        await running.end()
        const remover = startAgent(inContainer, files, [...options, '--uninstall'])
        agents.push(remover)
        await remover.seen(({ message }) => String(message).startsWith('uninstalled'), 'the end')
        expect(readdirSync(host.stateDir)).toEqual([])
        await remover.end()
      } finally {
        execaSync('umount', ['--recursive', '--lazy', above])
      }
    },
  )

  it('leaves a library that is not its own, and ends by itself where it serves no health', async () => {
    const running = agent()
    await running.seen(isReady, 'ready')
    await running.end()
    rmSync(`${bin}/libstdc++.so.6`)
    writeFileSync(`${bin}/libstdc++.so.6`, 'of somebody else')
    const remover = agent('--uninstall', '--listen', 'off')
    const code = await new Promise((resolve) => remover.child.once('close', resolve))
    expect(code).toBe(0)
    expect(readdirSync(bin)).toEqual(['libstdc++.so.6'])
  })
})
