// SPDX-License-Identifier: Apache-2.0
// `trestle bundle`: one archive for a bug report, with secrets masked.

import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { CniError } from '../cni/errors.ts'
import { toolPath } from '../process/runner.ts'
import { keptRecords } from '../recording/ring.ts'
import { masked } from '../recording/secrets.ts'
import { namesIn } from '../state/files.ts'
import { stateRoot } from '../state/layout.ts'
import { type Command, exitCode, type Input } from './command.ts'
import { isConfigurationName } from './config-directory.ts'
import { failureOf } from './failure.ts'
import { orElse } from './if-there.ts'
import { type Progress, print, withProgress } from './output.ts'
import { nodeRuntimes } from './runtimes/node-runtimes.ts'
import { defaultConfDir } from './runtimes/runtime-settings.ts'
import { requireRoot, thisProgram } from './self.ts'

export const bundleCommand: Command = {
  name: 'bundle',
  words: '[FILE]',
  maxWords: 1,
  summary: 'write one archive for a bug report, with secrets masked',
  description: [
    'Writes a tar.gz with what a bug report needs; INDEX in it says why each file is there. Secrets are masked: look',
    'at it before you publish it. FILE must not exist; default: trestle-bundle-TIME.tar.gz here.',
  ].join('\n'),
  options: {},
  examples: ['trestle bundle', 'trestle bundle /root/report.tar.gz'],
  run,
}

/** A file of the archive, and why it is there. */
interface Part {
  readonly name: string
  readonly why: string
  readonly text: string
}

async function run(input: Input): Promise<number> {
  requireRoot('bundle', 'it reads rules, records and state')
  const top = `trestle-bundle-${new Date().toISOString().replaceAll(/[:.]/g, '-')}`
  const file = input.words[0] ?? `${top}.tar.gz`
  const folder = mkdtempSync(join(tmpdir(), 'trestle-bundle-'))
  try {
    const found = await withProgress(input.isJson, readParts)
    const index = found.map(({ name, why }) => `${name}\n    ${why}\n`).join('')
    const head = { name: 'INDEX', why: 'what each file is', text: `${top}, secrets masked\n\n${index}` }
    const parts = [head, ...found]
    for (const { name, text } of parts) {
      mkdirSync(dirname(join(folder, top, name)), { recursive: true })
      writeFileSync(join(folder, top, name), text)
    }
    const packed = spawnSync('tar', ['-czf', '-', '-C', folder, top], { maxBuffer: 512 * 1024 * 1024 })
    if (packed.status !== 0) throw unwritable(file, packed.error ?? new Error(packed.stderr.toString()))
    // A file that is there is not replaced.
    writeFileSync(file, packed.stdout, { flag: 'wx', mode: 0o600 })
    const text = `${file}: ${parts.length} files, ${packed.stdout.length} bytes; INDEX says why each is there\n`
    const document = { file, files: parts.map(({ name, why }) => ({ name, why })) }
    return print(input, { command: 'bundle', document, text, code: exitCode.fine })
  } catch (cause) {
    throw cause instanceof CniError ? cause : unwritable(file, cause)
  } finally {
    rmSync(folder, { recursive: true })
  }
}

/** The error for a file of a person that cannot be written. */
export function unwritable(file: string, cause: unknown): CniError {
  const { code, message } = cause as NodeJS.ErrnoException
  const details = code === 'EEXIST' ? 'name a file that is not there yet' : 'name a file that can be written'
  return failureOf('output-unwritable', `cannot write ${file}: ${code ?? message}`, { details, cause })
}

const mostText = 4 * 1024 * 1024
const toolMs = 60_000
const mostRecords = 20

async function readParts(progress: Progress): Promise<readonly Part[]> {
  const { file, args } = thisProgram()
  const own = (...words: string[]) => [file, ...args, ...words]
  const tools: readonly (readonly [name: string, why: string, command: readonly string[]])[] = [
    ['version.txt', 'which build this is', own('version')],
    ['kernel.txt', 'the kernel', ['uname', '-a']],
    ['ip-version.txt', 'behaviour of ip differs by version', ['ip', '-V']],
    ['nft-version.txt', 'behaviour of nft differs by version', ['nft', '--version']],
    ['doctor.txt', 'what trestle itself finds wrong', own('doctor')],
    ['lint.txt', 'which configuration each runtime uses, and its faults', own('lint')],
    ['ps.txt', 'who has which address', own('ps')],
    ['last.txt', 'the newest failed call with its cause', own('last')],
    ['records.txt', 'the calls that were kept or recorded', own('record', 'list')],
    ['links.txt', 'the links and addresses of the node', ['ip', '-d', 'address', 'show']],
    ['routes.txt', 'the routes of all tables', ['ip', '-4', 'route', 'show', 'table', 'all']],
    ['ip-rules.txt', 'which table is asked first', ['ip', 'rule', 'show']],
    ['routes6.txt', 'the same for IPv6', ['ip', '-6', 'route', 'show', 'table', 'all']],
    ['nft.txt', 'all rules: another table may drop what trestle accepts', ['nft', 'list', 'ruleset']],
    ['state.txt', 'a listing of the state directory', ['ls', '-lR', stateRoot()]],
  ]
  const parts: Part[] = []
  for (const [name, why, command] of tools) {
    progress(name)
    parts.push({ name, why, text: masked(outputOf(command)) })
  }
  const directories = new Set([defaultConfDir, ...(await nodeRuntimes()).map(({ settings }) => settings.confDir)])
  for (const [at, directory] of [...directories].entries()) {
    for (const name of namesIn(directory).filter(isConfigurationName)) {
      const archived = `net.d${at === 0 ? '' : `-${at + 1}`}/${name.replace(/[^\w.-]/g, '_')}`
      const text = masked(textOf(`${directory}/${name}`))
      parts.push({ name: archived, why: `a configuration of a network, in ${directory}`, text })
    }
  }
  // Records are masked as they are written; once more, their own words would be.
  for (const { id, ring, path } of keptRecords(stateRoot()).slice(0, mostRecords)) {
    parts.push({ name: `${ring}/${id}.jsonl`, why: 'a call, for `trestle replay`', text: textOf(path) })
  }
  return parts
}

function outputOf([file = '', ...args]: readonly string[]): string {
  const env = { PATH: toolPath(), LC_ALL: 'C', TRESTLE_STATE_DIR: stateRoot() }
  const most = { encoding: 'utf8', timeout: toolMs, maxBuffer: 4 * mostText } as const
  const { stdout, stderr, error } = spawnSync(file, args, { ...most, env })
  return `${stdout ?? ''}${stderr ?? ''}${error === undefined ? '' : `${error.message}\n`}`.slice(0, mostText)
}

/** A file that cannot be read says so in its place: the others are wanted all the same. A pipe is not waited for. */
function textOf(path: string): string {
  if (!statSync(path, { throwIfNoEntry: false })?.isFile()) return 'could not be read: no regular file\n'
  return orElse(() => readFileSync(path, 'utf8').slice(-mostText), 'could not be read\n')
}
