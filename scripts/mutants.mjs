// SPDX-License-Identifier: Apache-2.0
// Do the tests see what breaks? Puts every mutant of test/mutants/ behind a switch into a copy of the tree, builds that
// once, and for each mutant switches it on, runs the one test that is named, and wants it red. All these tests run on the
// copy without a mutant first: a test that is red there catches nothing. The checkout itself is not touched. Needs root
// for all but unit tests.
// usage: npm run mutants -- [--only PATTERN]
//   --only PATTERN   the mutants whose table, name, module or test matches this regular expression
// At the end those that no test caught; last line: the counts. Exit code 1 when a mutant survived or could not be judged,
// or none matches, 2 on a usage error.
import { spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { basename, dirname, join, relative } from 'node:path'
import { parseArgs } from 'node:util'
import { buildSync } from 'esbuild'

const checkout = join(import.meta.dirname, '..')
const tables = join(checkout, 'test/mutants')
// For a loaded machine: on a quiet one the longest test takes 72 seconds, all mutants together eleven minutes.
const [testMs, soundMs] = [600_000, 2_400_000]

/** A copy of the tree as it is now. */
function copyTree() {
  const tree = mkdtempSync(join(tmpdir(), 'trestle-mutants-'))
  const left = new Set(['.git', 'dist', 'node_modules'])
  const filter = (path) => !left.has(relative(checkout, path))
  cpSync(checkout, tree, { recursive: true, verbatimSymlinks: true, filter })
  // Half a gigabyte: hard links where the two are on one file system. Caches are the copy's own.
  const [from, to] = [join(checkout, 'node_modules'), join(tree, 'node_modules')]
  if (spawnSync('cp', ['-al', from, to]).status !== 0) {
    rmSync(to, { recursive: true, force: true })
    cpSync(from, to, { recursive: true, verbatimSymlinks: true })
  }
  for (const cache of ['.vite', '.vite-temp', '.vitest-cache'])
    rmSync(join(to, cache), { recursive: true, force: true })
  return tree
}

/** Every mutant, with its table and the project of its test. The tables are one script in the copy, for its switch. */
function readMutants(tree) {
  const names = readdirSync(tables).filter((name) => name !== 'mutant.ts')
  const contents = names.map((name) => `export { mutants as ${basename(name, '.ts')} } from './${name}'`).join('\n')
  const outfile = join(tree, 'mutants.cjs')
  buildSync({ stdin: { contents, resolveDir: tables }, bundle: true, platform: 'node', outfile })
  return Object.entries(createRequire(outfile)(outfile)).flatMap(([table, mutants]) =>
    mutants.map((mutant) => ({ table, project: mutant.caughtBy.file.split('/')[1], ...mutant })),
  )
}

/**
 * The copy's switch: a file that has the name of the mutant that is on. Each process reads it with the first call of a
 * function that some mutant wraps, and not while the start-up snapshot is made.
 */
const switchText = (tree) => `import { readFileSync } from 'node:fs'
import { startupSnapshot } from 'node:v8'
let on
function read() {
  const name = readFileSync('${tree}/mutant', 'utf8')
  if (name === '') return {}
  const tables = {}
  new Function('module', 'require', readFileSync('${tree}/mutants.cjs', 'utf8'))(tables, process.getBuiltinModule)
  return Object.values(tables.exports).flat().find((each) => each.name === name)
}
export function chosen(sound, module, name) {
  if (startupSnapshot.isBuildingSnapshot()) return sound
  on ??= read()
  return on.module === module && on.wraps === name ? on.by(sound) : sound
}
`

/** Puts the switch into the copy: each function that a mutant wraps has another name there, and is called through it. */
function putSwitch(tree, mutants) {
  writeFileSync(join(tree, 'mutant'), '')
  writeFileSync(join(tree, 'src/switch.ts'), switchText(tree))
  for (const [module, own] of Map.groupBy(mutants, (mutant) => mutant.module)) {
    const path = join(tree, module)
    let text = `${readFileSync(path, 'utf8')}\nimport { chosen } from '${relative(dirname(module), 'src/switch.ts')}'\n`
    for (const name of new Set(own.map(({ wraps }) => wraps))) {
      const head = new RegExp(`^export ((?:async )?function\\*? )${name}\\b`, 'm')
      if (!head.test(text)) throw new Error(`${module} exports no function ${name}`)
      const call = `chosen(${name}_sound, '${module}', '${name}')(...args)`
      text = `${text.replace(head, `$1${name}_sound`)}export function ${name}(...args) {\n  return ${call}\n}\n`
    }
    writeFileSync(path, text)
  }
}

function inTree(tree, limitMs, args) {
  const env = { ...process.env, NO_COLOR: '1' }
  delete env.FORCE_COLOR
  const { status, stdout, stderr } = spawnSync('npm', ['run', '-s', ...args], {
    cwd: tree,
    env,
    encoding: 'utf8',
    timeout: limitMs,
    killSignal: 'SIGKILL',
    maxBuffer: 1 << 28,
  })
  return { code: status, output: `${stdout}${stderr}` }
}

/**
 * Tests by their names. `red`: it failed, or none of them ended in time. `green`: it passed. `unknown`: no test of that
 * name ran. The output says why.
 */
function runTests(tree, limitMs, project, tests) {
  const report = join(tree, 'mutant-report.json')
  rmSync(report, { force: true })
  const patterns = tests.map(({ test }) =>
    test.replace(/[.*+?^${}()|[\]\\]/g, '\\$&').replace(/%[sdifjo]|\\\$[\w.]+/g, '.*'),
  )
  const reporters = ['--reporter=default', '--reporter=json', `--outputFile.json=${report}`]
  const files = new Set(tests.map(({ file }) => file))
  const words = [`test:${project}`, '--', ...reporters, '-t', patterns.join('|'), ...files]
  const { code, output } = inTree(tree, limitMs, words)
  const ran = existsSync(report) ? JSON.parse(readFileSync(report, 'utf8')).testResults : []
  const colours = tests.map(({ file }, at) => {
    if (!existsSync(report)) return code === null ? 'red' : 'unknown'
    const results = ran.filter(({ name }) => name === join(tree, file)).flatMap((each) => each.assertionResults)
    const own = results.filter(({ fullName }) => new RegExp(patterns[at]).test(fullName)).map(({ status }) => status)
    return own.includes('failed') ? 'red' : own.includes('passed') ? 'green' : 'unknown'
  })
  return { colours, output }
}

/** The tests that are not green without a mutant, as `FILE: TEST`: what they catch means nothing. */
function unsoundTests(tree, mutants) {
  const unsound = new Set()
  for (const [project, own] of Map.groupBy(mutants, (mutant) => mutant.project)) {
    const tests = [...new Map(own.map(({ caughtBy }) => [keyOf(caughtBy), caughtBy])).values()]
    const { colours, output } = runTests(tree, soundMs, project, tests)
    for (const [at, test] of tests.entries()) if (colours[at] !== 'green') unsound.add(keyOf(test))
    if (unsound.size > 0) console.log(`not green without a mutant:\n${[...unsound].join('\n')}\n${tail(output)}`)
  }
  return unsound
}

const keyOf = ({ file, test }) => `${file}: ${test}`
const tail = (output) => output.split('\n').slice(-25).join('\n')

function readPattern() {
  try {
    return new RegExp(parseArgs({ options: { only: { type: 'string', default: '' } } }).values.only)
  } catch (error) {
    console.error(`mutants: ${error.message}`)
    process.exit(2)
  }
}

const only = readPattern()
const tree = copyTree()
process.on('exit', () => rmSync(tree, { recursive: true, force: true }))
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => process.exit(130))
const all = readMutants(tree)
putSwitch(tree, all)
const mutants = all.filter(({ table, name, module, caughtBy }) =>
  [table, name, module, keyOf(caughtBy)].some((text) => only.test(text)),
)
if (mutants.some(({ project }) => project !== 'unit')) {
  const { code, output } = inTree(tree, testMs, ['build'])
  if (code !== 0) throw new Error(`the copy does not build:\n${output}`)
}
const unsound = unsoundTests(tree, mutants)
const counts = { caught: 0, survived: 0, 'not judged': 0 }
const missed = []
for (const { table, name, project, caughtBy } of mutants) {
  const start = performance.now()
  writeFileSync(join(tree, 'mutant'), name)
  const { colours, output } = unsound.has(keyOf(caughtBy))
    ? { colours: ['unknown'], output: 'its test is not green without a mutant' }
    : runTests(tree, testMs, project, [caughtBy])
  const verdict = { red: 'caught', green: 'survived', unknown: 'not judged' }[colours[0]]
  counts[verdict] += 1
  const seconds = ((performance.now() - start) / 1000).toFixed(0)
  console.log(`${verdict.padEnd(10)} ${seconds.padStart(4)} s  ${table}: ${name}`)
  console.log(`                   ${keyOf(caughtBy).replace('test/', '')}`)
  if (verdict === 'caught') continue
  console.log(tail(output))
  missed.push(`${verdict}: ${table}: ${name}`)
}
for (const each of missed) console.log(each)
console.log(`\n${counts.caught} caught, ${counts.survived} survived, ${counts['not judged']} not judged`)
process.exitCode = counts.survived + counts['not judged'] > 0 || mutants.length === 0 ? 1 : 0
