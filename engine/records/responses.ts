import type { Rows } from '../database/index.ts';
import { errors } from '../errors.ts';
import type { OperationResponse } from './operation.ts';

/** One record: its JSON, unchanged. @throws HttpError 404 if there is no row */
export function recordResponse(rows: Rows): OperationResponse {
  const body = rows[0]?.[0];
  if (body === undefined || body === null) throw errors.notFound();
  return { body };
}

/** A body from its parts, in the encoding of the middle one. */
export const around = (before: string, body: string | Buffer, after: string): string | Buffer =>
  typeof body === 'string'
    ? before + body + after
    : Buffer.concat([Buffer.from(before), body, Buffer.from(after)]);
