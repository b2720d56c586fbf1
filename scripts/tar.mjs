// SPDX-License-Identifier: Apache-2.0
// Tar archives that depend on their content alone: the same input gives the same bytes.

/**
 * One ustar entry (POSIX.1-1988 header, 512-byte blocks), owned by root at time 0, so that the same input gives the same digest.
 * @param {{ name: string, data?: Buffer, link?: string, mode?: number }} entry
 */
export function tarEntry({ name, data = Buffer.alloc(0), link = '', mode = 0o755 }) {
  const header = Buffer.alloc(512)
  const octal = (/** @type {number} */ value, /** @type {number} */ digits) =>
    `${value.toString(8).padStart(digits, '0')}\0`
  const type = link !== '' ? '2' : name.endsWith('/') ? '5' : '0'
  header.write(name, 0, 100)
  header.write(octal(mode, 7) + octal(0, 7) + octal(0, 7) + octal(data.length, 11) + octal(0, 11), 100)
  header.write(`        ${type}`, 148)
  header.write(link, 157, 100)
  header.write('ustar\x0000', 257)
  // The checksum is taken with its own field as spaces.
  header.write(
    `${octal(
      header.reduce((sum, byte) => sum + byte, 0),
      6,
    )} `,
    148,
  )
  return Buffer.concat([header, data, Buffer.alloc((512 - (data.length % 512)) % 512)])
}

/** A whole archive. @param {Buffer[]} entries */
export const tar = (entries) => Buffer.concat([...entries, Buffer.alloc(1024)])
