// SPDX-License-Identifier: Apache-2.0
// Faults on dual stack.

import { faultSuite } from '../support/faults/fault-suite.ts'

faultSuite('dualStack')
