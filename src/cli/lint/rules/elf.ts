// SPDX-License-Identifier: Apache-2.0
// Whether a file is a program that this machine can start: the head of an ELF file (elf.h, elf(5)), or a script's #!.

/** e_machine by Node's process.arch; the second is what the first one's kernel also runs. */
const machines: Readonly<Record<string, readonly number[]>> = {
  x64: [62, 3],
  arm64: [183, 40],
  ia32: [3],
  arm: [40],
  riscv64: [243],
  s390x: [22],
  ppc64: [21],
  loong64: [258],
}

const names: Readonly<Record<number, string>> = {
  3: 'i386',
  21: 'ppc64',
  22: 's390x',
  40: 'arm',
  62: 'x86-64',
  183: 'arm64',
  243: 'riscv',
  258: 'loongarch',
}

/** Room for as much of a file's head as is looked at: the ELF header and its program headers. */
export function elfBuffer(): Buffer {
  return Buffer.alloc(4096)
}

/**
 * What keeps the kernel from starting a file with this head; undefined when nothing does. `size`: of the whole file.
 * `architecture`: Node's process.arch. A script's interpreter is returned for the caller to look at.
 */
export function formatProblem(
  head: Buffer,
  { size, architecture }: { readonly size: number; readonly architecture: string },
): { readonly problem?: string; readonly interpreter?: string } {
  if (size === 0) return { problem: 'it is empty' }
  if (head.subarray(0, 2).toString('latin1') === '#!') return { interpreter: interpreterOf(head) }
  if (head.subarray(0, 4).toString('latin1') !== '\x7fELF') {
    return { problem: 'it is neither a program (ELF) nor a script (no #! in its first line)' }
  }
  if (head.length < 64) return { problem: 'it is cut short: not even the ELF header is whole' }
  const isLittle = head[5] === 1
  const machine = isLittle ? head.readUInt16LE(18) : head.readUInt16BE(18)
  const known = machines[architecture]
  if (known !== undefined && !known.includes(machine)) {
    return { problem: `it is for ${names[machine] ?? `machine ${machine}`}, and this machine is ${architecture}` }
  }
  const end = isLittle && head[4] === 2 ? lastByte(head) : 0
  return end > size ? { problem: `it is cut short: ${size} of at least ${end} bytes` } : {}
}

function interpreterOf(head: Buffer): string {
  return head.toString('utf8', 2).split('\n')[0]?.trim().split(/\s/)[0] ?? ''
}

/** The end of the last segment that is loaded, of a 64-bit little-endian file. */
function lastByte(head: Buffer): number {
  const [at, size, count] = [Number(head.readBigUInt64LE(32)), head.readUInt16LE(54), head.readUInt16LE(56)]
  let end = 0
  for (let entry = at; entry + 56 <= Math.min(head.length, at + size * count); entry += size || 56) {
    end = Math.max(end, Number(head.readBigUInt64LE(entry + 8) + head.readBigUInt64LE(entry + 32)))
  }
  return end
}
