// SPDX-License-Identifier: Apache-2.0
// Protobuf messages as tables: a message is a record of fields, and its TypeScript type follows from the table. The
// library encodes the bytes, and no generated code has to follow a .proto file.
import { BinaryReader, BinaryWriter, WireType } from '@bufbuild/protobuf/wire'

/** A field: number, wire type, reader, writer, and the value of an absent field. */
export interface Field<Value, Input = Value> {
  readonly no: number
  readonly wireType: WireType
  empty(): Value
  /** `before` is the value of earlier occurrences, since lists and maps arrive one entry at a time. */
  read(reader: BinaryReader, before: Value): Value
  write(writer: BinaryWriter, value: Input): void
}

export type Shape = { readonly [name: string]: Field<unknown> }

/** The result of `decode` has every field; an absent nested message is undefined. */
export type Decoded<S> = { readonly [K in keyof S]: S[K] extends Field<infer Value, infer _Input> ? Value : never }

/** The argument of `encode`; an omitted field has proto3's empty value. */
export type Encodable<S> = { readonly [K in keyof S]?: S[K] extends Field<infer _Value, infer Input> ? Input : never }

export const string = (no: number): Field<string> => ({
  no,
  wireType: WireType.LengthDelimited,
  empty: () => '',
  read: (reader) => reader.string(),
  write: (writer, value) => value !== '' && writer.tag(no, WireType.LengthDelimited).string(value),
})

export const bool = (no: number): Field<boolean> => ({
  no,
  wireType: WireType.Varint,
  empty: () => false,
  read: (reader) => reader.bool(),
  write: (writer, value) => value && writer.tag(no, WireType.Varint).bool(value),
})

/** int32 and every enum; also uint32 below 2^31, whose bytes are equal. */
export const int32 = (no: number): Field<number> => ({
  no,
  wireType: WireType.Varint,
  empty: () => 0,
  read: (reader) => reader.int32(),
  write: (writer, value) => value !== 0 && writer.tag(no, WireType.Varint).int32(value),
})

/** map<string, string>: on the wire a repeated message {key = 1, value = 2}. */
export const stringMap = (no: number): Field<Readonly<Record<string, string>>> => ({
  no,
  wireType: WireType.LengthDelimited,
  empty: () => ({}),
  read: (reader, before) => {
    const { key, value } = decode(mapEntry, reader.bytes())
    return { ...before, [key]: value }
  },
  write: (writer, values) => {
    for (const [key, value] of Object.entries(values)) {
      writer.tag(no, WireType.LengthDelimited).bytes(encode(mapEntry, { key, value }))
    }
  },
})

export const one = <S extends Shape>(
  no: number,
  shape: S,
): Field<Decoded<S> | undefined, Encodable<S> | undefined> => ({
  no,
  wireType: WireType.LengthDelimited,
  empty: () => undefined,
  read: (reader) => decode(shape, reader.bytes()),
  write: (writer, value) => value && writer.tag(no, WireType.LengthDelimited).bytes(encode(shape, value)),
})

export const many = <S extends Shape>(no: number, shape: S): Field<readonly Decoded<S>[], readonly Encodable<S>[]> => ({
  no,
  wireType: WireType.LengthDelimited,
  empty: () => [],
  read: (reader, before) => [...before, decode(shape, reader.bytes())],
  write: (writer, values) => {
    for (const value of values) writer.tag(no, WireType.LengthDelimited).bytes(encode(shape, value))
  },
})

const mapEntry = { key: string(1), value: string(2) }

/** The bytes of a message; like every proto3 encoder it omits empty values. */
export function encode<S extends Shape>(shape: S, message: Encodable<S>): Uint8Array {
  const writer = new BinaryWriter()
  for (const [name, field] of Object.entries(shape)) {
    const value: unknown = message[name]
    if (value !== undefined) field.write(writer, value)
  }
  return writer.finish()
}

/** The message in `data`, without fields that the table does not name. Throws Error when the bytes are truncated. */
export function decode<S extends Shape>(shape: S, data: Uint8Array): Decoded<S> {
  const values: Record<string, unknown> = {}
  const names = new Map<number, string>()
  for (const [name, field] of Object.entries(shape)) {
    values[name] = field.empty()
    names.set(field.no, name)
  }
  const reader = new BinaryReader(data)
  while (reader.pos < reader.len) {
    const [no, wireType] = reader.tag()
    const name = names.get(no)
    const field = name === undefined ? undefined : shape[name]
    if (name !== undefined && field?.wireType === wireType) values[name] = field.read(reader, values[name])
    else reader.skip(wireType, no)
  }
  return values as Decoded<S>
}
