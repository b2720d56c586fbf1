// SPDX-License-Identifier: Apache-2.0
// What is inside the executable, as CycloneDX 1.6: Node and the npm packages that esbuild put into a bundle, not those
// that only build or test. Nothing in it depends on when or where it is made.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

const root = join(import.meta.dirname, '..')
const readJson = (name) => JSON.parse(readFileSync(join(root, name), 'utf8'))

/** The document's text. `metafiles`: esbuild's, by the bundle's name. `arch`: of the Node inside. */
export function sbom({ metafiles, arch = 'x64' }) {
  const { name, version, license } = readJson('package.json')
  const { packages } = readJson('package-lock.json')
  const node = { ...component(`node_modules/node-linux-${arch}`, packages), type: 'platform', description: 'Node.js' }
  const libraries = [...bundled(metafiles)]
    .sort(([a], [b]) => (nameOf(a) < nameOf(b) ? -1 : 1))
    .map(([path, bundles]) => ({
      ...component(path, packages),
      properties: [{ name: 'trestle:bundles', value: bundles.join(', ') }],
    }))
  const own = {
    type: 'application',
    'bom-ref': `${name}@${version}`,
    name,
    version,
    licenses: [{ expression: license }],
  }
  const components = [node, ...libraries]
  const dependencies = [{ ref: own['bom-ref'], dependsOn: components.map((each) => each['bom-ref']) }]
  const document = {
    bomFormat: 'CycloneDX',
    specVersion: '1.6',
    version: 1,
    metadata: { component: own },
    components,
    dependencies,
  }
  return `${JSON.stringify(document, undefined, 2)}\n`
}

/** Packages with bytes in a bundle, by their path in package-lock.json, and which bundles these are. */
function bundled(metafiles) {
  const found = new Map()
  for (const [bundle, { outputs }] of Object.entries(metafiles)) {
    const inputs = Object.values(outputs).flatMap((output) => Object.entries(output.inputs))
    for (const [path, { bytesInOutput }] of inputs) {
      const of = /^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1]
      if (of === undefined || bytesInOutput === 0) continue
      found.set(of, [...new Set([...(found.get(of) ?? []), bundle])])
    }
  }
  return found
}

/** A package's name: one may lie inside another's node_modules, in a version of its own. */
function nameOf(path) {
  return path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length)
}

/** A package as package-lock.json has it; its hash is of the archive that npm installed. */
function component(path, packages) {
  const { version, license, integrity } = packages[path]
  const name = nameOf(path)
  const purl = `pkg:npm/${name.replace('@', '%40')}@${version}`
  const content = Buffer.from(integrity.replace('sha512-', ''), 'base64').toString('hex')
  return {
    type: 'library',
    'bom-ref': purl,
    name,
    version,
    hashes: [{ alg: 'SHA-512', content }],
    licenses: [{ expression: license }],
    purl,
  }
}
