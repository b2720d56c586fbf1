// SPDX-License-Identifier: Apache-2.0
// FUZZ_SEED repeats every generated test of a run: without it each run tries other values.

import { configureGlobal } from 'fast-check'

const seed = process.env['FUZZ_SEED']
if (seed !== undefined) configureGlobal({ seed: Number(seed) })
