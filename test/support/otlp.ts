// Test support: an OpenTelemetry collector on loopback that parses the protocol buffers it receives.
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';

/** A received span. */
export interface ReceivedSpan {
  readonly trace: string;
  readonly id: string;
  readonly parent: string;
  readonly name: string;
  /** Kind of span: 2 is a server span, 3 is a client span. */
  readonly kind: number;
  /** Start time, in nanoseconds since 1970. */
  readonly start: bigint;
  readonly end: bigint;
  readonly attributes: Readonly<Record<string, string | number>>;
  /** Status code: 2 is an error. */
  readonly status: number;
  /** Attributes of the sender's resource. */
  readonly resource: Readonly<Record<string, string | number>>;
}

/** A running collector. */
export interface Collector {
  readonly url: string;
  readonly spans: readonly ReceivedSpan[];
  readonly requests: readonly { readonly path: string; readonly headers: IncomingHttpHeaders }[];
  /** Sets the status of subsequent responses. */
  readonly respond: (status: number) => void;
  readonly close: () => Promise<void>;
}

export async function startCollector(): Promise<Collector> {
  const spans: ReceivedSpan[] = [];
  const requests: Collector['requests'][number][] = [];
  let status = 200;
  const server = createServer(async (request, response) => {
    const body = await buffer(request);
    requests.push({ path: request.url ?? '', headers: request.headers });
    if (status === 200) spans.push(...spansOf(body));
    response.writeHead(status, { 'content-type': 'application/x-protobuf' }).end();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    spans,
    requests,
    respond: (next) => {
      status = next;
    },
    close: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

type Field = Buffer | bigint;

/** Returns a message's fields, keyed by field number. */
function fieldsOf(message: Buffer): Map<number, Field[]> {
  const fields = new Map<number, Field[]>();
  let at = 0;
  const varint = (): bigint => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = message[at++] ?? 0;
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  };
  const bytes = (length: number) => {
    at += length;
    return message.subarray(at - length, at);
  };
  while (at < message.length) {
    const key = Number(varint());
    const wire = key & 7;
    let field: Field;
    if (wire === 0) field = varint();
    else if (wire === 1) field = bytes(8).readBigUInt64LE();
    else if (wire === 5) field = BigInt(bytes(4).readUInt32LE());
    else field = bytes(Number(varint()));
    const known = fields.get(key >> 3) ?? [];
    fields.set(key >> 3, [...known, field]);
  }
  return fields;
}

const messages = (fields: Map<number, Field[]>, number: number): Map<number, Field[]>[] =>
  (fields.get(number) ?? []).map((field) => fieldsOf(field as Buffer));
const first = (fields: Map<number, Field[]>, number: number) => fields.get(number)?.[0];
const hex = (field: Field | undefined) => (Buffer.isBuffer(field) ? field.toString('hex') : '');

/** Returns the attributes in a field. Field numbers are defined in opentelemetry/proto. */
const attributesOf = (fields: Map<number, Field[]>, number: number) =>
  Object.fromEntries(
    messages(fields, number).map((pair) => {
      const [value] = messages(pair, 2);
      const text = value && first(value, 1);
      const double = value && first(value, 4);
      const other = Number(value && (first(value, 3) ?? first(value, 2) ?? 0n));
      const bits = Buffer.alloc(8);
      if (typeof double === 'bigint') bits.writeBigUInt64LE(double);
      const shown = text?.toString() ?? (double === undefined ? other : bits.readDoubleLE());
      return [String(first(pair, 1)), shown];
    }),
  );

const spansOf = (request: Buffer): ReceivedSpan[] =>
  messages(fieldsOf(request), 1).flatMap((resourceSpans) => {
    const resource = messages(resourceSpans, 1).map((each) => attributesOf(each, 1))[0] ?? {};
    return messages(resourceSpans, 2).flatMap((scope) =>
      messages(scope, 2).map((span) => ({
        trace: hex(first(span, 1)),
        id: hex(first(span, 2)),
        parent: hex(first(span, 4)),
        name: String(first(span, 5)),
        kind: Number(first(span, 6)),
        start: first(span, 7) as bigint,
        end: first(span, 8) as bigint,
        attributes: attributesOf(span, 9),
        status: Number(messages(span, 15).map((each) => first(each, 3))[0] ?? 0n),
        resource,
      })),
    );
  });
