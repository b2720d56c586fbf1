// SPDX-License-Identifier: Apache-2.0
// What a conversion has to say besides its result.

/** `warning`: something of the original has no equivalent or is not done any more. `note`: nothing is lost. */
export interface Remark {
  readonly level: 'warning' | 'note'
  /** The plugin and the key it is about, like `portmap.markMasqBit`. */
  readonly about: string
  readonly text: string
}

/** A remark on something that is lost. */
export function warning(about: string, text: string): Remark {
  return { level: 'warning', about, text }
}

/** A remark on something that is as it was. */
export function note(about: string, text: string): Remark {
  return { level: 'note', about, text }
}
