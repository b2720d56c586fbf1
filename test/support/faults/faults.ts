// SPDX-License-Identifier: Apache-2.0
// Faults put between trestle and the processes it starts: wrappers of its tools, first on PATH, and of an IPAM
// plugin. They keep what each call was given and do at one chosen call what a test asks: fail, or end their caller.

import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename } from 'node:path'

const tools = ['ip', 'nft', 'nsenter', 'tc', 'sysctl', 'conntrack'] as const
/** A tool, or the IPAM plugin that `openFaults` was given. */
type Tool = (typeof tools)[number] | 'ipam'

/**
 * What happens at a call; `slow` is a second. `kill-held`: the caller is killed, and the tool acts 1.2 s later. `line`
 * is the line of its input, from 1, that a fault replaces.
 */
export type Fault =
  | {
      readonly kind:
        | 'error'
        | 'kill-before'
        | 'kill-held'
        | 'kill-after'
        | 'term-before'
        | 'term-after'
        | 'hang'
        | 'slow'
    }
  | { readonly kind: 'bad-line' | 'no-line-number'; readonly line: number }

/** Where a fault is put: the nth process of a tool; with `shape`, the nth of those with arguments of that shape. */
interface Place {
  readonly tool: Tool
  readonly nth: number
  readonly shape?: string
}

/**
 * One process that trestle started, and the lines it was given. Processes of one tool may run side by side, in an order
 * that the machine's load decides: a place that is found again is told by `shape`, the arguments without their numbers
 * and the table that the input begins with: nft has a process for each table.
 */
export interface ToolCall extends Required<Place> {
  readonly args: string
  readonly lines: readonly string[]
  /** Whether a fault was put at it, and took hold. */
  readonly isStruck: boolean
}

/**
 * Makes the wrappers in a directory of their own. `path` goes into a call's PATH. `plugin`: an IPAM plugin's file;
 * its wrapper has the same name in `directory`, for CNI_PATH.
 */
export function openFaults(plugin?: string) {
  const directory = mkdtempSync(`${tmpdir()}/trestle-faults-`)
  const calls = `${directory}/calls`
  mkdirSync(calls)
  for (const tool of tools) writeFileSync(`${directory}/${tool}`, wrapper(tool, realPath(tool), calls), { mode: 0o755 })
  if (plugin) writeFileSync(`${directory}/${basename(plugin)}`, wrapper('ipam', plugin, calls), { mode: 0o755 })
  const path = `${directory}:${process.env['PATH']}`

  /** The calls since the last `reset`, of each tool in the order of their starts. */
  const seen = (): readonly ToolCall[] =>
    readdirSync(calls)
      .filter((name) => /^call\./.test(name))
      .sort()
      .map((name) => ({ call: readCall(calls, name), order: orderOf(calls, name) }))
      .sort((a, b) => a.call.tool.localeCompare(b.call.tool) || a.order - b.order)
      .map(({ call }) => call)
  /** Forgets calls and faults; with `at`, puts a fault at that call. */
  const reset = (at?: Place, fault?: Fault): void => {
    rmSync(calls, { recursive: true, force: true })
    mkdirSync(calls)
    if (!at || !fault) return
    const name = at.shape === undefined ? `${at.tool}.${at.nth}` : `${at.tool}.${at.shape}.${at.nth}`
    writeFileSync(`${calls}/plan.${name}`, scriptOf(at.tool, fault))
  }
  const close = (): void => rmSync(directory, { recursive: true, force: true })
  return { directory, path, seen, reset, close }
}

/** The faults worth trying at a call: every kind, and every line of a batch, reported and unreported. */
export function faultsAt(call: ToolCall): readonly Fault[] {
  const isBatch = call.tool !== 'nft' && call.args.includes('-batch') && !call.args.includes('-force')
  const lines = call.lines.map((_, at) => at + 1)
  return [
    ...(['error', 'kill-held', 'kill-after', 'term-before', 'term-after'] as const).map((kind) => ({ kind })),
    ...(isBatch ? lines.flatMap((line) => lineFaults(line, lines.length)) : []),
    ...(call.tool === 'nft' ? lines.map((line) => ({ kind: 'bad-line' as const, line })) : []),
  ]
}

/** A fault in a test's name. */
export function describeFault(fault: Fault): string {
  return 'line' in fault ? `${fault.kind} at line ${fault.line}` : fault.kind
}

