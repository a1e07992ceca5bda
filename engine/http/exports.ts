import { Readable } from 'node:stream';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Database } from '../database/index.ts';
import {
  type ExportReader,
  exportStream,
  type FormatName,
  formatOf,
  formatOfType,
  type OperationPlan,
} from '../records/index.ts';
import { parseWeights } from './compression.ts';
import { varyBy } from './reply.ts';

/**
 * Returns the format that a client names (RFC 9110, section 12.5.1) and prefers to JSON. Returns undefined if JSON has
 * the same or a higher weight, or if none of the requested types is available.
 * @param accept the `Accept` header
 */
export function acceptedFormat(
  accept: string | undefined,
  formats: readonly FormatName[],
): FormatName | undefined {
  if (accept === undefined || accept === '*/*' || accept === 'application/json') return undefined;
  const weights = parseWeights(accept);
  // A specific type takes precedence over a media range with the same weight.
  const json = weights.get('application/json');
  const range = weights.get('application/*') ?? weights.get('*/*') ?? 0;
  let best: FormatName | undefined;
  let maxWeight = 0;
  for (const [type, weight] of weights) {
    const format = formatOfType(type);
    if (format === undefined || !formats.includes(format) || weight <= maxWeight) continue;
    if (json === undefined ? weight < range : weight <= json) continue;
    best = format;
    maxWeight = weight;
  }
  return best;
}

/** An operation to export, its plan, and the format. `assertAllowed` rejects if the caller is no longer authorized. */
interface ExportSource {
  readonly operation: Omit<ExportReader, 'plan'>;
  readonly plan: OperationPlan;
  readonly format: FormatName;
  readonly assertAllowed: () => Promise<void>;
}

/** Streams an operation's complete result in a format other than JSON. */
export async function sendExport(
  request: FastifyRequest,
  reply: FastifyReply,
  database: Database,
  { operation, plan, format, assertAllowed }: ExportSource,
): Promise<FastifyReply> {
  const stream =
    request.method === 'HEAD'
      ? Readable.from([])
      : await exportStream(database, operation, plan, format, assertAllowed);
  reply.header('content-type', contentTypes[format]);
  varyBy(reply, 'accept');
  return reply.send(request.server.compressedStream(request, reply, stream));
}

const contentTypes: Readonly<Record<FormatName, string>> = {
  csv: `${formatOf('csv').type}; charset=utf-8; header=present`,
  ndjson: `${formatOf('ndjson').type}; charset=utf-8`,
};
