// SPDX-License-Identifier: Apache-2.0
// A client for a container runtime's socket: gRPC over a unix socket, one deadline a call. Field numbers: k8s.io/cri-api
// pkg/apis/runtime/v1/api.proto.

import { Client, credentials, type ServiceError, status } from '@grpc/grpc-js'
import { fromJSON, type MethodDefinition } from '@grpc/proto-loader'

const field = (type: string, id: number) => ({ type, id })
const list = (type: string, id: number) => ({ type, id, rule: 'repeated' })
const method = (name: string) => ({ requestType: `${name}Request`, responseType: `${name}Response` })
const message = (fields: object) => ({ fields })
const namespace = (nested: object) => ({ nested })

const criV1 = {
  RuntimeService: {
    methods: { Version: method('Version'), Status: method('Status'), ListPodSandbox: method('ListPodSandbox') },
  },
  VersionRequest: message({}),
  VersionResponse: message({ runtimeName: field('string', 2) }),
  StatusRequest: message({ verbose: field('bool', 1) }),
  StatusResponse: message({
    status: field('RuntimeStatus', 1),
    info: { keyType: 'string', type: 'string', id: 2 },
  }),
  RuntimeStatus: message({ conditions: list('Condition', 1) }),
  Condition: message({
    ...{ type: field('string', 1), status: field('bool', 2) },
    ...{ reason: field('string', 3), message: field('string', 4) },
  }),
  ListPodSandboxRequest: message({}),
  ListPodSandboxResponse: message({ items: list('PodSandbox', 1) }),
  PodSandbox: message({ id: field('string', 1), metadata: field('Names', 2), state: field('int32', 3) }),
  Names: message({ name: field('string', 1), namespace: field('string', 3) }),
}

const api = namespace({ runtime: namespace({ v1: namespace(criV1) }) })
const definition = fromJSON(api as Parameters<typeof fromJSON>[0], { defaults: true })
const methods = definition['runtime.v1.RuntimeService'] as Readonly<Record<string, MethodDefinition<object, object>>>

/** PodSandboxState, SANDBOX_READY. */
export const sandboxReady = 0

/** What the calls answer. A nested message that is absent is null. */
interface Answers {
  readonly Version: { readonly runtimeName: string }
  readonly Status: {
    readonly status: { readonly conditions: readonly Condition[] } | null
    readonly info: Readonly<Record<string, string>>
  }
  readonly ListPodSandbox: {
    readonly items: readonly {
      readonly id: string
      readonly metadata: { readonly name: string; readonly namespace: string } | null
      readonly state: number
    }[]
  }
}

interface Condition {
  readonly type: string
  readonly status: boolean
  readonly reason: string
  readonly message: string
}

/** A failed call. `code` is gRPC's name of the status, like `NOT_FOUND`, `UNAVAILABLE` or `DEADLINE_EXCEEDED`. */
export class CriError extends Error {
  readonly method: string
  readonly code: string
  constructor(path: string, socket: string, cause: ServiceError) {
    const code = status[cause.code] ?? String(cause.code)
    super(`${path.slice(1)} on ${socket}: ${code}: ${cause.details}`, { cause })
    this.name = 'CriError'
    this.method = path.slice(path.lastIndexOf('/') + 1)
    this.code = code
  }
}

/** The runtime at the unix socket `socket` (an absolute path), which is connected to with the first call. */
export function openRuntime(socket: string, timeoutMs: number) {
  // By default the channel waits for seconds after a failed connection; a runtime that just started would be seen late.
  const client = new Client(`unix:${socket}`, credentials.createInsecure(), {
    'grpc.initial_reconnect_backoff_ms': 100,
    'grpc.max_reconnect_backoff_ms': 1000,
    'grpc.max_receive_message_length': 16 * 1024 * 1024, // what kubelet uses, remote_runtime.go maxMsgSize
  })
  /** One call. Throws CriError when the runtime refuses, or does not answer in time. */
  const call = <M extends keyof Answers>(name: M, request: object = {}): Promise<Answers[M]> => {
    const { path, requestSerialize, responseDeserialize } = methods[name] as MethodDefinition<object, object>
    const options = { deadline: Date.now() + timeoutMs }
    return new Promise((resolve, reject) => {
      client.makeUnaryRequest(path, requestSerialize, responseDeserialize, request, options, (error, answer) => {
        if (error) reject(new CriError(path, socket, error))
        else resolve(answer as Answers[M])
      })
    })
  }
  return { call, close: () => client.close() }
}
