// SPDX-License-Identifier: Apache-2.0
// Node tells V8 at every start that somebody may ask for a CPU profile (src/api/environment.cc, SetIsolateMiscHandlers):
// V8 then walks the whole heap for functions whose lines it does not know yet (src/execution/isolate.cc,
// CollectSourcePositionsForAllBytecodeArrays). Nobody profiles a call of the plugin, and a stack trace asks for the lines
// it needs. This makes that function of V8's interface return at once. It gives nothing back and changes nothing else.
// It is found by its name among those that the node exports; a node that differs is left as it is.
import { readFileSync, writeFileSync } from 'node:fs'

/** v8::CpuProfiler::UseDetailedSourcePositionsForProfiling(v8::Isolate*), include/v8-profiler.h. */
const exported = '_ZN2v811CpuProfiler38UseDetailedSourcePositionsForProfilingEPNS_7IsolateE'

/** The major versions of Node that were looked at: what the function does may change. */
const known = ['26']
const [EM_X86_64, SHT_DYNSYM, STT_FUNC, SYM_SIZE] = [62, 11, 2, 24]
/** It calls the walk and sets a flag. One that does more is another. */
const LONGEST = 64
const RET = 0xc3

/**
 * Rewrites the node at `path`, of Node `version`. Returns undefined when it walks no more, else why it still does; the file
 * is then as it was. Throws what reading or writing the file throws.
 */
export function withoutSourcePositions(path, version) {
  if (!known.includes(version.split('.')[0])) return `Node ${version} was not looked at`
  const elf = readFileSync(path)
  try {
    elf[placeOf(elf)] = RET
  } catch (error) {
    return error.message
  }
  writeFileSync(path, elf)
  return undefined
}

function must(holds, what) {
  if (!holds) throw new Error(what)
}

/** The file offset of the function's first byte. */
function placeOf(elf) {
  must(elf.length > 64 && elf.readUInt32BE(0) === 0x7f454c46 && elf[4] === 2, 'it is no ELF file of 64 bits')
  must(elf.readUInt16LE(18) === EM_X86_64, 'not for x86-64')
  const sections = sectionsOf(elf)
  const symbols = sections.find(({ type }) => type === SHT_DYNSYM)
  must(symbols !== undefined, 'it exports nothing')
  const names = sections[symbols.link]
  const at = elf.subarray(names.offset, names.offset + names.bytes).indexOf(`\0${exported}\0`, 0, 'latin1') + 1
  must(at > 0, 'it exports no such function')
  for (let symbol = symbols.offset; symbol < symbols.offset + symbols.bytes; symbol += SYM_SIZE) {
    if (elf.readUInt32LE(symbol) !== at) continue
    const [value, size] = [Number(elf.readBigUInt64LE(symbol + 8)), Number(elf.readBigUInt64LE(symbol + 16))]
    must((elf[symbol + 4] & 15) === STT_FUNC && size > 0 && size <= LONGEST, 'the function has another form')
    const code = sections[elf.readUInt16LE(symbol + 6)]
    must(code !== undefined && value >= code.address, 'the function is not in a section')
    return value - code.address + code.offset
  }
  throw new Error('it exports no such function')
}

function sectionsOf(elf) {
  const [start, size, count] = [Number(elf.readBigUInt64LE(40)), elf.readUInt16LE(58), elf.readUInt16LE(60)]
  const word = (at) => Number(elf.readBigUInt64LE(at))
  return Array.from({ length: count }, (_, index) => {
    const at = start + index * size
    const [type, link] = [elf.readUInt32LE(at + 4), elf.readUInt32LE(at + 40)]
    return { type, link, address: word(at + 16), offset: word(at + 24), bytes: word(at + 32) }
  })
}
