// SPDX-License-Identifier: Apache-2.0
// An esbuild plugin for the bundle of the agent: of @kubernetes/client-node it uses KubeConfig and sends its requests itself.
// Loaded as a whole the library takes 30 MB of memory on each node.

const client = /[\\/]@kubernetes[\\/]client-node[\\/]/

/** undici is for the library's own requests, which the agent does not make, and 16 MB when it is loaded. */
const noUndici = `
const none = (name) => function () { throw new Error('undici is not in this bundle: ' + name) }
export const [Agent, ProxyAgent, fetch] = ['Agent', 'ProxyAgent', 'fetch'].map(none)
`

/** What nobody imports of the library is left out: it does not say that its modules do nothing when they are loaded. */
export const leanClient = {
  name: 'lean-client',
  setup(build) {
    build.onResolve({ filter: /^\.|^@kubernetes\/client-node$/ }, async ({ path, pluginData, ...about }) => {
      const isClient = client.test(about.importer) || path === '@kubernetes/client-node'
      if (pluginData === 'resolved' || !isClient) return undefined
      const { importer, kind, resolveDir } = about
      const found = await build.resolve(path, { importer, kind, resolveDir, pluginData: 'resolved' })
      return { ...found, sideEffects: false }
    })
    build.onResolve({ filter: /^undici$/ }, ({ importer }) => {
      return client.test(importer) ? { path: 'undici', namespace: 'lean-client', sideEffects: false } : undefined
    })
    build.onLoad({ filter: /./, namespace: 'lean-client' }, () => ({ contents: noUndici }))
  },
}
