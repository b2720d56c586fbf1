// SPDX-License-Identifier: Apache-2.0
// Holds connections in the network namespace that it is started in, until its stdin is closed.
import { openConnections } from '../surroundings.mjs'

await openConnections()
console.log('connections open')
process.stdin.resume()
