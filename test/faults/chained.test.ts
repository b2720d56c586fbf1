// SPDX-License-Identifier: Apache-2.0
// Faults on chained.

import { faultSuite } from '../support/fault-suite.ts'

faultSuite('chained')
