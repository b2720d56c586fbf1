// SPDX-License-Identifier: Apache-2.0
// Faults on masquerade.

import { faultSuite } from '../support/faults/fault-suite.ts'

faultSuite('masquerade')
