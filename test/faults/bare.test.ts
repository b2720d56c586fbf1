// SPDX-License-Identifier: Apache-2.0
// Faults on bare.

import { faultSuite } from '../support/faults/fault-suite.ts'

faultSuite('bare')
