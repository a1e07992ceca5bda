import { Readable } from 'node:stream';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Database } from '../database/index.ts';
import {
  type ExportReader,
  exported,
  type FormatName,
  formatOf,
  formatOfType,
  type OperationPlan,
  type OperationRequest,
} from '../records/index.ts';
import { varyBy } from './reply.ts';
import { parseWeights } from './weights.ts';

/**
 * The format that a client asks for by name (RFC 9110, section 12.5.1), and likes at least as much as JSON; undefined:
 * JSON, also where none of its types can be served.
 * @param accept the header of the request
 */
export function acceptedFormat(
  accept: string | undefined,
  formats: readonly FormatName[],
): FormatName | undefined {
  if (accept === undefined || accept === '*/*' || accept === 'application/json') return undefined;
  const weights = parseWeights(accept);
  // A type that is named counts more than a range with the same weight.
  const json = weights.get('application/json');
  const range = weights.get('application/*') ?? weights.get('*/*') ?? 0;
  let best: FormatName | undefined;
  let most = 0;
  for (const [type, weight] of weights) {
    const format = formatOfType(type);
    if (format === undefined || !formats.includes(format) || weight <= most) continue;
    if (json === undefined ? weight < range : weight <= json) continue;
    best = format;
    most = weight;
  }
  return best;
}

/** What is exported. */
interface Export {
  readonly operation: ExportReader;
  readonly asked: OperationRequest;
  readonly format: FormatName;
  /** Rejects once the caller may not have any more. */
  readonly assertAllowed: () => Promise<void>;
}

/** Responds with the whole result of an operation in another format than JSON. */
export async function sendExport(
  request: FastifyRequest,
  reply: FastifyReply,
  database: Database,
  { operation, asked, format, assertAllowed }: Export,
): Promise<FastifyReply> {
  const plan: OperationPlan = operation.plan(asked);
  const sent =
    request.method === 'HEAD'
      ? Readable.from([])
      : await exported(database, operation, plan, format, assertAllowed);
  reply.header('content-type', contentTypes[format]);
  varyBy(reply, 'accept');
  return reply.send(request.server.compressedStream(request, reply, sent));
}

const contentTypes: Readonly<Record<FormatName, string>> = {
  csv: `${formatOf('csv').type}; charset=utf-8; header=present`,
  ndjson: `${formatOf('ndjson').type}; charset=utf-8`,
};
