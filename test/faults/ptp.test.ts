// SPDX-License-Identifier: Apache-2.0
// Faults on ptp.

import { faultSuite } from '../support/faults/fault-suite.ts'

faultSuite('ptp')
