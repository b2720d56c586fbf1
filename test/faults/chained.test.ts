// SPDX-License-Identifier: Apache-2.0
// Faults on chained.

import { faultSuite } from '../support/faults/fault-suite.ts'

faultSuite('chained')
