import type { Rows } from '../database/index.ts';
import { errors } from '../errors.ts';
import { entityTag } from './conditions.ts';
import type { OperationContext, OperationResponse } from './operation.ts';

/**
 * One record: the JSON that PostgreSQL built, unchanged, and its entity tag.
 * @throws HttpError 404 if there is no row; 412 if the record was not written because of the request's conditions
 */
export function recordResponse(context: OperationContext, rows: Rows): OperationResponse {
  const [record, , versions] = foundRow(rows);
  return { body: record ?? '', headers: { etag: entityTag(context, versions ?? '') } };
}

/** The row of a statement about one record. @throws HttpError as {@link recordResponse} */
export function foundRow([row]: Rows): Rows[number] {
  if (row === undefined) throw errors.notFound();
  // A record that is there but did not meet the conditions, see `prepareById`.
  if (row[0] === null) throw errors.preconditionFailed();
  return row;
}
