// SPDX-License-Identifier: Apache-2.0
// `trestle version`: the build and its CNI versions.

import { supportedVersions } from '../cni/results.ts'
import { type Command, exitCode } from './command.ts'
import { print } from './output.ts'

// build.mjs defines both constants; sources that run unbundled lack them.
declare const TRESTLE_VERSION: string | undefined
declare const TRESTLE_COMMIT: string | undefined

const version = typeof TRESTLE_VERSION === 'undefined' ? 'unbuilt' : TRESTLE_VERSION
const commit = typeof TRESTLE_COMMIT === 'undefined' ? 'unknown' : TRESTLE_COMMIT

export const versionCommand: Command = {
  name: 'version',
  words: '',
  maxWords: 0,
  summary: 'print the version, the commit and the CNI versions',
  description: 'Prints version and commit of this build, its Node version, and the supported CNI versions.',
  options: {},
  examples: ['trestle version', 'trestle version -o json'],
  run: (input) => {
    const node = process.version.slice(1)
    const document = { version, commit, node, architecture: process.arch, cniVersions: supportedVersions }
    const text = `trestle ${version} (${commit}), Node ${node}, ${process.arch}\nCNI ${supportedVersions.join(', ')}\n`
    return print(input, { command: 'version', document, text, code: exitCode.fine })
  },
}
