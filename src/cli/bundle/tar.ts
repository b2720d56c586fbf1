// SPDX-License-Identifier: Apache-2.0
// A tar archive of a few texts (POSIX.1-1988, ustar), without a tar on the node.

/** A file of an archive. */
export interface ArchivedFile {
  readonly name: string
  readonly text: string
}

const blockBytes = 512

/** The archive. Names have at most 100 characters of ASCII. */
export function tar(files: readonly ArchivedFile[], timeS: number): Buffer {
  const parts = files.flatMap(({ name, text }) => {
    const data = Buffer.from(text)
    return [headerOf(name, data.length, timeS), data, Buffer.alloc(-data.length & (blockBytes - 1))]
  })
  return Buffer.concat([...parts, Buffer.alloc(2 * blockBytes)])
}

function headerOf(name: string, bytes: number, timeS: number): Buffer {
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
  // The sum counts its own field as blanks.
  header.fill(' ', 148, 156)
  const sum = header.reduce((total, byte) => total + byte, 0)
  header.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1')
  return header
}
