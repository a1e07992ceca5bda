import type { Rows } from '../database/index.ts';
import { errors } from '../errors.ts';
import { slice } from '../sql/index.ts';
import type { OperationResponse } from './operation.ts';

/** One record: its JSON, unchanged. @throws HttpError 404 if there is no row */
export function recordResponse(rows: Rows): OperationResponse {
  const body = rows[0]?.[0];
  if (body === undefined || body === null) throw errors.notFound();
  return { body };
}

/** A body from its parts; those around the middle one are ASCII. */
export function around(before: string, body: string | Buffer, after: string): string | Buffer {
  if (typeof body === 'string') return before + body + after;
  const whole = slice(before.length + body.length + after.length);
  whole.write(before, 0, 'latin1');
  body.copy(whole, before.length);
  whole.write(after, before.length + body.length, 'latin1');
  return whole;
}
