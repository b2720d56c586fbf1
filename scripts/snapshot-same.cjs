// SPDX-License-Identifier: Apache-2.0
// Runs behind the bundle while its start-up snapshot is made, so that the same bundle gives the same bytes: what depends on
// the machine and the moment is set to fixed values right before the heap is written. Node sets it again when it starts.
// Needs --expose-internals.
{
  const v8 = require('node:v8')
  const { internalBinding } = require('internal/test/binding')
  v8.startupSnapshot.addSerializeCallback(() => {
    // What the last file was like, the time, the process's id, how many asynchronous things there were.
    const { statValues, bigintStatValues, statFsValues, bigintStatFsValues } = internalBinding('fs')
    for (const values of [statValues, statFsValues]) values.fill(0)
    for (const values of [bigintStatValues, bigintStatFsValues]) values.fill(0n)
    internalBinding('process_methods').hrtimeBuffer.fill(0)
    internalBinding('performance').milestones.fill(0)
    Object.defineProperty(process, 'pid', { value: 1 })
    const { async_id_fields: ids, constants } = internalBinding('async_wrap')
    ids[constants.kAsyncIdCounter] = 10_000
    // RegExp.$1 and the like: where the groups were of the last match that had so many.
    new RegExp('()'.repeat(32)).exec('')
    // V8 writes its table of strings in the order of their places, and a string that was there for a moment, such as a
    // process's number, moves others. In a table made anew that is far too large every string has the place that its hash says.
    const names = {}
    for (let count = 0; count < 2 ** 18; count++) names[`name ${count}`] = 0
  })
}
