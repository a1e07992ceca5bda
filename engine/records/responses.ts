import type { Rows } from '../database/index.ts';
import { errors } from '../errors.ts';

/** One record: the JSON that PostgreSQL built, as it is. @throws HttpError 404 where there is no row */
export function recordResponse(rows: Rows): string {
  const record = rows[0]?.[0];
  if (record === undefined || record === null) throw errors.notFound();
  return record;
}
