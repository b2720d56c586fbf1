// SPDX-License-Identifier: Apache-2.0
// The command line for people. What is not rewritten yet stands in src-before.

export { main } from '../../src-before/cli/main.ts'
