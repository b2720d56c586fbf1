// SPDX-License-Identifier: Apache-2.0
// The empty executable: what the runtime alone costs, packed by the same recipe. The bench subtracts it.
const { startupSnapshot } = require('node:v8')

startupSnapshot.setDeserializeMainFunction(() => process.reallyExit(0))
