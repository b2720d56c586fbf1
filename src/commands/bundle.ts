// SPDX-License-Identifier: Apache-2.0
// `trestle bundle`: one archive for a bug report, made in this process, with secrets masked.

import { spawnSync } from 'node:child_process'
import { closeSync, constants, openSync, readFileSync, statSync } from 'node:fs'
import { gzipSync } from 'node:zlib'
import { toolPath } from '../process/runner.ts'
import { writeAll } from '../process/stdio.ts'
import { namesIn } from '../state/files.ts'
import { stateRoot } from '../state/layout.ts'
import { type Command, exitCode, type Input } from './command.ts'
import { failureOf } from './failure.ts'
import { print, withProgress } from './output.ts'
import { keptRecords } from './record/ring.ts'
import { masked } from './record/secrets.ts'
import { type NodeRuntime, nodeRuntimes } from './runtimes/node-runtimes.ts'
import { defaultConfDir } from './runtimes/runtime-settings.ts'
import { requireRoot, thisProgram } from './self.ts'

export const bundleCommand: Command = {
  name: 'bundle',
  words: '[FILE]',
  maxWords: 1,
  summary: 'write one archive for a bug report, with secrets masked',
  description: [
    'Writes a tar.gz with what a bug report needs: doctor and lint, the newest records and failed calls, links,',
    'routes, rules, versions and CNI configurations. INDEX in it says why each file is there. Secrets are',
    'masked; look at it before you publish it. FILE must not exist; default: trestle-bundle-TIME.tar.gz here.',
  ].join('\n'),
  options: {},
  examples: ['trestle bundle', 'trestle bundle /root/report.tar.gz'],
  run,
}

/** A file of the archive, and why it is there. */
interface Part {
  readonly name: string
  readonly why: string
  readonly read: () => string
  /** Records are masked as they are written; once more, their own words would be. */
  readonly isMasked?: true
}

async function run(input: Input): Promise<number> {
  requireRoot('bundle', 'it reads rules, records and state')
  const now = new Date().toISOString().replaceAll(/[:.]/g, '-')
  const file = input.words[0] ?? `trestle-bundle-${now}.tar.gz`
  const fd = create(file)
  const runtimes = await nodeRuntimes()
  const files = await withProgress(input.isJson, async (progress) =>
    parts(runtimes).map(({ name, why, read, isMasked }) => {
      progress(name)
      return { name, why, text: isMasked ? textOf(read) : masked(textOf(read)) }
    }),
  )
  const index = files.map(({ name, why }) => `${name}\n    ${why}\n`).join('')
  const all = [{ name: 'INDEX', text: `trestle bundle of ${now}, secrets masked\n\n${index}` }, ...files]
  writeAll(fd, gzipSync(tar(`trestle-bundle-${now}`, all)))
  closeSync(fd)
  const text = `${file}: ${all.length} files, ${statSync(file).size} bytes; INDEX says why each is there\n`
  const document = { file, files: files.map(({ name, why }) => ({ name, why })) }
  return print(input, { command: 'bundle', document, text, code: exitCode.fine })
}

function create(file: string): number {
  try {
    return openSync(file, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW, 0o600)
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    const details = code === 'EEXIST' ? 'name a file that is not there yet' : 'name a file that can be written'
    throw failureOf('output-unwritable', `cannot write ${file}: ${code}`, { details, cause })
  }
}

/** A part that cannot be read says so in its place: the others are wanted all the same. */
function textOf(read: () => string): string {
  try {
    return read().slice(0, mostText)
  } catch (error) {
    return `could not be read: ${(error as Error).message}\n`
  }
}

const mostText = 4 * 1024 * 1024
const toolMs = 60_000
const mostRecords = 20

function parts(runtimes: readonly NodeRuntime[]): readonly Part[] {
  const { file, args } = thisProgram()
  const own = (...words: string[]) => tool(file, [...args, ...words])
  return [
    { name: 'version.txt', why: 'which build this is', read: own('version') },
    { name: 'tools.txt', why: 'behaviour of ip and nft differs by version', read: versions },
    { name: 'doctor.txt', why: 'what trestle itself finds wrong', read: own('doctor') },
    { name: 'lint.txt', why: 'which configuration each runtime uses, and its faults', read: own('lint') },
    { name: 'last.txt', why: 'the newest failed call with its cause', read: own('last') },
    { name: 'records.txt', why: 'the calls that were kept or recorded', read: own('record', 'list') },
    { name: 'links.txt', why: 'the links and addresses of the node', read: tool('ip', ['-d', 'address', 'show']) },
    { name: 'routes.txt', why: 'the routes of all tables', read: tool('ip', ['route', 'show', 'table', 'all']) },
    { name: 'routes6.txt', why: 'the same for IPv6', read: tool('ip', ['-6', 'route', 'show', 'table', 'all']) },
    {
      name: 'nft.txt',
      why: 'all rules: another table may drop what trestle accepts',
      read: tool('nft', ['list', 'ruleset']),
    },
    { name: 'state.txt', why: 'the files of the state directory', read: tool('ls', ['-lR', stateRoot()]) },
    ...configurations(runtimes),
    ...records(),
  ]
}

