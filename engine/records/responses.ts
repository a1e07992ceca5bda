import type { TextRows } from '../database/index.ts';
import { errors } from '../errors.ts';
import { allocate } from '../sql/index.ts';
import type { OperationContext, OperationResponse } from './operation.ts';
import { entityTag } from './preconditions.ts';

/** A row that a statement returns for one record: its JSON, its versions and additional columns. */
type RecordRow = readonly [record: string | Buffer, versions: string, ...more: readonly (string | null)[]];

/**
 * Returns the response with a record's JSON and its entity tag.
 * @throws HttpError 404 if there is no row; 412 if the record does not meet the request's preconditions
 */
export function recordResponse(context: OperationContext, rows: TextRows): OperationResponse {
  const [body, versions] = recordRow(context, rows);
  return { body, headers: { etag: entityTag(context, versions) } };
}

/**
 * Returns the row that a statement returned for one record.
 * @throws HttpError in the same cases as {@link recordResponse}
 */
export function recordRow({ definition }: Pick<OperationContext, 'definition'>, [row]: TextRows): RecordRow {
  if (row === undefined) throw errors.recordNotFound(definition.singular);
  // `prepareById` returns nulls if the record exists but does not meet the preconditions.
  if (row[0] === null) throw errors.preconditionFailed();
  return row as unknown as RecordRow;
}

/** Concatenates a body with ASCII text before and after it. */
export function wrapBody(prefix: string, body: string | Buffer, suffix: string): string | Buffer {
  if (typeof body === 'string') return prefix + body + suffix;
  const buffer = allocate(prefix.length + body.length + suffix.length);
  buffer.write(prefix, 0, 'latin1');
  body.copy(buffer, prefix.length);
  buffer.write(suffix, prefix.length + body.length, 'latin1');
  return buffer;
}
