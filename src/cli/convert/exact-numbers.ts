// SPDX-License-Identifier: Apache-2.0
// Numbers that JavaScript cannot hold, kept as their text: a plugin that stays, or an unsigned 64-bit rate of Go, has
// the digits that were written.

/** JSON.parse with the text of each value, and what stringifies to a text; TypeScript's library has neither yet. */
interface ExactJson {
  parse(text: string, reviver: (key: string, value: unknown, context: { readonly source?: string }) => unknown): unknown
  rawJSON(text: string): unknown
}

const exactJson = JSON as unknown as ExactJson

/** A number with its text in JSON. Prints and stringifies as that. */
class ExactNumber extends Number {
  readonly #text: string

  constructor(text: string) {
    super(text)
    this.#text = text
  }

  override toString(): string {
    return this.#text
  }

  toJSON(): unknown {
    return exactJson.rawJSON(this.#text)
  }
}

/**
 * The JSON value of `text`, with an object that JSON.stringify writes as it was in place of each number that is beyond
 * 2^53 or the range of a double. Throws SyntaxError for what is not JSON.
 */
export function parseExactly(text: string): unknown {
  return exactJson.parse(text, (_key, value, { source }) =>
    typeof value === 'number' && source !== undefined && isInexact(value) ? new ExactNumber(source) : value,
  )
}

function isInexact(value: number): boolean {
  return !Number.isFinite(value) || (Number.isInteger(value) && !Number.isSafeInteger(value))
}
