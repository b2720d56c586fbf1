// SPDX-License-Identifier: Apache-2.0
// The `type` of a configuration that is meant for trestle.

/** The type that is always ours, whatever the name of the executable's file. */
export const ownType = 'trestle'
