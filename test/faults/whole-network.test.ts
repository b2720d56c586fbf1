// SPDX-License-Identifier: Apache-2.0
// Faults on whole network.

import { faultSuite } from '../support/fault-suite.ts'

faultSuite('whole')
