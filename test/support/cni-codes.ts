// SPDX-License-Identifier: Apache-2.0
// The numbers of the errors that a call may answer with: below 100 those of CNI spec 1.1.0, section 5, then trestle's own
// (docs/errors.md).

const ofSpecification = [1, 2, 3, 4, 5, 6, 7, 11, 50, 51]
const own = [100, 101, 102, 103, 104, 105, 106, 107, 108, 109, 110, 111]

/** What no call may answer with, whatever it is given: a bug. */
export const internalCode = 999

/** Every code but that one. */
export const foreseenCodes: readonly number[] = [...ofSpecification, ...own]
