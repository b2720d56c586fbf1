// SPDX-License-Identifier: Apache-2.0
// Control characters in text that others wrote. A loop, as a Unicode regular expression would be
// compiled anew in every process.

/** Whether `text` has a C0 or C1 control character or DEL (Unicode category Cc). */
export function hasControlCharacter(text: string): boolean {
  for (let at = 0; at < text.length; at++) {
    if (isControlCode(text.charCodeAt(at))) return true
  }
  return false
}

/** Whether a UTF-16 code unit is a control character. */
export function isControlCode(code: number): boolean {
  return code < 0x20 || (code >= 0x7f && code < 0xa0)
}
