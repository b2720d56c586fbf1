// SPDX-License-Identifier: Apache-2.0
// Runs behind the bundle while its start-up snapshot is made, before the warm-up. Node's own start leaves the bytecode
// of 2,800 functions in the heap, the bundle's that of what runs once, and all of it is read back at every start: 8 % of
// the processor time of VERSION. V8 drops it when it is told to take all bytecode for old. What every start does run is
// compiled again by running it, as Node does while it builds a snapshot and again when that starts
// (lib/internal/main/mksnapshot.js, setDeserializeMainFunction in lib/internal/v8/startup_snapshot.js).
// Needs --expose-internals. No outcome depends on it: a function without bytecode is compiled when it is called.
{
  const v8 = require('node:v8')
  try {
    const { prepareMainThreadExecution } = require('internal/process/pre_execution')
    v8.setFlagsFromString('--stress-flush-code')
    for (let round = 0; round < 2; round++) v8.queryObjects(class Nothing {}) // collects garbage first
    v8.setFlagsFromString('--no-stress-flush-code')
    v8.setFlagsFromString('--no-flush-bytecode')
    prepareMainThreadExecution()
  } catch (error) {
    process.stderr.write(`snapshot: bytecode that is not used stays in (2 ms): ${error.message}\n`)
  }
}
