import type { TextRows } from '../database/index.ts';
import { errors } from '../errors.ts';
import { allocate } from '../sql/index.ts';
import type { OperationContext, OperationResponse } from './operation.ts';
import { entityTag } from './preconditions.ts';

/** The row of a statement about one record: the record as JSON, its versions, and what else the statement selects. */
type Found = readonly [record: string | Buffer, versions: string, ...more: readonly (string | null)[]];

/**
 * One record: its JSON, unchanged, and its entity tag.
 * @throws HttpError 404 if there is no row; 412 if the record was not written because of the request's conditions
 */
export function recordResponse(context: OperationContext, rows: TextRows): OperationResponse {
  const [body, versions] = recordRow(context, rows);
  return { body, headers: { etag: entityTag(context, versions) } };
}

/** The row of a statement about one record. @throws HttpError as {@link recordResponse} */
export function recordRow({ definition }: Pick<OperationContext, 'definition'>, [row]: TextRows): Found {
  if (row === undefined) throw errors.recordNotFound(definition.singular);
  // A record that is there but did not meet the conditions, see `prepareById`.
  if (row[0] === null) throw errors.preconditionFailed();
  return row as unknown as Found;
}

/** A body from its parts; those around the middle one are ASCII. */
export function wrapBody(before: string, body: string | Buffer, after: string): string | Buffer {
  if (typeof body === 'string') return before + body + after;
  const whole = allocate(before.length + body.length + after.length);
  whole.write(before, 0, 'latin1');
  body.copy(whole, before.length);
  whole.write(after, before.length + body.length, 'latin1');
  return whole;
}
