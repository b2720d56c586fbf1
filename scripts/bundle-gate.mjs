// SPDX-License-Identifier: Apache-2.0
// What the CNI path may load. Every module costs start-up time on each pod, so the bundle is held to a list.
import { readFileSync } from 'node:fs'

const allowed = [
  /^src\/(?!commands\/|agent\/|catalogue\/)/,
  /^node_modules\/zod\/v4\/(mini|core)\//,
  /^node_modules\/zod\/mini\//,
]
// Locales are 150 KB of text and reach the bundle when zod is imported as a namespace (`z.…`).
const refused = [/^node_modules\/zod\/v4\/locales\/(?!en\.js$)/]

/** Throws, naming each file, if esbuild's `metafile` holds bytes of a file that is not allowed. */
export function gateBundle(metafile) {
  const [output] = Object.values(metafile.outputs).filter((out) => out.entryPoint)
  const shipped = Object.entries(output.inputs).filter(([, input]) => input.bytesInOutput > 0)
  const wrong = shipped.map(([path]) => path).filter((path) => !isAllowed(path))
  if (wrong.length === 0) return
  throw new Error(
    `the CNI bundle may hold src/ without commands/ and agent/, and zod/mini, but has ${wrong.join(', ')}`,
  )
}

/** The library's types of every object of Kubernetes: 360 KB of the bundle and 11 MB of memory when something asks for them. */
const mostOfModels = 20_000

/** Throws if the bundle of the agent has the models of the client's library, or the client that the library sends by. */
export function gateAgent(metafile) {
  const [output] = Object.values(metafile.outputs).filter((out) => out.entryPoint)
  const bytesOf = (pattern) => {
    const found = Object.entries(output.inputs).filter(([path]) => pattern.test(path))
    return found.reduce((sum, [, { bytesInOutput }]) => sum + bytesInOutput, 0)
  }
  const [models, undici] = [/client-node\/dist\/gen\//, /\/undici\//].map(bytesOf)
  if (models > mostOfModels) throw new Error(`the agent's bundle has ${models} bytes of models of Kubernetes' objects`)
  if (undici > 0) throw new Error(`the agent's bundle has ${undici} bytes of undici (scripts/lean-client.mjs)`)
}

/**
 * Throws if a bundle has a character beyond Latin-1: V8 then keeps all of its text in two bytes a character, for as long as
 * the process lives. esbuild escapes them in strings, not in regular expressions.
 */
export function gateText(file) {
  const found = /[^\0-\xff]/.exec(readFileSync(file, 'utf8'))
  if (found) throw new Error(`${file} has ${JSON.stringify(found[0])}: write it as an escape (\\u…)`)
}

function isAllowed(path) {
  return allowed.some((pattern) => pattern.test(path)) && !refused.some((pattern) => pattern.test(path))
}
