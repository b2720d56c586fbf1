// SPDX-License-Identifier: Apache-2.0
// Faults on delegated ipam.

import { faultSuite } from '../support/faults/fault-suite.ts'

faultSuite('delegated')