/** Of the directories that runtimes read, whose own names are too long for the archive. */
function configurations(runtimes: readonly NodeRuntime[]): readonly Part[] {
  const read = runtimes.map(({ root, settings }) => `${root}${settings.confDir}`)
  return [...new Set([defaultConfDir, ...read])].flatMap((directory, at) => {
    const names = namesIn(directory).filter((name) => /\.(?:conf|conflist|json)$/.test(name))
    return names.map((name) => ({
      name: `${at === 0 ? 'net.d' : `net.d-${at + 1}`}/${name.replace(/[^\w.-]/g, '_').slice(-mostName)}`,
      why: `a configuration of a network, in ${directory}`,
      read: () => endOf(`${directory}/${name}`),
    }))
  })
}

function records(): readonly Part[] {
  return keptRecords(stateRoot())
    .slice(0, mostRecords)
    .map(({ id, ring, path }) => {
      const why =
        ring === 'failures' ? 'a call that failed, for `trestle replay`' : 'a recorded call, for `trestle replay`'
      return { name: `${ring}/${id}.jsonl`, why, read: () => endOf(path), isMasked: true }
    })
}

function endOf(path: string): string {
  return readFileSync(path, {
    encoding: 'utf8',
    flag: (constants.O_RDONLY | constants.O_NONBLOCK) as unknown as string,
  }).slice(-mostText)
}

function versions(): string {
  const asked = [
    ['uname', '-a'],
    ['ip', '-V'],
    ['nft', '--version'],
    ['tc', '-V'],
    ['containerd', '--version'],
    ['crio', '--version'],
  ]
  return asked.map(([file = '', ...args]) => `$ ${file} ${args.join(' ')}\n${tool(file, args)()}`).join('')
}

function tool(file: string, args: readonly string[]): () => string {
  return () => {
    const env = { PATH: toolPath(), LC_ALL: 'C', TRESTLE_STATE_DIR: stateRoot() }
    const most = { encoding: 'utf8', timeout: toolMs, maxBuffer: 4 * mostText } as const
    const { stdout, stderr, error } = spawnSync(file, args, { ...most, env })
    return `${stdout ?? ''}${stderr ?? ''}${error === undefined ? '' : `${error.message}\n`}`
  }
}

/** A file of the archive, which is a tar (POSIX.1-1988, ustar): a node may have no tar. */
interface ArchivedFile {
  readonly name: string
  readonly text: string
}

const blockBytes = 512

/** Longest name of a configuration: ustar has 100 characters of ASCII for a name below the folder. */
const mostName = 90

function tar(folder: string, files: readonly ArchivedFile[]): Buffer {
  const timeS = Math.floor(Date.now() / 1000)
  const parts = files.flatMap(({ name, text }) => {
    const data = Buffer.from(text)
    return [headerOf({ folder, name, bytes: data.length, timeS }), data, Buffer.alloc(-data.length & (blockBytes - 1))]
  })
  return Buffer.concat([...parts, Buffer.alloc(2 * blockBytes)])
}

function headerOf(file: { folder: string; name: string; bytes: number; timeS: number }): Buffer {
  const { folder, name, bytes, timeS } = file
  const header = Buffer.alloc(blockBytes)
  const octal = (value: number, at: number, length: number) =>
    header.write(`${value.toString(8).padStart(length - 1, '0')}\0`, at, 'latin1')
  header.write(name.slice(0, 100), 0, 'latin1')
  octal(0o600, 100, 8)
  octal(0, 108, 8)
  octal(0, 116, 8)
  octal(bytes, 124, 12)
  octal(timeS, 136, 12)
  header.write('0ustar\x0000', 156, 'latin1')
  header.copyWithin(257, 157, 165)
  header.fill(0, 157, 257)
  header.write(folder, 345, 'latin1')
  // The sum counts its own field as blanks.
  header.fill(' ', 148, 156)
  const sum = header.reduce((total, byte) => total + byte, 0)
  header.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1')
  return header
}
