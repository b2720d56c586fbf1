// SPDX-License-Identifier: Apache-2.0
// The protocol versions trestle speaks, and which verb each has (CNI spec 1.1.0, section 2).

/** Every released version, oldest first. */
export const supportedVersions = ['0.1.0', '0.2.0', '0.3.0', '0.3.1', '0.4.0', '1.0.0', '1.1.0'] as const

export type CniVersion = (typeof supportedVersions)[number]

/** The newest version, used where the caller gave none that we know. */
export const currentVersion: CniVersion = '1.1.0'

/** Whether `text` is exactly one of the supported version strings (libcni compares exactly). */
export function isSupported(text: unknown): text is CniVersion {
  return typeof text === 'string' && (supportedVersions as readonly string[]).includes(text)
}

/** Whether version `a` is `b` or newer. */
export function atLeast(a: CniVersion, b: CniVersion): boolean {
  return supportedVersions.indexOf(a) >= supportedVersions.indexOf(b)
}
