// SPDX-License-Identifier: Apache-2.0
// Node's builtin code cache inside the startup snapshot of a SEA blob costs about 2 ms at start and
// saves nothing once the bytecode in use is in the snapshot. Its place is undocumented, so it is
// dropped only where the blob parses to its exact end (src/node_snapshotable.cc, SnapshotData).

const snapshotMagic = Buffer.from([0x19, 0xda, 0x43, 0x01])

/**
 * Returns `blob` without the builtin code cache, or undefined where the layout is not the known one:
 * `u64 size | magic … | u64 count | count × (u64 length, id, u64 length, data)`, at the end of the snapshot.
 */
export function withoutCodeCache(blob) {
  const start = blob.indexOf(snapshotMagic)
  if (start < 8 || blob.indexOf(snapshotMagic, start + 4) !== -1) return undefined
  const size = Number(blob.readBigUInt64LE(start - 8))
  const end = start + size
  if (!Number.isSafeInteger(size) || end > blob.length) return undefined
  const countAt = findTable(blob, start, end)
  if (countAt === undefined) return undefined
  const head = Buffer.from(blob.subarray(0, countAt + 8))
  head.writeBigUInt64LE(BigInt(countAt + 8 - start), start - 8)
  head.writeBigUInt64LE(0n, countAt)
  return Buffer.concat([head, blob.subarray(end)])
}

/** The one offset at which a code cache table starts that ends exactly at `end`, or undefined. */
function findTable(blob, start, end) {
  const found = []
  for (let at = start; at + 24 < end; at++) {
    if (blob.readUInt32LE(at + 4) !== 0) continue
    const count = blob.readUInt32LE(at)
    if (count > 0 && count < 4096 && tableEnd(blob, at + 8, { count, end }) === end) found.push(at)
  }
  return found.length === 1 ? found[0] : undefined
}

/** Where `count` pairs of (length, id) and (length, data) starting at `from` end, or undefined. */
function tableEnd(blob, from, { count, end }) {
  let at = from
  for (let field = 0; field < 2 * count; field++) {
    if (at + 8 > end) return undefined
    const length = Number(blob.readBigUInt64LE(at))
    const isId = field % 2 === 0
    if (length < 1 || length > (isId ? 256 : end - at)) return undefined
    at += 8 + length
  }
  return at
}
