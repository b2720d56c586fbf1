// SPDX-License-Identifier: Apache-2.0
// As much of a Kubernetes API server as kube-proxy asks for: list and watch of a few kinds, as JSON, from one file.
// usage: node api.ts FILE PORT      FILE: {"services": [object…], "endpointslices": […], …}; read again when it changes
// Every change is told to the watchers as objects that are new, changed or gone.
import { readFileSync, statSync } from 'node:fs'
import { createServer, type ServerResponse } from 'node:http'

interface Item {
  readonly metadata: { readonly name: string; readonly resourceVersion?: string }
}
type Objects = Readonly<Record<string, readonly Item[]>>

/** Group and kind by the plural name in a path (Kubernetes API reference). */
const kinds: Readonly<Record<string, readonly [string, string]>> = {
  nodes: ['v1', 'Node'],
  services: ['v1', 'Service'],
  endpointslices: ['discovery.k8s.io/v1', 'EndpointSlice'],
  servicecidrs: ['networking.k8s.io/v1', 'ServiceCIDR'],
}

const [file = '', port = ''] = process.argv.slice(2)
const pollMs = 50
let version = 1
let objects = read()
let stamp = statSync(file).mtimeMs
const watchers = new Set<{ readonly plural: string; readonly stream: ServerResponse }>()

function read(): Objects {
  return JSON.parse(readFileSync(file, 'utf8')) as Objects
}

function listed(plural: string): readonly object[] {
  return (objects[plural] ?? []).map((item) => full(plural, item))
}

function full(plural: string, item: Item): object {
  const [apiVersion, kind] = kinds[plural] ?? ['v1', 'Unknown']
  const metadata = { uid: item.metadata.name, ...item.metadata, resourceVersion: `${version}` }
  return { apiVersion, kind, ...item, metadata }
}

/** The events between two states of one kind (Kubernetes API concepts, "Efficient detection of changes"). */
function changes(plural: string, before: Objects): readonly object[] {
  const [old, now] = [before[plural] ?? [], objects[plural] ?? []]
  const of = (items: readonly Item[], name: string) => items.find((item) => item.metadata.name === name)
  const gone = old.filter(({ metadata }) => of(now, metadata.name) === undefined)
  const told = now.flatMap((item) => {
    const was = of(old, item.metadata.name)
    if (JSON.stringify(was) === JSON.stringify(item)) return []
    return [{ type: was === undefined ? 'ADDED' : 'MODIFIED', object: full(plural, item) }]
  })
  return [...gone.map((item) => ({ type: 'DELETED', object: full(plural, item) })), ...told]
}

setInterval(() => {
  const { mtimeMs } = statSync(file)
  if (mtimeMs === stamp) return
  stamp = mtimeMs
  const before = objects
  objects = read()
  version += 1
  for (const { plural, stream } of watchers)
    for (const event of changes(plural, before)) stream.write(`${JSON.stringify(event)}\n`)
}, pollMs)

function status(code: number, reason: string): object {
  return { apiVersion: 'v1', kind: 'Status', status: 'Failure', reason, code }
}

createServer((request, response) => {
  const { pathname, searchParams } = new URL(request.url ?? '/', 'http://api')
  const answer = (body: object, code = 200): void => {
    response.writeHead(code, { 'content-type': 'application/json' })
    response.end(JSON.stringify(body))
  }
  request.resume()
  // Events about services are posted: taken, and forgotten.
  if (request.method !== 'GET') return answer({ apiVersion: 'v1', kind: 'Status', status: 'Success' }, 201)
  if (pathname === '/version') return answer({ major: '1', minor: '36', gitVersion: 'v1.36.0' })
  const words = pathname.split('/')
  const plural = words.findLast((word) => Object.hasOwn(kinds, word))
  if (plural === undefined) return answer(status(404, 'NotFound'), 404)
  const name = words.at(-1)
  if (name !== plural) {
    const item = objects[plural]?.find(({ metadata }) => metadata.name === name)
    return item === undefined ? answer(status(404, 'NotFound'), 404) : answer(full(plural, item))
  }
  if (!searchParams.has('watch')) {
    const [apiVersion, kind] = kinds[plural] ?? ['v1', 'Unknown']
    return answer({
      apiVersion,
      kind: `${kind}List`,
      metadata: { resourceVersion: `${version}` },
      items: listed(plural),
    })
  }
  // A client that wants the list in the watch takes this for a server that cannot, and lists first.
  if (searchParams.has('sendInitialEvents')) return answer(status(422, 'Invalid'), 422)
  // What changed since the list would be missed: the client lists again.
  if (searchParams.get('resourceVersion') !== `${version}`) return answer(status(410, 'Expired'), 410)
  const watcher = { plural, stream: response }
  response.writeHead(200, { 'content-type': 'application/json' })
  response.flushHeaders()
  watchers.add(watcher)
  response.on('close', () => watchers.delete(watcher))
}).listen(Number(port), '127.0.0.1', () => console.log('api ready'))
