import type { TextRows } from '../database/index.ts';
import { errors } from '../errors.ts';
import { cell, type Row, rowDecoder } from '../sql/index.ts';
import type { OperationContext } from './operation.ts';
import { entityTag } from './preconditions.ts';
import type { RecordResult } from './results.ts';

/** Columns that a statement returns for a record: its JSON and its versions. */
export const recordColumns = { json: cell.encoded, versions: cell.text };

/** Columns that a statement returns for a written record. */
export const writtenColumns = { ...recordColumns, id: cell.text };

/** Decodes a record's JSON and versions. */
export const decodeRecord = rowDecoder(recordColumns);

/** Decodes a written record. */
export const decodeWritten = rowDecoder(writtenColumns);

/** Returns the row of a record. @throws HttpError 404 if the record does not exist */
export function foundRow(
  { definition }: Pick<OperationContext, 'definition'>,
  [row]: TextRows,
): TextRows[number] {
  if (row === undefined) throw errors.recordNotFound(definition.singular);
  return row;
}

/** Returns a record and its entity tag. */
export const recordResult = (
  context: OperationContext,
  { json, versions }: Row<typeof recordColumns>,
): RecordResult => ({ kind: 'record', json, tag: entityTag(context, versions) });
