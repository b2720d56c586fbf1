// SPDX-License-Identifier: Apache-2.0
// Faults on macspoofchk.

import { faultSuite } from '../support/faults/fault-suite.ts'

faultSuite('macspoofchk')
