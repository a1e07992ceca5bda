import type { Rows } from '../database/index.ts';
import { errors } from '../errors.ts';
import type { OperationResponse } from './operation.ts';

/** One record: the JSON that PostgreSQL built, unchanged. @throws HttpError 404 if there is no row */
export function recordResponse(rows: Rows): OperationResponse {
  const record = rows[0]?.[0];
  if (record === undefined || record === null) throw errors.notFound();
  return { body: record };
}
