// SPDX-License-Identifier: Apache-2.0
// Node 26 for x86-64 needs libatomic.so.1, which hosts without a compiler lack: Debian's minimal system, RHEL, Flatcar.
// It takes one function from there, __atomic_compare_exchange (GCC's libatomic, "generic" form), for eight bytes each
// time, which the processor does by one instruction. This puts that instruction into the function's own entry of
// the procedure linkage table, and takes the library out of what ld.so looks for (System V ABI, AMD64 supplement,
// 5.2; gABI, "Dynamic Linking"). Its place in the dynamic section becomes DT_RUNPATH $ORIGIN: ld.so looks for libraries
// beside the executable too, where the agent puts libstdc++ on hosts without it (src/agent/program.ts).
// Every fact it rests on is looked at first; a node that differs is left as it is.
import { readFileSync, writeFileSync } from 'node:fs'

const LIBRARY = 'libatomic.so.1'
const [DT_NEEDED, DT_PLTRELSZ, DT_STRTAB, DT_SYMTAB, DT_RELA, DT_RELASZ, DT_JMPREL, DT_FLAGS] = [
  1, 2, 5, 6, 7, 8, 23, 30,
]
const [DT_RPATH, DT_RUNPATH] = [15, 29]
const [DT_VERSYM, DT_VERNEED, DT_VERNEEDNUM] = [0x6ffffff0, 0x6ffffffe, 0x6fffffff]
const [EM_X86_64, PT_LOAD, PT_DYNAMIC, PF_X, DF_BIND_NOW, R_X86_64_JUMP_SLOT] = [62, 1, 2, 1, 8, 7]
const [DYN_SIZE, RELA_SIZE, SYM_SIZE, SLOT_SIZE] = [16, 24, 24, 16]

// (rdi size, rsi object, rdx expected, rcx desired) -> al. The last two lines lie in the part of the next entry that only
// lazy binding runs.
const exchange = [
  [0x48, 0x8b, 0x02], // mov (%rdx),%rax
  [0x48, 0x8b, 0x09], // mov (%rcx),%rcx
  [0xf0, 0x48, 0x0f, 0xb1, 0x0e], // lock cmpxchg %rcx,(%rsi)
  [0x48, 0x89, 0x02], // mov %rax,(%rdx): what was there; where it was as expected, the same
  [0xeb, 0x06], // jmp over the next entry's own jump
].flat()
const answer = [0x0f, 0x94, 0xc0, 0xc3] // sete %al; ret

const size8 = Buffer.from([0xbf, 8, 0, 0, 0]) // mov $8,%edi
const LONGEST_CALL_SETUP = 64

/**
 * Rewrites the node at `path`, a whole ELF file. Returns undefined when it needs libatomic no more, else why it still does;
 * the file is then as it was. Throws what reading or writing the file throws.
 */
export function withoutLibatomic(path) {
  const elf = readFileSync(path)
  try {
    if (!rewrite(elf)) return undefined
  } catch (error) {
    return error.message
  }
  writeFileSync(path, elf)
  return undefined
}

function must(holds, what) {
  if (!holds) throw new Error(what)
}

function rewrite(elf) {
  must(elf.readUInt32BE(0) === 0x7f454c46 && elf[4] === 2 && elf.readUInt16LE(18) === EM_X86_64, 'not for x86-64')
  const image = imageOf(elf)
  const { all, at } = dynamicOf(elf, image)
  const nameOf = (offset) => cString(elf, image.offset(at(DT_STRTAB)) + offset)
  const needed = all.filter(({ tag }) => tag === DT_NEEDED)
  const library = needed.find(({ value }) => nameOf(value) === LIBRARY)
  if (library === undefined) return false
  must(!all.some(({ tag }) => tag === DT_RPATH || tag === DT_RUNPATH), 'it says where its libraries are')
  must(at(DT_FLAGS) & DF_BIND_NOW, 'its symbols are bound when they are first called')

  const need = image.offset(at(DT_VERNEED))
  must(
    nameOf(elf.readUInt32LE(need + 4)) === LIBRARY && elf.readUInt16LE(need + 2) === 1,
    'its needed versions stand in another order',
  )
  const version = elf.readUInt16LE(need + elf.readUInt32LE(need + 8) + 6)
  const isOurs = (symbol) => elf.readUInt16LE(image.offset(at(DT_VERSYM)) + 2 * symbol) === version
  const taken = [
    ...relocations(elf, image.offset(at(DT_RELA)), at(DT_RELASZ)),
    ...relocations(elf, image.offset(at(DT_JMPREL)), at(DT_PLTRELSZ)),
  ].filter(({ symbol }) => isOurs(symbol))
  const [only] = taken
  must(taken.length === 1 && only.type === R_X86_64_JUMP_SLOT, 'it takes other things from there')
  const name = nameOf(elf.readUInt32LE(image.offset(at(DT_SYMTAB)) + SYM_SIZE * only.symbol))
  must(name === '__atomic_compare_exchange', `it takes ${name} from there`)

  const slot = slotOf(elf, image, only.slot)
  elf.set(exchange, slot)
  elf.set(answer, slot + SLOT_SIZE + 6)
  elf.writeBigUInt64LE(0n, only.at + 8) // R_X86_64_NONE
  const skipped = elf.readUInt32LE(need + 12)
  moveSection(elf, at(DT_VERNEED), skipped)
  all.find(({ tag }) => tag === DT_VERNEED).set(at(DT_VERNEED) + skipped)
  all.find(({ tag }) => tag === DT_VERNEEDNUM).set(at(DT_VERNEEDNUM) - 1)
  // Nothing else has this name: a string of the table may be the end of a longer one, of a symbol or a version.
  const string = image.offset(at(DT_STRTAB)) + library.value
  must(elf[string - 1] === 0, `${LIBRARY} is the end of another string`)
  elf.write('$ORIGIN\0', string, 'latin1')
  elf.writeBigUInt64LE(BigInt(DT_RUNPATH), library.at)
  return true
}