/** Whether a line fails with its number or without one matters only to what is undone: the ends of a batch will do. */
function lineFaults(line: number, last: number): readonly Fault[] {
  const isEnd = line === 1 || line === last
  return [{ kind: 'bad-line', line }, ...(isEnd ? [{ kind: 'no-line-number', line } as const] : [])]
}

/**
 * What trestle starts counts; what nsenter starts in the pod does not (FAULT_INSIDE). A plugin has all of trestle's
 * environment.
 */
function wrapper(tool: Tool, real: string, calls: string): string {
  const isInside = tool === 'ipam' ? '' : `[ -n "$FAULT_INSIDE" ] && exec ${real} "$@"`
  return `#!/bin/sh
${isInside}
export FAULT_INSIDE=1
n=1
while ! mkdir "${calls}/nth.${tool}.$n" 2>/dev/null; do n=$((n + 1)); done
cat > "${calls}/nth.${tool}.$n/stdin"
${tool === 'nft' ? `table=$(head -n 1 "${calls}/nth.nft.$n/stdin" | grep -owE 'inet|bridge')` : ''}
shape=$(printf '%s' "$* $table" | tr -cs g-z _)
m=1
while ! mkdir "${calls}/call.${tool}.$shape.$m" 2>/dev/null; do m=$((m + 1)); done
call="${calls}/call.${tool}.$shape.$m"
printf '%s' "$*" > "$call/args"
printf '%s' "$n" > "$call/order"
mv "${calls}/nth.${tool}.$n/stdin" "$call/stdin"
real() { ${real} "$@" < "$call/stdin"; }
for plan in "${calls}/plan.${tool}.$n" "${calls}/plan.${tool}.$shape.$m"; do
  [ -f "$plan" ] && . "$plan"
done
exec ${real} "$@" < "$call/stdin"
`
}

/** What a wrapper does at the call: it says that it was met, then it does the fault. */
function scriptOf(tool: Tool, fault: Fault): string {
  return 'line' in fault ? replaceLine(tool, fault) : `: > "$call/struck"\n${actOf(fault.kind)}`
}

function actOf(kind: Exclude<Fault['kind'], 'bad-line' | 'no-line-number'>): string {
  switch (kind) {
    case 'error':
      return 'echo "Error: injected by the test" >&2\nexit 1\n'
    case 'hang':
      return 'exec sleep 60\n'
    case 'slow':
      return 'sleep 1\n'
    case 'kill-before':
      return 'kill -KILL $PPID\nexit 1\n'
    case 'kill-held':
      return 'kill -KILL $PPID\nsleep 1.2\n'
    case 'kill-after':
      return 'real "$@"\nkill -KILL $PPID\nexit 0\n'
    case 'term-before':
      return 'kill -TERM $PPID\nsleep 0.1\n'
    case 'term-after':
      return 'real "$@"\nstatus=$?\nkill -TERM $PPID\nsleep 0.1\nexit $status\n'
    default:
      return kind satisfies never
  }
}

/** A batch that is shorter by now has no such line: it was not met. */
function replaceLine(tool: Tool, { kind, line }: Extract<Fault, { line: number }>): string {
  const bad = tool === 'nft' ? 'injected nonsense' : 'link set dev lo master lo'
  const by = kind === 'bad-line' ? bad : 'link set dev "unterminated'
  return `sed '${line}s/.*/${by}/' "$call/stdin" > "$call/stdin.bad"
cmp -s "$call/stdin" "$call/stdin.bad" || : > "$call/struck"
mv "$call/stdin.bad" "$call/stdin"
`
}

function realPath(tool: string): string {
  return execFileSync('sh', ['-c', `command -v ${tool}`], { encoding: 'utf8' }).trim()
}

/** Which of its tool's processes it was, from 1; one whose caller was killed may not have come that far. */
function orderOf(calls: string, name: string): number {
  const file = `${calls}/${name}/order`
  return existsSync(file) ? Number(readFileSync(file, 'utf8')) : 0
}

function readCall(calls: string, name: string): ToolCall {
  const [, tool, shape, nth] = name.split('.')
  // A process whose caller was killed may not have come that far.
  const text = (file: string) => (existsSync(file) ? readFileSync(file, 'utf8') : '')
  const read = (file: string) => text(`${calls}/${name}/${file}`)
  const lines = read('stdin')
    .split('\n')
    .filter((line) => line !== '')
  const isStruck = existsSync(`${calls}/${name}/struck`)
  return { tool: tool as Tool, shape: shape ?? '', nth: Number(nth), args: read('args'), lines, isStruck }
}
