// SPDX-License-Identifier: Apache-2.0
// Which source and which packages the files are made of, as an in-toto statement with SLSA's provenance
// (in-toto.io/Statement/v1, slsa.dev/provenance/v1). Without times: the same commit gives the same text.
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

/** `digests`: the SHA-256 of each file of the release, by its name. */
export function provenance({ digests, commit, version, root }) {
  const lock = createHash('sha256')
    .update(readFileSync(join(root, 'package-lock.json')))
    .digest('hex')
  const statement = {
    _type: 'https://in-toto.io/Statement/v1',
    subject: [...digests].map(([name, sha256]) => ({ name, digest: { sha256 } })),
    predicateType: 'https://slsa.dev/provenance/v1',
    predicate: {
      buildDefinition: {
        buildType: 'urn:trestle:npm-run-release:v1',
        externalParameters: { command: 'npm run release', version },
        resolvedDependencies: [
          { name: 'source', digest: { gitCommit: commit } },
          { name: 'package-lock.json', digest: { sha256: lock } },
        ],
      },
      runDetails: { builder: { id: 'urn:trestle:scripts/release.mjs' } },
    },
  }
  return `${JSON.stringify(statement, undefined, 2)}\n`
}