/** The loaded segments: file offsets of addresses, the one with the code, the dynamic section. */
function imageOf(elf) {
  const [start, size, count] = [Number(elf.readBigUInt64LE(32)), elf.readUInt16LE(54), elf.readUInt16LE(56)]
  const word = (at) => Number(elf.readBigUInt64LE(at))
  const headers = Array.from({ length: count }, (_, index) => {
    const at = start + index * size
    const [type, flags] = [elf.readUInt32LE(at), elf.readUInt32LE(at + 4)]
    return { type, flags, offset: word(at + 8), address: word(at + 16), bytes: word(at + 32) }
  })
  const loaded = headers.filter(({ type }) => type === PT_LOAD)
  const code = loaded.filter(({ flags }) => flags & PF_X)
  must(code.length === 1, 'its code is in several segments')
  const offset = (address) => {
    const segment = loaded.find((each) => address >= each.address && address < each.address + each.bytes)
    must(segment !== undefined, 'it has an address outside of what is loaded')
    return address - segment.address + segment.offset
  }
  return { offset, code: code[0], dynamic: headers.find(({ type }) => type === PT_DYNAMIC) }
}

function dynamicOf(elf, { dynamic }) {
  const all = Array.from({ length: dynamic.bytes / DYN_SIZE }, (_, index) => {
    const at = dynamic.offset + index * DYN_SIZE
    const set = (value) => elf.writeBigUInt64LE(BigInt(value), at + 8)
    return { at, tag: Number(elf.readBigUInt64LE(at)), value: Number(elf.readBigUInt64LE(at + 8)), set }
  })
  const at = (wanted) => {
    const found = all.filter(({ tag }) => tag === wanted)
    must(found.length === 1, `it has ${found.length} dynamic entries of tag ${wanted}`)
    return found[0].value
  }
  return { all, at }
}

/** The section at `address` begins `bytes` later and has an entry less: for tools, ld.so goes by the dynamic section. */
function moveSection(elf, address, bytes) {
  const [start, size, count] = [Number(elf.readBigUInt64LE(40)), elf.readUInt16LE(58), elf.readUInt16LE(60)]
  for (let at = start; at < start + count * size; at += size) {
    if (elf.readBigUInt64LE(at + 16) !== BigInt(address)) continue
    const add = (field, value) => elf.writeBigUInt64LE(elf.readBigUInt64LE(at + field) + BigInt(value), at + field)
    add(16, bytes)
    add(24, bytes)
    add(32, -bytes)
    elf.writeUInt32LE(elf.readUInt32LE(at + 44) - 1, at + 44)
  }
}

function relocations(elf, start, bytes) {
  return Array.from({ length: bytes / RELA_SIZE }, (_, index) => {
    const at = start + index * RELA_SIZE
    const [type, symbol] = [elf.readUInt32LE(at + 8), elf.readUInt32LE(at + 12)]
    return { at, slot: Number(elf.readBigUInt64LE(at)), type, symbol }
  })
}

function cString(elf, at) {
  return elf.toString('latin1', at, elf.indexOf(0, at))
}

/** The file offset of the linkage table's entry that jumps by the pointer at `pointer`; all is as `exchange` needs it. */
function slotOf(elf, { code }, pointer) {
  const end = code.offset + code.bytes
  const distance = code.address - code.offset
  const [slots, calls] = [[], []]
  for (let at = code.offset; at < end - 6; at++) {
    if (elf[at] !== 0xff || (elf[at + 1] !== 0x25 && elf[at + 1] !== 0x15)) continue
    if (at + distance + 6 + elf.readInt32LE(at + 2) === pointer) slots.push(at)
  }
  const [slot] = slots
  must(slots.length === 1, `${slots.length} places go by its pointer`)
  for (const entry of [slot, slot + SLOT_SIZE]) {
    const isLazy = elf[entry + 6] === 0x68 && elf[entry + 11] === 0xe9 // push index; jmp to the resolver
    must(elf[entry] === 0xff && elf[entry + 1] === 0x25 && isLazy, 'its linkage table has another form')
  }
  for (let at = code.offset; at < end - 5; at++) {
    if ((elf[at] === 0xe8 || elf[at] === 0xe9) && at + 5 + elf.readInt32LE(at + 1) === slot) calls.push(at)
  }
  must(calls.length > 0, 'nothing calls it')
  for (const call of calls) {
    must(elf.subarray(call - LONGEST_CALL_SETUP, call).includes(size8), 'it is called for another size')
  }
  return slot
}
