// SPDX-License-Identifier: Apache-2.0
// A client for a container runtime's socket (containerd, CRI-O): gRPC over a unix socket, one deadline per call. Field
// numbers of CRI: k8s.io/cri-api pkg/apis/runtime/v1/api.proto.
import { Client, credentials, Metadata, type ServiceError, status } from '@grpc/grpc-js'
import {
  bool,
  type Decoded,
  decode,
  type Encodable,
  encode,
  int32,
  many,
  one,
  type Shape,
  string,
  stringMap,
} from './wire.ts'

const condition = { type: string(1), status: bool(2), reason: string(3), message: string(4) }
const podSandbox = { id: string(1), metadata: one(2, { name: string(1), namespace: string(3) }), state: int32(3) }

/** PodSandboxState, SANDBOX_READY. */
export const sandboxReady = 0

/** Methods of `runtime.v1.RuntimeService`, with the tables of request and response. */
export const methods = {
  Version: { request: {}, response: { runtimeName: string(2) } },
  Status: {
    request: { verbose: bool(1) },
    response: { status: one(1, { conditions: many(1, condition) }), info: stringMap(2) },
  },
  ListPodSandbox: { request: {}, response: { items: many(1, podSandbox) } },
} as const satisfies Record<string, { readonly request: Shape; readonly response: Shape }>

type Methods = typeof methods

/** The tables of a method's request and response. */
interface MethodTables<Request extends Shape, Response extends Shape> {
  readonly request: Request
  readonly response: Response
}

/** The target of a call: `/PACKAGE.SERVICE/METHOD`, headers and deadline. */
export interface CallTarget {
  readonly path: string
  readonly timeoutMs: number
  readonly headers?: Readonly<Record<string, string>>
}

/** A connection to a socket that speaks gRPC. */
interface Channel {
  /**
   * One unary call. Throws CriError when the server refuses, is unreachable, or does not answer within the deadline.
   */
  call<Request extends Shape, Response extends Shape>(
    target: CallTarget,
    tables: MethodTables<Request, Response>,
    request: Encodable<Request>,
  ): Promise<Decoded<Response>>
  close(): void
}

/** A failed call. `code` is gRPC's name of the status, like `NOT_FOUND`, `UNAVAILABLE` or `DEADLINE_EXCEEDED`. */
export class CriError extends Error {
  readonly method: string
  readonly code: string
  constructor(path: string, socket: string, cause: ServiceError) {
    const code = status[cause.code] ?? String(cause.code)
    const method = path.slice(path.lastIndexOf('/') + 1)
    super(`${path.slice(1)} on ${socket}: ${code}: ${cause.details}`, { cause })
    this.name = 'CriError'
    this.method = method
    this.code = code
  }
}

/** A channel to the unix socket `socket` (an absolute path), which connects with the first call. */
export function openChannel(socket: string): Channel {
  // By default the channel waits for seconds after a failed connection; a runtime that just started would be seen late.
  const client = new Client(`unix:${socket}`, credentials.createInsecure(), {
    'grpc.initial_reconnect_backoff_ms': 100,
    'grpc.max_reconnect_backoff_ms': 1000,
    'grpc.max_receive_message_length': 16 * 1024 * 1024, // what kubelet uses, remote_runtime.go maxMsgSize
  })
  return {
    call(target, tables, request) {
      return new Promise((resolve, reject) => {
        client.makeUnaryRequest(
          target.path,
          (message: typeof request) => Buffer.from(encode(tables.request, message)),
          (data) => decode(tables.response, data),
          request,
          headersOf(target),
          { deadline: Date.now() + target.timeoutMs },
          (error, response) => {
            if (error) reject(new CriError(target.path, socket, error))
            else if (response !== undefined) resolve(response)
          },
        )
      })
    },
    close: () => client.close(),
  }
}

/**
 * A client for the runtime at the unix socket `socket` (an absolute path), which connects with the first call. A call
 * throws CriError when the runtime refuses, or does not answer in time.
 */
export function openCri(socket: string, { timeoutMs }: { readonly timeoutMs: number }) {
  const channel = openChannel(socket)
  return {
    async call<M extends keyof Methods>(method: M, request: Encodable<Methods[M]['request']>) {
      const tables: MethodTables<Shape, Shape> = methods[method]
      const target = { path: `/runtime.v1.RuntimeService/${method}`, timeoutMs }
      return (await channel.call(target, tables, request)) as Decoded<Methods[M]['response']>
    },
    close: channel.close,
  }
}

function headersOf({ headers = {} }: CallTarget): Metadata {
  const metadata = new Metadata()
  for (const [name, value] of Object.entries(headers)) metadata.set(name, value)
  return metadata
}
