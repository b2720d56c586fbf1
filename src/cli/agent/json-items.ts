// SPDX-License-Identifier: Apache-2.0
// Reads a list of the API server in chunks: hands over each item with its last byte, and keeps only the text around the
// items. A whole page of 500 nodes would take 7.5 MB of text, and as much again of objects.

/** Above the size of any object of etcd (etcd.io, "System limits": 1.5 MiB) as JSON. */
const mostBytes = 8 * 1024 * 1024

const [quote, backslash, comma] = [0x22, 0x5c, 0x2c]
const [openArray, closeArray, openObject, closeObject] = [0x5b, 0x5d, 0x7b, 0x7d]

/**
 * Reads a document in chunks, and hands each object of its member arrays (`items` of a NodeList) to `onItem`. `read`
 * and `rest` throw SyntaxError for invalid JSON, RangeError for an item that is too large.
 */
export class ItemReader {
  readonly #onItem: (item: unknown) => void
  #depth = 0
  #isText = false
  #isEscaped = false
  /** True while the reader is in a member array of the document. */
  #isList = false
  #isItem = false
  #isAfterItem = false
  #bytes = 0
  readonly #item: Buffer[] = []
  readonly #around: Buffer[] = []

  constructor(onItem: (item: unknown) => void) {
    this.#onItem = onItem
  }

  read(chunk: Buffer): void {
    let kept = 0
    for (let at = 0; at < chunk.length; at++) {
      if (this.#isText) {
        at = this.#textEnd(chunk, at)
        continue
      }
      const byte = chunk[at]
      if (byte === quote) this.#isText = true
      else if (byte === openArray || byte === openObject) {
        if (byte === openObject && this.#isList && this.#depth === 2) {
          this.#keep(chunk.subarray(kept, at))
          this.#isItem = true
          kept = at
        }
        this.#open(byte)
      } else if (byte === closeArray || byte === closeObject) {
        this.#depth -= 1
        if (!this.#isItem || this.#depth !== 2) continue
        this.#keep(chunk.subarray(kept, at + 1))
        kept = at + 1
        this.#finish()
      } else if (byte === comma && this.#isAfterItem && this.#depth === 2) {
        // Drops the comma between two items.
        this.#isAfterItem = false
        kept = at + 1
      }
    }
    this.#keep(chunk.subarray(kept))
  }

  /** The document without its items, after the last chunk. */
  rest(): unknown {
    return JSON.parse(Buffer.concat(this.#around).toString('utf8'))
  }

  #open(byte: number): void {
    if (this.#depth === 1) this.#isList = byte === openArray
    this.#depth += 1
  }

  /** Continues in a string. Returns the string's end, or the chunk's end. */
  #textEnd(chunk: Buffer, from: number): number {
    let at = from
    if (this.#isEscaped) {
      this.#isEscaped = false
      at += 1
    }
    for (let end = chunk.indexOf(quote, at); ; end = chunk.indexOf(quote, end + 1)) {
      const last = end === -1 ? chunk.length : end
      let before = last
      while (before > at && chunk[before - 1] === backslash) before -= 1
      const isEscaping = (last - before) % 2 === 1
      if (end === -1) {
        this.#isEscaped = isEscaping
        return chunk.length
      }
      if (!isEscaping) {
        this.#isText = false
        return end
      }
    }
  }

  #keep(bytes: Buffer): void {
    if (bytes.length === 0) return
    this.#bytes += bytes.length
    if (this.#bytes > mostBytes) throw new RangeError(`more than ${mostBytes} bytes in one object`)
    ;(this.#isItem ? this.#item : this.#around).push(bytes)
  }

  #finish(): void {
    const [only, ...more] = this.#item
    const text = (more.length === 0 && only !== undefined ? only : Buffer.concat(this.#item)).toString('utf8')
    this.#item.length = 0
    this.#isItem = false
    this.#isAfterItem = true
    this.#bytes = 0
    this.#onItem(JSON.parse(text))
  }
}
