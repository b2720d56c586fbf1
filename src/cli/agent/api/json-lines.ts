// SPDX-License-Identifier: Apache-2.0
// Reads a watch: a JSON document a line, in chunks that may end within a line.

/** Above the size of any event, which has one object. */
const mostBytes = 8 * 1024 * 1024

const lineFeed = 0x0a

/** Hands the JSON of each whole line to `onLine`. Throws SyntaxError for an invalid line, RangeError for a long one. */
export function lineReader(onLine: (line: unknown) => void): (chunk: Buffer) => void {
  const begun: Buffer[] = []
  let bytes = 0
  return (chunk) => {
    let from = 0
    for (let end = chunk.indexOf(lineFeed); end !== -1; end = chunk.indexOf(lineFeed, from)) {
      const text = Buffer.concat([...begun.splice(0), chunk.subarray(from, end)]).toString('utf8')
      bytes = 0
      from = end + 1
      if (text.trim() !== '') onLine(JSON.parse(text))
    }
    const rest = chunk.subarray(from)
    bytes += rest.length
    if (bytes > mostBytes) throw new RangeError(`more than ${mostBytes} bytes in one line`)
    if (rest.length > 0) begun.push(rest)
  }
}
