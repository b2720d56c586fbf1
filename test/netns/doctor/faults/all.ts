// SPDX-License-Identifier: Apache-2.0
// All faults.

import type { Fault } from './fault.ts'
import { configurationFaults } from './of-configuration.ts'
import { kernelFaults } from './of-kernel.ts'
import { linkFaults } from './of-links.ts'
import { ruleFaults } from './of-rules.ts'
import { stateFaults } from './of-state.ts'

export const allFaults: readonly Fault[] = [
  ...kernelFaults,
  ...linkFaults,
  ...ruleFaults,
  ...stateFaults,
  ...configurationFaults,
]
