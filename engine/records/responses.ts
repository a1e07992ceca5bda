import type { TextRows } from '../database/index.ts';
import { errors } from '../errors.ts';
import type { OperationContext } from './operation.ts';
import { entityTag } from './preconditions.ts';
import type { Json, RecordResult } from './results.ts';

/** A row that a statement returns for one record: its JSON, its versions and additional columns. */
type RecordRow = readonly [json: Json, versions: string, ...more: readonly (string | null)[]];

/**
 * Returns the written record and its entity tag.
 * @throws HttpError 404 if there is no row; 412 if the record does not meet the preconditions
 */
export function recordResult(context: OperationContext, rows: TextRows): RecordResult {
  const [json, versions] = recordRow(context, rows);
  return { kind: 'record', json, tag: entityTag(context, versions) };
}

/**
 * Returns the row that a statement returned for one record.
 * @throws HttpError in the same cases as {@link recordResult}
 */
export function recordRow({ definition }: Pick<OperationContext, 'definition'>, [row]: TextRows): RecordRow {
  if (row === undefined) throw errors.recordNotFound(definition.singular);
  // `prepareById` returns nulls if the record exists but does not meet the preconditions.
  if (row[0] === null) throw errors.preconditionFailed();
  return row as unknown as RecordRow;
}
