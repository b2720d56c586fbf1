// SPDX-License-Identifier: Apache-2.0
// Faults on whole network.

import { faultSuite } from '../support/faults/fault-suite.ts'

faultSuite('whole')
